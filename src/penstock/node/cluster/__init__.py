"""The cluster: this node and others as one system.

    fabric.py          what carries frames between nodes and tells who is there
    zenoh_fabric.py    the fabric made of Eclipse Zenoh
    direct/            connections of our own between two nodes, past Zenoh
    refusals.py        connections to its port that never became a node
    records.py         messages as they cross a link
    peer.py            another node, as the broker sees it
    service.py         the nodes of the cluster, the links to them, and what goes over them
    sending.py         what goes to other nodes, along trees
    receiving.py       frames of other nodes, and which part handles which item
    incoming.py        what comes from other nodes, for the broker
    retained.py        retained messages, which all nodes have
    roots.py           which node has which session
    moves.py           sessions that come to this node with their clients
    departures.py      sessions that leave it
    claims.py          a session at two nodes: who has it
    trails.py          events that come too late for a session that has left
    strangers.py       events of nodes that the holder of a session has never met
    asking.py          questions to other nodes, and answers to theirs
    sharing.py         shared groups with members at several nodes
    draining.py        sends the clients of this node to others, and leaves the cluster
    status.py          figures of the cluster

Only `zenoh_fabric.py` knows Zenoh, and only a node with `cluster:` imports any of this.
"""
