"""Nodes as a cluster: what crosses from one to another, beside one node, NATS and a Mosquitto bridge.

one_hop.py  throughput and latency from a publisher at one node to a subscriber at another
growth.py   one to eight nodes on this machine, and many subscriptions at another node
fan_out.py  bytes on each link, with one subscriber and with a hundred behind it
"""
