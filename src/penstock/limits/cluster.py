"""Limits of the cluster: links between nodes, and what a node accepts from another one."""

from __future__ import annotations

from typing import Final

CLUSTER_WINDOW_BYTES: Final = 256 << 10
"""Bytes on their way over a link without acknowledgement: a round trip of 0.3 ms at 800 MB/s. What does not
fit waits in the queue of the link, where it is counted, and not in the fabric, which drops without a word."""

CLUSTER_FRAME_BYTES: Final = 32 << 10
"""Bytes of small items that are put together into one frame: a frame costs about as much as 200 events."""

CLUSTER_ITEM_BYTES: Final = 288 << 20
"""Largest item of a frame: the largest MQTT message with what a node adds to it."""

CLUSTER_QUEUE_EVENTS: Final = 10_000
"""Default capacity of the queue of a link in events: a second of a busy node."""

CLUSTER_QUEUE_BYTES: Final = 32 << 20
"""Default capacity of the queue of a link in bytes."""

CLUSTER_RETRY_LEAST_US: Final = 500_000
"""A frame that is not acknowledged for this long is sent again: many round trips, and a short stall."""

CLUSTER_RETRY_MOST_US: Final = 8_000_000
"""Longest pause between two attempts."""

CLUSTER_ASK_US: Final = 20_000
"""Shortest time between two requests of a receiver for frames that are missing."""

CLUSTER_FILTERS: Final = 1_000_000
"""Filters that a node accepts from one other node; 10,000 clients with 100 subscriptions each."""

CLUSTER_TOMBSTONES: Final = 100_000
"""Deleted retained messages that a node remembers, so that no node brings one back: as many as are kept."""

CLUSTER_MEMBERS: Final = 1_000
"""Nodes of a cluster that a node keeps links to; a full mesh of more needs trees."""

CLUSTER_NAME_CHARACTERS: Final = 64
"""Longest name of a cluster, a node or a zone: it is part of keys and of every log line."""

CLUSTER_LEASE_S: Final = 3.0
"""A node that is silent for this long is away; the fabric notices a closed connection at once."""

CLUSTER_FORGET_S: Final = 60.0
"""A node that is away for this long is given up: what waits for it is abandoned and told so."""

CLUSTER_JOIN_S: Final = 5.0
"""A node looks for its cluster at most this long before it serves, and waits this long for another node of
its name to go: longer than the lease of a node that was killed."""

CLUSTER_REFUSED: Final = 1_000
"""Strange nodes that are remembered, so that the log names each of them once."""
