"""MQTT sessions that publish into streams and subscribe to them.

- `answers`: acknowledgements that wait until the stream has stored the message.
- `publishing`: diverts messages on the topics of streams into their logs.
- `cursors`: the durable position of each session in each stream.
- `items`: a message of a stream on its way to sessions, and the subscriptions that it is for.
- `feeds`: where a session that is behind reads what it missed.
- `reader`: one session's reader of one stream.
- `stream_readers`: all readers of one stream.
- `session_readers`: all readers of one session.
- `subscriptions`: all sessions of the node that read streams; saves their cursors.
"""
