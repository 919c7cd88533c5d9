"""Protocol and scheduling logic without I/O: the caller passes in the time, random numbers and bytes.

queues/     bounded queues that drop by policy and count every event
streams/    reliable streams: every message once and in order
channels/   web pages as topics: when to poll, what changed
slots/      time slots: flows with a constant rate and their reservations
cluster/    which node owns which id
backoff.py  pauses that grow with each failure
"""
