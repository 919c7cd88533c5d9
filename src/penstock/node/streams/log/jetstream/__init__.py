"""A stream's log in NATS JetStream: batches of messages, replicated by the NATS servers.

- `stream`: the connection to NATS, the requests to the JetStream server, the format of a batch.
- `reading`: finds ticks in the stream, caches what was read, reads in the background.
- `writing`: sends batches, deletes what was trimmed, reports faults.
- `log`: the log made of these parts.
"""
