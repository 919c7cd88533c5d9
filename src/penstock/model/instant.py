"""Time is an integer number of microseconds; the unit stands in every name."""

from __future__ import annotations

from typing import Final, TypeAlias

Instant: TypeAlias = int
"""Microseconds since the Unix epoch, or since the start of a simulation."""

SECOND_US: Final = 1_000_000


def to_us(seconds: float) -> int:
    """Whole microseconds of a duration a person wrote in seconds."""
    return round(seconds * SECOND_US)
