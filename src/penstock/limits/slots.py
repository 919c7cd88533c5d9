"""Limits of time slots: flows, and filters whose bytes come from other nodes and from Spark."""

from __future__ import annotations

from typing import Final

# -- flows ---------------------------------------------------------------------------------------------------

FLOWS_DECLARED: Final = 100
"""Periods told by one CONNECT: a gateway with so many kinds of sensors."""

FLOW_TOPICS: Final = 4_096
"""Topics remembered of one connection at a listener with slots: a gateway with so many sensors; of one with
more, they are looked up again now and then, at three microseconds each."""

FLOW_REFUSALS: Final = 20
"""Events about refused flows that are published in a twentieth of a second: a client that asks for the
impossible a thousand times a second must not have them all told to everybody; all are counted."""

# -- filters of time slots: their bytes come from other nodes and from Spark ---------------------------------

SLOT_WINDOW: Final = 64
"""Slots of one filter: an answer is one word."""

SLOT_HASHES: Final = 16
"""Hash functions of a group: at 16 a filter at its best size has one false positive in 65,536 per slot."""

SLOT_POSITIONS: Final = 1 << 26
"""Positions of one array: a filter of 64 arrays then takes 512 MB, and the 32 bits a position is drawn from
favour none by more than 2 %."""

SLOT_REMEMBERED: Final = 8_192
"""Keys whose positions a filter remembers, for calls with one key at a time: some 5 MB."""

SLOT_LATEST: Final = 1 << 56
"""Number of a slot: microseconds until the year 4253."""

SLOT_FLOWS: Final = 1 << 22
"""Flows of one exact table: 128 MB at its fullest."""
