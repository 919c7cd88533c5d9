"""Reliable streams on a node: topics whose messages are logged, delivered once and in order, never dropped.

The settings are in `node.config.streams` (section `streams:` of the configuration). Read in this order:

- `log/`: where the messages of a stream are stored (SQLite or NATS JetStream), and the state beside the logs.
- `tree/`: the driver of the core, the streams hosted here, and the links to neighbour nodes.
- `sessions/`: MQTT sessions that publish into streams and subscribe to them.
- `programs/`: the listener for neighbour nodes and for programs that use streams without MQTT.
- `status`: the figures of streams as the API, metrics and $SYS show them.
- `service`: creates, starts and stops all of these, and collects the status.
"""
