"""Clusters of real nodes.

kill.py     nodes killed, frozen and cut off while clients publish and subscribe
clients.py  the clients of it, and what they write down
"""
