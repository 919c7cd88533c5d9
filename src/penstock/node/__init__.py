"""The node: an MQTT broker whose queues drop by the receivers' policies.

The only place for asyncio and sockets. `config` says what a node can be told, `status` what can be known
about one that runs.
"""
