"""Limits of the node: configuration, listeners, broker, recorder, control tables, access control."""

from __future__ import annotations

from typing import Final

# -- the node's configuration --------------------------------------------------------------------------------

CONFIG_BYTES: Final = 4 << 20
"""Largest configuration file: 60 policies of the largest size written out, or 20,000 users."""

CONFIG_PROBLEMS: Final = 20
"""Problems reported of one configuration."""

# -- listeners -----------------------------------------------------------------------------------------------

LISTEN_BACKLOG: Final = 4_096
"""Connections the kernel holds until we accept them, when all clients come back at once. Linux's own
limit."""

TLS_HANDSHAKES: Final = 1_000
"""TLS handshakes at one listener at a time, of some 100 KB each; one more closes the oldest. A thousand
clients that come back at once need two seconds of processor time.
"""

TLS_SHUTDOWN_S: Final = 2
"""How long a TLS peer may take to close; without it a silent peer would keep its socket for 30 s."""

WEBSOCKET_HANDSHAKES: Final = 1_000
"""Connections at one listener before their WebSocket handshake; one more closes the oldest of them."""

WEBSOCKET_SPARE_BYTES: Final = 1 << 16
"""A WebSocket message may exceed the largest packet by this much, for packets in front of it."""

# -- the broker: what it holds for clients that are slow, away or many ---------------------------------------

CLIENT_LOG_PER_S: Final = 20
"""Lines about clients in the log a second: 200 MB a day at most, when clients come and go all the time."""

CLIENT_LOG_BURST: Final = 200
"""Lines about clients at once: a small fleet that starts is seen in full."""

CLIENT_LOG_REPEAT_S: Final = 60
"""Time after which it is told again that a client may not publish on a topic, or subscribe to it."""

CLIENT_LOG_REMEMBERED: Final = 1_000
"""Clients and topics of which it is remembered that they were told: some 200 KB."""

FIRM_EVENTS: Final = 100_000
"""QoS 1 and 2 messages queued for a subscription without a policy: a day at one a second; some 50 MB."""

FIRM_BYTES: Final = 64 << 20
"""Bytes of QoS 1 and 2 messages queued for a subscription without a policy."""

RUN_BYTES: Final = 16_384
"""Bytes forwarded as one piece: a stalled receiver gets at most so much beyond its transport's buffer."""

FLUSH_BYTES: Final = 32_768
"""Bytes collected for a connection before they are written at once. A stalled client then absorbs some 160
KB, 1,500 events of 100 bytes, most of it in the kernel.
"""

SLOW_PAUSE_US: Final = 50_000
"""A client whose transport stays full for longer is on a slow link; its buffers are made small."""

FAST_PAUSE_US: Final = 5_000
"""A client on a slow link whose transport empties sooner is fast again."""

SLOW_FLUSH_BYTES: Final = 2_048
"""Bytes written at once to a client on a slow link, and its requested socket buffer (the kernel has a minimum
of its own): at 50 kbit/s some 3 s less between the policy and the receiver.
"""

TIMED_FLUSH_BYTES: Final = 256
"""Fewest bytes written at once to a client on a slow link for which time counts, and half of the unsent bytes
that the kernel takes for it: a tenth of a second at 50 kbit/s.
"""

TIMED_FLUSH_US: Final = 2_500
"""Time for which one write lasts a client for which time counts; above 105 Mbit/s the client is fast."""

SEND_BUFFER_BYTES: Final = 1 << 20
"""Socket buffer requested when a client is fast again; the kernel may grant less."""

DRAIN_ITEMS: Final = 64
"""Items taken from a queue before asking again whether the transport is full."""

UNSENT_BYTES: Final = 1 << 20
"""Acknowledgements queued for a client that does not read; then the node stops reading from it."""

UNSENT_LOWAT: Final = 16_384
"""TCP_NOTSENT_LOWAT: unsent bytes the kernel takes beyond the receiver's window. Without it a stalled client
absorbed 38,800 events, at no gain in throughput.
"""

ROUTES: Final = 65_536
"""Topics whose receivers are cached."""

INLINE_POLICIES: Final = 1_000
"""Compiled policies of SUBSCRIBE packets that are cached."""

JOURNAL_ROWS: Final = 200_000
"""Rows that may wait for the disk; beyond it QoS 1 and 2 messages for persistent sessions are refused."""

