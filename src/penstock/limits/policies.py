"""Limits of policies, payloads and digests that arrive from clients and other nodes."""

from __future__ import annotations

from typing import Final

# -- policies: they arrive inside SUBSCRIBE packets of clients ----------------------------------------------

POLICY_BYTES: Final = 65_535
"""A policy must fit into one MQTT user property, whose length field has 16 bits."""

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
