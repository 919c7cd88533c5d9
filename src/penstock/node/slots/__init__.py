"""Time slots on the node: flows of constant rate are told or found out, and their messages go ahead.

`settings` is what a node is told, `declared` what clients say; `flows` drives the control of flows and tells
what happens to them, `publisher` asks it about each message, `lanes` holds what waits before a receiver;
`status` is what can be known.
"""
