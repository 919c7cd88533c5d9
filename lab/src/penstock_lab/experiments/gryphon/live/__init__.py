"""The Gryphon experiments E1 and E2 between real processes on loopback.

tree.py  four nodes, their MQTT clients, and samples once a second
e1.py    a link fails and comes back
e2.py    a bottleneck that changes
"""
