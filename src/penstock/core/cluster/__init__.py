"""Nodes as one system.

What two nodes say to each other; each file is a state machine that somebody else drives:

    frames.py          what goes over a link, as bytes
    link.py            one direction of a link: everything once and in order
    backlog.py         what waits for a link; what overflows is counted in digests
    interest.py        the filters of a node, told to the others
    peer.py            the link to another node: these together
    view.py            which nodes are there, and in which incarnation
    stamps.py          who wrote a retained message last

Ids on a ring, prefixes of digits that ids share, wedges of nodes around an id, computed from the list of live
nodes:

    ring.py            ids, and which live nodes own one
    wedges.py          the nodes that poll together, and the prefix table of a node
    dissemination.py   how a delta reaches all nodes of a wedge
"""
