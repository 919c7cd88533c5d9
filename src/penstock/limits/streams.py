"""Limits of reliable streams: between nodes, for programs that connect to a node, in Spark."""

from __future__ import annotations

from typing import Final

STREAM_FRAME_BYTES: Final = 1 << 25
"""A message between nodes: the largest payload a node takes from an MQTT client, with its topic."""

STREAM_BODY_BYTES: Final = STREAM_FRAME_BYTES - 4_096
"""Of a stream's message with its topic and properties: it must fit into a frame."""

STREAM_UNLOGGED: Final = 4_096
"""Messages of one connection that streams have not acknowledged: beyond them it is not read from. More than
the window of nearly all clients; others (QoS 0, MQTT 3.1.1) have no window."""

STREAM_UNLOGGED_BYTES: Final = 1 << 23
"""The same in bytes."""

STREAM_SPANS: Final = 1_024
"""Spans of one NACK, 20 KB: whoever misses more asks for the rest with the next."""

STREAM_CURIOUS: Final = 1 << 16
"""Gaps of a stream that one neighbour may have asked for and not been told, 1 MB: a gap between any two of
the messages that come in ten seconds. Whoever asks for more asks again."""

STREAM_NAME_CHARS: Final = 1_024
"""Name of a pubend or of a node."""

STREAM_TICKS: Final = 1 << 62
"""Ticks lie below this: two million years of milliseconds with a thousand ticks each, and 64 bits hold it."""

STREAM_HELLO_BYTES: Final = 1 << 16
"""The first frame of whoever calls, read before anything is known about the caller."""

STREAM_OFFERS: Final = 10_000
"""Streams that a neighbour may offer, and that a node knows in all: a core of each is kept here."""

STREAM_TOPICS: Final = 1_000
"""Topic filters of one stream."""

STREAM_ALIVE_S: Final = 3.0
"""A link on which nothing was said for so long says that it is alive."""

STREAM_DEAD_S: Final = 10.0
"""A link on which nothing was heard for so long is dead: three times silent, and one second for the way."""

STREAM_CALL_LEAST_S: Final = 0.2
"""First pause before a neighbour is called again: it may just have started anew."""

STREAM_CALL_MOST_S: Final = 5.0
"""Longest pause before a neighbour is called again: a tree has few nodes, and streams wait for the link."""

STREAM_CONTROL_BYTES: Final = 4 << 20
"""What may wait for a link beside its data; a neighbour that lets more wait is cut off and met again."""

STREAM_WRITE_BYTES: Final = 1 << 15
"""Written to a link at once, and what may lie unsent behind it: control cannot overtake that."""

STREAM_HANDSHAKES: Final = 256
"""Callers at the streams' door whose greeting is not read and checked yet; more are refused."""

STREAM_READ: Final = 256
"""Messages read from a log at once to answer a NACK: the loop turns between two reads."""

STREAM_ANSWER_BYTES: Final = 16 << 20
"""Read from a log at once to answer NACKs, twice what may wait before a link: the rest would be dropped there
and is asked for again anyway."""

CLIENT_STREAMS: Final = 1_000
"""Streams whose place a client keeps for each of its subscriptions."""

STREAM_FLIGHT: Final = 1_024
"""Messages of one stream that one session has not acknowledged, however large its window: each is in memory,
and those of QoS 2 are written down with every further one."""

STREAM_FEEDS: Final = 16
"""Sessions that catch up with one stream of another node at a time: each asks for messages of its own."""

STREAM_FETCH: Final = 4_096
"""Messages in one answer to a program, unless it asks for fewer."""

STREAM_FETCH_BYTES: Final = 1 << 20
"""Bytes of messages in one answer to a program, unless it asks for fewer; a single one may be larger."""

STREAM_PARTS: Final = 10_000
"""Parts that a span is cut into for a program at once."""

