"""Logs of reliable streams: where a host stores the messages of a stream, and the state kept beside the logs.

- `protocol`: what the node needs of any log.
- `sqlite`: a log in an SQLite file.
- `jetstream/`: a log in NATS JetStream.
- `factory`: opens the log that the settings ask for.
- `state`: one SQLite file for everything durable beside the logs, and typed tables in it.
- `dedup`: which messages of a publisher are logged already.
- `records`: converts MQTT messages to the records that logs store, and back.
"""
