"""Nodes as one system: ids on a ring, digits they share, wedges of nodes around an id."""
