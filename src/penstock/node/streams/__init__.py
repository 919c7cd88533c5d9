"""Reliable streams on a node: topics whose messages are logged, told once and in order, and never dropped.

`hub` drives the core; `hosted` are the streams that are published here, on a `log`; `reading` gives streams
to MQTT sessions; `door` and `links` join nodes to a tree; `serving` answers programs that read and write
streams without MQTT; `service` puts them together.
"""
