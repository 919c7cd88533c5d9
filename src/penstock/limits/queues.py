"""Limits of the queues of receivers."""

from __future__ import annotations

from typing import Final

QUEUE_EVENTS: Final = 1_000
"""Default capacity of a queue in items: the size measured in the fast-path study."""

QUEUE_BYTES: Final = 8 << 20
"""Default capacity of a queue in bytes."""

QUEUE_EVENTS_LEAST: Final = 3
"""The newest event with a digest before and behind it: below this a digest would block the queue."""

CONTROL_ITEMS: Final = 1_024
"""Control items that may wait: they are never dropped, so a connection that makes more is closed."""

HEADROOM: Final = 0.02
"""Share of the capacity a pack must free, else it climbs a level. An arriving event then pays for at most
about 50 items looked at per filter (99 where rounding leaves one place free).
"""

DIGEST_BURST: Final = 4_096
"""Bytes of digests that may leave a queue beyond their share of the link: some fifty after a quiet time."""

SOURCES: Final = 4_096
"""Sources of events (topic and sender) of which a queue that keeps time remembers what they sent last: some
600 kB for a slow receiver of all of them."""

PACK_RECORDS: Final = 1_024
"""Packs a queue remembers until its owner takes the records; older ones are only counted."""

RECEIVERS_PER_LINK: Final = 65_536
"""Receivers sharing one link's queue: a split makes one private queue each."""

DRAIN_LEAST: Final = 1 / 3_600
"""Slowest drain of a replayed queue, in items or bytes a second: one an hour. A slower one is a typing
error."""

DRAIN_MOST: Final = 10**12
"""Fastest drain, in items or bytes a second: a terabyte a second, beyond any link."""

WINDOW_LEAST_S: Final = 0.001
"""Shortest window whose extremes a backtest counts."""

WINDOW_MOST_S: Final = 366 * 86_400
"""Longest such window."""