HELD_BYTES: Final = 262_144
"""Bytes of packets for one client that wait for the disk; then messages wait in the queues of subscriptions,
where policies reach them. A transaction takes some milliseconds: this is 50 MB/s and more for one client.
"""

RESERVED_IDS: Final = 1_000
"""Packet identifiers of one client that are in flight or reserved; messages that wait beyond them get theirs
when they are sent, and leave one transaction later.
"""

JOURNAL_DROPS: Final = 1_000
"""Events dropped at the old end of a queue before the store is told: finding them out walks the whole
queue."""

JOURNAL_RETRY_S: Final = 1.0
"""Between attempts to write when the disk is full or gone."""

LATENCY_SAMPLES: Final = 256
"""Latency samples of one subscription: enough for a 99th percentile."""

PROPERTY_SETS: Final = 4_096
"""Decoded property sets that are cached, each of at most PROPERTY_BYTES: publishers repeat theirs."""

PROPERTY_BYTES: Final = 256
"""Encoded bytes of a property set that is cached."""

# -- the recorder --------------------------------------------------------------------------------------------

RECORD_FIRST_S: Final = 10.0
"""Age at which the first file of a recording is finished; the next are twice as old each, up to
recorder.rotate_s: what was just recorded can be read soon, and files stay few."""

RECORD_GROUP: Final = 10_000
"""Events written to a file at once: one row group, some 1 MB."""

RECORD_LATEST_S: Final = 1.0
"""Longest time an event waits until its row group is written."""

RECORD_BYTES: Final = 64 << 20
"""Bytes of events that may wait for the disk, in addition to the configured number of events."""

RECORD_SPARE_BYTES: Final = 16 << 20
"""Free disk space that recording leaves, for closing the current file and for other programs."""

RECORD_RETRY_S: Final = 5.0
"""Between attempts to write when the disk is full or gone."""

RECORD_TRACES: Final = 1_000
"""Subscriptions of one sample of queues that are recorded, those furthest behind: some 100 KB."""

RECORD_ASK_S: Final = 10.0
"""Longest time a reader waits for the node to complete the file that it is writing: the node looks each
RECORD_LATEST_S, and a busy machine may take some seconds more."""

RECORD_MARK_S: Final = 7 * 86_400
"""Age at which a pipeline's mark no longer keeps files from being deleted: whoever gave a pipeline up must
not find the disk full."""

# -- control tables ------------------------------------------------------------------------------------------

CONTROL_ROWS: Final = 10_000_000
"""Rows of one control table: more channels or flows than one node serves; some 500 MB while it is read."""

CONTROL_VERSION_BYTES: Final = 1 << 20
"""Bytes of a control table's version.json: names of some ten thousand files."""

CONTROL_COMPARED: Final = 200_000
"""Rows of a control table up to which a node compares a new version with the one before: both are in memory
meanwhile."""

CONTROL_EXAMPLES: Final = 5
"""Rows of each kind of change that a node shows of a new version."""

CONTROL_REFUSED: Final = 100
"""Contents that were rolled back and are remembered as refused: far more than the versions that are kept."""

CONTROL_LOOK_S: Final = 5.0
"""Pause between checks for a newer version: a check is one listing of a folder."""


GATE_THREADS: Final = 2
"""Passwords checked at the same time: each takes 64 MB and 0.2 s of processor time."""

GATE_WAITING: Final = 200
"""Passwords waiting to be checked: two cores check ten a second, and clients give up after some 20 s."""

GATE_REMEMBERED: Final = 10_000
"""Users whose right password is remembered by its keyed hash, of 64 bytes."""

GATE_FAILURES: Final = 10
"""Wrong passwords an address may give in GATE_FAILURES_S: a person's typing errors, not a search."""

GATE_FAILURES_S: Final = 60
"""Window of GATE_FAILURES, in seconds."""

GATE_ADDRESSES: Final = 65_536
"""Addresses whose rate is remembered: some 10 MB."""

ARGON2_KIB: Final = 1 << 20
"""Memory of one password check that a hash may ask for, in KiB: 1 GiB; argon2's default is 64 MiB."""

ARGON2_ROUNDS: Final = 64
"""Rounds of one password check that a hash may ask for; argon2's default is 3."""

ACL_CLIENTS: Final = 10_000
"""Clients whose access rules are cached; then the cache is emptied."""

ACL_DECISIONS: Final = 1_000
"""Decisions cached for one client; then the cache is emptied."""
