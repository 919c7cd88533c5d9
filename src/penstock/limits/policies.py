"""Limits of policies, payloads and digests from clients and other nodes, and of queues packed by policies."""

from __future__ import annotations

from typing import Final

# -- policies: they arrive inside SUBSCRIBE packets of clients ----------------------------------------------

POLICY_BYTES: Final = 65_535
"""A policy must fit into one MQTT user property, whose length field has 16 bits."""

POLICY_RECEIVERS_TOLD: Final = 64
"""Pairs of filter and policy that a publisher is told of its receivers, within POLICY_BYTES: it packs only if
all have one policy, so more are of no use."""

POLICY_TOPICS_TOLD: Final = 1_000
"""Filters of publishers that want to know the policies of their receivers, at one node: each is looked at
twice a second."""

POLICY_LEVELS: Final = 32
"""The paper's largest policy has 6 levels; a ladder of 32 rungs is climbed in one request at most."""

POLICY_FILTERS: Final = 64
"""Filters of all levels together: bounds the work of one pack to 64 walks over the queue."""

POLICY_DEPTH: Final = 16
"""Nesting of the text (YAML, JSON, XML): the language itself needs 6."""

URGENT_PREDICATES: Final = 16
"""Predicates of `urgent`, and of `matters`: each is asked about every event that has to wait."""

FRESH_LEAST_US: Final = 1_000
"""Shortest `fresh`: below a millisecond the node's own turns of work take as long."""

FRESH_MOST_US: Final = 86_400_000_000
"""Longest `fresh`, a day: what may wait longer needs no bound in time."""

SET_VALUES: Final = 4_096
"""Members of an `inset`, `first`, `subset` … list; together they also stay below POLICY_BYTES."""

PATTERN_BYTES: Final = 1_024
"""Length of a `match` pattern; RE2's compiled program stays below PATTERN_MEMORY."""

PATTERN_MEMORY: Final = 1 << 20
"""RE2 memory per pattern in bytes: `(((a{100}){100}){100})` is refused instead of compiled."""

TEXT_PARAMETER: Final = 4_096
"""Length of one text parameter, of a policy's name or of its description, in characters."""

PATH_SEGMENTS: Final = 16
"""Depth of an attribute path."""

PATH_CHARACTERS: Final = 256
"""Length of an attribute path."""

DIGESTERS: Final = 64
"""(attribute, digester) pairs in one policy: bounds the size of a digest."""

DIGEST_SHARE: Final = 0.1
"""Share of what a link carries that may go into digests, unless the policy says so: events matter more."""

# -- payloads: decoded only when a queue packs ---------------------------------------------------------------

DECODE_BYTES: Final = 65_536
"""Payloads above this are not decoded (their attributes are missing): bounds the work of one pack."""

LIST_VALUES: Final = 4_096
"""Elements of a list attribute that are read; a longer list counts as unreadable."""

# -- digests: they arrive from other nodes -------------------------------------------------------------------

DIGEST_BYTES: Final = 1 << 20
"""A digest of DIGESTERS sketches of 5 KB each, with room."""

DIGEST_CAUSES: Final = 512
"""Different (level, filter) causes one digest can carry: several policies along the path. Further ones, in
order, are counted together as `other`.
"""

CAUSE_CHARACTERS: Final = 64
"""Longest name of a filter in a digest's causes; ours have at most 10 characters."""

DIGEST_COUNT: Final = 1 << 48
"""Events a digest from another node may stand for: nine years of a million a second. Sums of 32,768 such
counts still fit the 63 bits of the wire."""

MARK_CHARACTERS: Final = 1_024
"""Longest text in a digest's `first` and `last`: DIGESTERS of them stay below DIGEST_BYTES."""


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

DRAIN_LEAST: Final = 1 / 3_600
"""Slowest drain of a replayed queue, in items or bytes a second: one an hour. A slower one is a typing
error."""

DRAIN_MOST: Final = 10**12
"""Fastest drain, in items or bytes a second: a terabyte a second, beyond any link."""

WINDOW_LEAST_S: Final = 0.001
"""Shortest window whose extremes a backtest counts."""

WINDOW_MOST_S: Final = 366 * 86_400
"""Longest such window."""
