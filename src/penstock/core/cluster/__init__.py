"""Nodes as one system.

What two nodes say to each other; each file is a state machine that somebody else drives:

    frames.py          what goes over a link, as bytes
    link.py            one direction of a link: everything once and in order
    backlog.py         what waits for a link; what overflows is counted in digests
    losses.py          dropped events, counted by class of receivers and filter until a digest tells them
    reserved.py        the lane of a link for events of flows with reserved slots
    private.py         the queues of a link that is behind, one for each class of receivers
    copies.py          what waits for one class: packed by its policy, or the oldest go
    interest.py        the filters of a node and the policies behind them, told to the others
    sharing.py         shared groups, told with their numbers of members, and what waits for them
    asking.py          questions to another node, and their answers
    peer.py            the link to another node: these together
    tree.py            who passes an event on to whom
    relay.py           frames of several links in one, as bytes
    forwarding.py      frames along trees, and what happens when a forwarder fails
    view.py            which nodes are there, and in which incarnation
    stamps.py          who wrote a retained message last
    sessions.py        the root of each client, and which node has its session
    seen.py            how far a session that moves has seen each origin
    handover.py        how a session comes from one node to another

Ids on a ring, prefixes of digits that ids share, wedges of nodes around an id, computed from the list of live
nodes:

    ring.py            ids, and which live nodes own one
    wedges.py          the nodes that poll together, and the prefix table of a node
    dissemination.py   how a delta reaches all nodes of a wedge
"""
