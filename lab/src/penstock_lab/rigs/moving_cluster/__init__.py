"""Whole nodes of a cluster in virtual time, whose clients move between them under random faults."""
