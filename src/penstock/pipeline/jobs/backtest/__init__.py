"""Replays every queue of a recorded stream under candidate policies.

replay.py   the Spark job
account.py  accounts of queues that add up to the account of a stream
plots.py    latency, loss, levels and errors as plots
"""
