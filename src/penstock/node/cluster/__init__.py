"""The cluster: this node and others as one system.

    fabric.py          what carries frames between nodes and tells who is there
    zenoh_fabric.py    the fabric made of Eclipse Zenoh
    records.py         messages as they cross a link
    peer.py            another node, as the broker sees it
    service.py         the nodes of the cluster, their links, and what comes over them
    status.py          figures of the cluster

Only `zenoh_fabric.py` knows Zenoh, and only a node with `cluster:` imports any of this.
"""
