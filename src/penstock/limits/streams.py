"""Limits of reliable streams: between nodes, for programs that connect to a node, in Spark."""

from __future__ import annotations

from typing import Final

STREAM_FRAME_BYTES: Final = 1 << 25
"""A message between nodes: the largest payload a node takes from an MQTT client, with its topic."""

STREAM_BODY_BYTES: Final = STREAM_FRAME_BYTES - 4_096
"""Body of a stream's message with topic and properties: it must fit into a frame."""

STREAM_UNLOGGED: Final = 4_096
"""Unacknowledged stream messages of one connection; beyond it the node stops reading from it. More than the
window of nearly all clients; others (QoS 0, MQTT 3.1.1) have no window.
"""

STREAM_UNLOGGED_BYTES: Final = 1 << 23
"""Unacknowledged bytes for streams of one connection; beyond it the node stops reading from it."""

STREAM_SPANS: Final = 1_024
"""Spans of one NACK, 20 KB: the rest is asked for with the next NACK."""

STREAM_CURIOUS: Final = 1 << 16
"""Gaps of a stream that one neighbour may have asked for without an answer, 1 MB: a gap between any two of
the messages of ten seconds. A neighbour that asks for more has to ask again.
"""

STREAM_NAME_CHARS: Final = 1_024
"""Name of a pubend or of a node."""

STREAM_TICKS: Final = 1 << 62
"""Ticks lie below this: two million years of milliseconds with a thousand ticks each, within 64 bits."""

STREAM_HELLO_BYTES: Final = 1 << 16
"""First frame of a caller, read before anything is known about the caller."""

STREAM_OFFERS: Final = 10_000
"""Streams that a neighbour may offer, and that a node may know: the node keeps a core of each."""

STREAM_TOPICS: Final = 1_000
"""Topic filters of one stream."""

STREAM_ALIVE_S: Final = 3.0
"""A link on which nothing was sent for so long gets a keep-alive message."""

STREAM_DEAD_S: Final = 10.0
"""A link on which nothing was received for so long is dead: three keep-alives, and one second for the way."""

STREAM_CALL_LEAST_S: Final = 0.2
"""First pause before a neighbour is called again: it may just have restarted."""

STREAM_CALL_MOST_S: Final = 5.0
"""Longest pause before a neighbour is called again: a tree has few nodes, and streams wait for the link."""

STREAM_CONTROL_BYTES: Final = 4 << 20
"""Control bytes that may wait for a link; beyond it the link is closed and opened again."""

STREAM_WRITE_BYTES: Final = 1 << 15
"""Bytes written to a link at once, and left unsent behind it: control messages cannot overtake these."""

STREAM_HANDSHAKES: Final = 256
"""Callers at the stream listener whose first frame is not yet read and checked; more are refused."""

STREAM_READ: Final = 256
"""Messages read from a log at once to answer a NACK: other tasks run between two reads."""

STREAM_ANSWER_BYTES: Final = 16 << 20
"""Bytes read from a log at once to answer NACKs: twice what may wait before a link, where the rest would be
dropped and asked for again.
"""

CLIENT_STREAMS: Final = 1_000
"""Streams whose position a client keeps for each of its subscriptions."""

STREAM_FLIGHT: Final = 1_024
"""Unacknowledged messages of one stream in one session, however large its window: each is in memory, and
those of QoS 2 are written to disk with every further one.
"""

STREAM_FEEDS: Final = 16
"""Sessions that catch up with one stream of another node at a time: each asks for messages of its own."""

STREAM_FETCH: Final = 4_096
"""Messages in one answer to a program, unless it asks for fewer."""

STREAM_FETCH_BYTES: Final = 1 << 20
"""Bytes of messages in one answer to a program, unless it asks for fewer; a single one may be larger."""

STREAM_PARTS: Final = 10_000
"""Parts a program may have a span cut into at once."""

STREAM_REQUESTS: Final = 16
"""Requests of one program under way at once; the node does not read from it until one is answered."""

