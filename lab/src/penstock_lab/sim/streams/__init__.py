"""Reliable streams, simulated: a tree of nodes with the broker core unchanged.

node.py           one node with its links, log, subscribers and publishers; the history of messages
network.py        the tree of nodes and everything between them
checks.py         the rules that every history must keep
random_faults.py  one random run with every kind of fault, by seed
gryphon.py        the congestion experiments of Pietzuch and Bhola (2003)
"""
