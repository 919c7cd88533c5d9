"""A node against Mosquitto, both as processes on loopback.

throughput.py    throughput and latency
overload.py      a receiver on a link that is too slow
attach.py        a thousand clients that come back to waiting messages
idle_clients.py  thousands of clients that attach and stay
behind.py        what receivers that are behind cost a node
"""
