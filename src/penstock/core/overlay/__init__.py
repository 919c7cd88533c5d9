"""Nodes as one system: ids on a ring, digits they share, wedges of nodes around an id.

`ids` has the numbers, `ring` who owns one, `wedges` who polls together, `prefix_table` whom a node knows,
`dissemination` how a delta reaches a wedge. All of it follows from the view of who is alive.
"""
