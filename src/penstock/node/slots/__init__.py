"""Time slots on a node: flows of constant rate are declared or detected, and their messages go first.

declared.py   periods that clients declare in user properties
flows.py      all flows: drives the control of flows, publishes $flows topics
publisher.py  a publisher that assigns messages to flows and lanes
elsewhere.py  assigns messages of other nodes to flows and lanes
links.py      the links of receivers, and the capacity of each
lanes.py      messages of flows that wait before one receiver
status.py     figures of all flows
"""
