"""Limits of the node: configuration, listeners, what it holds for clients, the recorder, control tables."""

from __future__ import annotations

from typing import Final

# -- the node's configuration --------------------------------------------------------------------------------

CONFIG_BYTES: Final = 4 << 20
"""A configuration file: 60 policies of the largest size written out, or 20,000 users."""

CONFIG_PROBLEMS: Final = 20
"""Problems of one configuration that are told; more would not be read."""

# -- listeners -----------------------------------------------------------------------------------------------

LISTEN_BACKLOG: Final = 4_096
"""Connections the kernel holds until we take them: clients that all come back at once. Linux's own bound."""

TLS_HANDSHAKES: Final = 1_000
"""At one listener at a time, of some 100 KB each; one more sends away the oldest. A thousand clients that
come back at once take two seconds of processor time for theirs."""

TLS_SHUTDOWN_S: Final = 2
"""How long a TLS peer may take to say goodbye; a silent one would keep its socket for 30 s."""

WEBSOCKET_HANDSHAKES: Final = 1_000
"""Connections at one listener that are not WebSockets yet; one more sends away the oldest of them."""

WEBSOCKET_SPARE_BYTES: Final = 1 << 16
"""A WebSocket message may be larger than the largest packet by this: the packets before it."""

# -- the broker: what it holds for clients that are slow, away or many ---------------------------------------

FIRM_EVENTS: Final = 100_000
"""QoS 1 and 2 messages that wait for a subscription without a policy: a day of one a second; some 50 MB."""

FIRM_BYTES: Final = 64 << 20
"""Bytes of the same."""

RUN_BYTES: Final = 16_384
"""Bytes forwarded as one piece: what a stalled receiver takes in beyond its transport's buffer."""

FLUSH_BYTES: Final = 32_768
"""Bytes collected for a connection before they are written at once: a stalled client then swallows some 160
KB, 1,500 events of 100 bytes, most of it in the kernel."""

SLOW_PAUSE_US: Final = 50_000
"""A client whose transport takes nothing for longer is on a slow link; its buffers are made small."""

FAST_PAUSE_US: Final = 5_000
"""One with small buffers whose transport is empty again sooner is not, any more."""

SLOW_FLUSH_BYTES: Final = 2_048
"""Bytes written at once to a client on a slow link, and asked for as its socket's buffer (the kernel has a
least of its own): at 50 kbit/s some 3 s less between the policy and the receiver."""

SEND_BUFFER_BYTES: Final = 1 << 20
"""Asked for when a client is fast again; the kernel gives what it allows."""

DRAIN_ITEMS: Final = 64
"""Items taken from a queue at a time: the transport is asked whether it takes more after so many."""

UNSENT_BYTES: Final = 1 << 20
"""Answers that wait for a client which does not read them; then it is not read from either."""

UNSENT_LOWAT: Final = 16_384
"""TCP_NOTSENT_LOWAT: what the kernel takes beyond the receiver's window. Without it a stalled client
swallowed 38,800 events, at no gain in throughput."""

ROUTES: Final = 65_536
"""Topics whose receivers are remembered."""

INLINE_POLICIES: Final = 1_000
"""Policies in SUBSCRIBE packets that are remembered compiled."""

JOURNAL_ROWS: Final = 200_000
"""Rows that may wait for the disk; beyond it QoS 1 and 2 messages for kept sessions are refused."""

JOURNAL_DROPS: Final = 1_000
"""Oldest events a queue drops before the store hears of it: finding out costs a look at the whole queue."""

JOURNAL_RETRY_S: Final = 1.0
"""Between attempts to write when the disk is full or gone."""

LATENCY_SAMPLES: Final = 256
"""Of one subscription: enough for a 99th percentile."""

PROPERTY_SETS: Final = 4_096
"""Sets of properties remembered decoded, of at most PROPERTY_BYTES: publishers repeat theirs."""

PROPERTY_BYTES: Final = 256
"""See PROPERTY_SETS."""

# -- the recorder --------------------------------------------------------------------------------------------

RECORD_GROUP: Final = 10_000
"""Events written to a file at once: one row group, some 1 MB."""

RECORD_LATEST_S: Final = 1.0
"""Events wait for so long, at most, until their row group is written."""

RECORD_BYTES: Final = 64 << 20
"""Bytes of events that may wait for the disk, beside the configured number of them."""

RECORD_SPARE_BYTES: Final = 16 << 20
"""Space on the disk that recording leaves: for the end of the file that is being written, and for others."""

RECORD_RETRY_S: Final = 5.0
"""Between attempts to write when the disk is full or gone."""

# -- control tables ------------------------------------------------------------------------------------------

CONTROL_ROWS: Final = 10_000_000
"""Of one control table: more channels or flows than one node serves; some 500 MB while it is read."""

CONTROL_VERSION_BYTES: Final = 1 << 20
"""Of its version.json: names of some ten thousand files."""

CONTROL_LOOK_S: Final = 5.0
"""Between looks for a newer version: a look is one listing of a folder."""
