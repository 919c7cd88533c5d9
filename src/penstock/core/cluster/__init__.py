"""Nodes as one system: ids on a ring, prefixes of digits that ids share, wedges of nodes around an id.

Everything here is computed from the list of live nodes.

    ring.py            ids, and which live nodes own one
    wedges.py          the nodes that poll together, and the prefix table of a node
    dissemination.py   how a delta reaches all nodes of a wedge
"""
