"""MQTT sessions that publish into streams and subscribe to them.

- `publishing`: diverts messages on the topics of streams into their logs.
- `items`: a message of a stream on its way to sessions, and the subscriptions that it is for.
- `feeds`: where a session that is behind reads what it missed.
- `place`: the position of a session in a stream, what is in flight, and its row on disk, the cursor.
- `sender`: sends messages of a stream to a session, takes its acknowledgements.
- `reader`: one session's reader of one stream, made of a place and a sender.
- `cursor_saver`: writes the cursors to disk.
- `stream_readers`: all readers of one stream.
- `session_readers`: all readers of one session.
- `subscriptions`: all sessions of the node that read streams.
"""
