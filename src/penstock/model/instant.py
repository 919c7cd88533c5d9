"""Time is an integer number of microseconds; the unit stands in every name."""

from __future__ import annotations

from typing import Final, TypeAlias

Instant: TypeAlias = int
"""Microseconds since the Unix epoch, or since the start of a simulation."""

SECOND_US: Final = 1_000_000

LONGEST_US: Final = 2**62
"""Durations end here, 146,000 years: they and their sums with instants stay within 64 bits."""


def to_us(seconds: float) -> int:
    """Whole microseconds of a duration a person wrote in seconds, LONGEST_US at most."""
    return round(min(seconds * SECOND_US, LONGEST_US))