STREAM_REQUEST_BYTES: Final = 4 << 20
"""Bytes of requests of one program under way at once, if it is more than one request."""

STREAM_REQUESTS_BYTES: Final = 256 << 20
"""Bytes of requests that all programs together have under way: sixty programs at their own limit."""

STREAM_REQUEST_SMALL_BYTES: Final = 4_096
"""Smaller requests do not count for STREAM_REQUESTS_BYTES: most requests without rows are small, and readers
must not wait for writers whose stream is full. A thousand programs with STREAM_REQUESTS of them have 64 MB.
"""

STREAM_REQUEST_S: Final = 120
"""Seconds per megabyte for a request to arrive completely, else its program is disconnected: it occupies
room for others. Enough for the slowest lines, 70 kbit/s.
"""

STREAM_ANSWERS_BYTES: Final = 128 << 20
"""Bytes of answers to programs that wait to be sent; the nearer this limit, the smaller the answers."""

STREAM_FETCH_LEAST_BYTES: Final = 1 << 15
"""Smallest limit of an answer near STREAM_ANSWERS_BYTES: a thousand programs that do not read have 32 MB."""

STREAM_UNACKED: Final = 50_000
"""Unacknowledged messages of a stream, half of what a pubend holds; beyond it programs wait."""

STREAM_ROOM_S: Final = 0.05
"""Pause of a waiting program before it looks for room again."""

STREAM_IDLE_COUNT_S: Final = 3_600
"""How often idle consumers and writers are looked for."""

STREAM_CONSUMERS: Final = 10_000
"""Consumers of a stream, each with a position on disk up to which the log keeps messages."""

STREAM_CONSUMER_S: Final = 7 * 86_400
"""A consumer without a request for so long is deleted: its unread messages would fill the disk."""

STREAM_WRITERS: Final = 10_000
"""Writers of a stream whose last number is remembered."""

STREAM_WRITER_S: Final = 30 * 86_400
"""A writer that is silent for so long is forgotten; messages it repeats afterwards count as new."""

STREAM_STAGED_BYTES: Final = 4 << 30
"""Bytes of rows on disk that wait for the commit of their batch; more are refused."""

STREAM_STAGED_S: Final = 86_400
"""Rows not committed for so long belong to a job that no longer exists."""

STREAM_APPEND: Final = 512
"""Messages of a program in one request; a stream that is committed twice a millisecond fills no more."""

STREAM_APPEND_BYTES: Final = 1 << 18
"""Bytes of messages of a program in one request."""

STREAM_ROW_BYTES: Final = STREAM_FRAME_BYTES - (1 << 20)
"""Longest row written into a stream: a frame less its topic; the node may accept less."""

STREAM_KEEP_ALIVE_S: Final = 15
"""A program's idle connection is probed this often: a machine that is gone is noticed in a minute."""

STREAM_RECONNECT_LEAST_S: Final = 0.1
"""First pause of a program before it connects again; it doubles with each failure."""

STREAM_RECONNECT_MOST_S: Final = 5
"""Longest pause of a program before it connects again: programs are fewer than MQTT clients."""

STREAM_PARTITION_ROWS: Final = 100_000
"""Messages of one Spark task, unless set: a second or two of reading."""

STREAM_PATIENCE_S: Final = 60
"""How long Spark tries to reach a node, unless set: longer than a restart."""

STREAM_WAIT_MS: Final = 30_000
"""Longest wait of a program for messages; then it gets an empty answer."""

STREAM_STALLED_S: Final = 10
"""A program whose request waits for a disk that accepts nothing is told so after this time: most disk
problems pass sooner, or not by themselves.
"""

STREAM_UNKEPT: Final = 100_000
"""Requests, abandoned ones included, that wait for a positions file that cannot be written; more are refused
at once. Some 50 MB.
"""

STREAM_CONSUMERS_SHOWN: Final = 100
"""Consumers of one stream in an answer of the API, those with the oldest positions; the total counts all."""
