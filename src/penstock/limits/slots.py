"""Limits of time slots: flows, and filters whose bytes come from other nodes and from Spark."""

from __future__ import annotations

from typing import Final

# -- flows ---------------------------------------------------------------------------------------------------

FLOWS_DECLARED: Final = 100
"""Flows declared by one CONNECT: a gateway with so many kinds of sensors."""

FLOW_TOPICS: Final = 4_096
"""Topics cached for one connection at a listener with slots: a gateway with so many sensors. Topics beyond it
are looked up again now and then, at three microseconds each.
"""

FLOW_LOOK_US: Final = 20_000
"""Least time between two looks at what waits outside the queues of a receiver of flows; each asks the
kernel."""

FLOW_WAIT_US: Final = 10_000
"""A receiver whose link needs longer for what waits outside its queues is metered: a message of a flow waits
behind that, and no lane helps it."""

FLOW_REST_US: Final = 10_000_000
"""Without a message of a flow for so long, a receiver is no longer metered."""

FLOW_REFUSALS: Final = 20
"""Events about refused flows published in a twentieth of a second, so that a client that asks for the
impossible a thousand times a second does not flood their subscribers; all are counted.
"""

# -- filters of time slots: their bytes come from other nodes and from Spark ---------------------------------

SLOT_LENGTHS: Final = 4
"""Lengths of slots of one node: 20 ms, and three more that are 16 times as long each, reach an hour and a
half; each takes two filters.
"""

SLOT_LONGEST_US: Final = 3_600_000_000_000
"""Longest time slot: a thousand hours."""

SLOT_LINKS: Final = 1_000
"""Entries of `slots.links`: each is tried when a client connects."""

SLOT_WINDOW: Final = 64
"""Slots of one filter: an answer is one word."""

SLOT_HASHES: Final = 16
"""Hash functions of a group: at 16 a filter at its best size has one false positive in 65,536 per slot."""

SLOT_POSITIONS: Final = 1 << 26
"""Positions of one array: a filter of 64 arrays then takes 512 MB, and reducing a 32-bit hash to a position
favours none by more than 2 %.
"""

SLOT_REMEMBERED: Final = 8_192
"""Keys whose positions a filter caches, for calls with one key at a time: some 5 MB."""

SLOT_LATEST: Final = 1 << 56
"""Largest slot number: microseconds until the year 4253."""

SLOT_FLOWS: Final = 1 << 22
"""Flows of one exact table: 128 MB at its fullest."""
