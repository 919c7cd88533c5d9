"""Web channels on a node: fetch politely, find what changed, publish it, keep versions."""