STREAM_REQUESTS: Final = 16
"""Requests of one program under way at once; it is not read from before one of them is answered."""

STREAM_REQUEST_BYTES: Final = 4 << 20
"""And so many bytes of them, if it is more than one."""

STREAM_REQUESTS_BYTES: Final = 256 << 20
"""Bytes of requests that all programs together have under way: sixty that fill their own bound."""

STREAM_REQUEST_SMALL_BYTES: Final = 4_096
"""Smaller ones do not count for that, or whoever reads would wait for those who write into a stream that
takes nothing: most requests without rows are. A thousand programs with STREAM_REQUESTS of them have
64 MB."""

STREAM_REQUEST_S: Final = 120
"""A request that has begun to come is whole after so long for each of its megabytes, or its program is
disconnected: it takes room from others. Time over the slowest lines, 70 kbit/s."""

STREAM_ANSWERS_BYTES: Final = 128 << 20
"""Bytes of answers to programs that wait to be sent; the nearer it comes, the smaller answers are made."""

STREAM_FETCH_LEAST_BYTES: Final = 1 << 15
"""But not smaller than this: a thousand programs that do not read have 32 MB."""

STREAM_UNACKED: Final = 50_000
"""Messages of a stream that are not acknowledged, half of what a pubend holds: programs wait beyond this."""

STREAM_ROOM_S: Final = 0.05
"""How long they wait before they look again."""

STREAM_IDLE_COUNT_S: Final = 3_600
"""How often the silence of consumers and writers is counted."""

STREAM_CONSUMERS: Final = 10_000
"""Consumers of a stream, each with a place on disk that the log waits for."""

STREAM_CONSUMER_S: Final = 7 * 86_400
"""A consumer that asks for nothing for so long is forgotten: its messages would fill the disk."""

STREAM_WRITERS: Final = 10_000
"""Writers whose last number is known for a stream."""

STREAM_WRITER_S: Final = 30 * 86_400
"""A writer that is silent for so long is forgotten; what it sends again afterwards is new."""

STREAM_STAGED_BYTES: Final = 4 << 30
"""Rows on disk that wait for the commit of their batch; more are refused."""

STREAM_STAGED_S: Final = 86_400
"""Rows that nobody commits for so long belong to a job that is no more."""

STREAM_APPEND: Final = 512
"""Messages of a program in one request; a stream that is committed twice a millisecond fills no more."""

STREAM_APPEND_BYTES: Final = 1 << 18
"""Or this many bytes of them."""

STREAM_ROW_BYTES: Final = STREAM_FRAME_BYTES - (1 << 20)
"""A line that is written into a stream: a frame less its topic; the node may take less."""

STREAM_KEEP_ALIVE_S: Final = 15
"""A program's idle connection is probed this often: a machine that is gone is noticed in a minute."""

STREAM_RECONNECT_LEAST_S: Final = 0.1
"""First pause of a program before it connects again; it doubles with each failure."""

STREAM_RECONNECT_MOST_S: Final = 5
"""Longest pause of a program before it connects again: programs are fewer than MQTT clients."""

STREAM_PARTITION_ROWS: Final = 100_000
"""Messages of one task of Spark, unless it is told: a second or two of reading."""

STREAM_PATIENCE_S: Final = 60
"""How long Spark tries to reach a node, unless it is told: a restart, and some more."""

STREAM_WAIT_MS: Final = 30_000
"""An empty answer to a program that waits for messages follows at the latest after so long."""

STREAM_STALLED_S: Final = 10
"""A program whose request waits for a disk that takes nothing is told so after so long: most that is wrong
with disks passes sooner, or not by itself."""

STREAM_UNKEPT: Final = 100_000
"""Requests, given up ones among them, that wait for a file of places that cannot be written; more are refused
at once. Some 50 MB."""

STREAM_CONSUMERS_SHOWN: Final = 100
"""Consumers of one stream in an answer of the API, those with the oldest places; the total counts all."""
