"""Ticks: places in a stream, a millisecond and a counter in one whole number."""

from __future__ import annotations

from typing import Final

TICKS_PER_MS: Final = 1_024
"""Places in a millisecond: a stream of a million messages a second has one for each; a burst beyond that
borrows from the next millisecond."""

TICKS_PER_S: Final = 1_000 * TICKS_PER_MS


def tick_at(now_us: int) -> int:
    """The first tick of the millisecond of a moment."""
    return max(0, now_us) // 1_000 * TICKS_PER_MS


def ticks_in(duration_us: int) -> int:
    """How many ticks a duration has."""
    return duration_us * TICKS_PER_MS // 1_000


def duration_us(ticks: int) -> int:
    """How long so many ticks last."""
    return ticks * 1_000 // TICKS_PER_MS
