"""A node against Mosquitto, both as processes on loopback.

throughput.py         throughput and latency
overload.py           a receiver on a link that is too slow
attach.py             a thousand clients that come back to waiting messages
returning_clients.py  the thousand clients, in one process
"""
