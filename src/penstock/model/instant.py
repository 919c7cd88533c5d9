"""Time as an integer number of microseconds, and durations and dates as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final, TypeAlias

Instant: TypeAlias = int
"""Microseconds since the Unix epoch, or since the start of a simulation."""

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US

LONGEST_US: Final = 2**62
"""Longest duration, 146,000 years: sums of instants and durations stay within 64 bits."""


def to_us(seconds: float) -> int:
    """Whole microseconds of a duration in seconds, LONGEST_US at most."""
    return round(min(seconds * SECOND_US, LONGEST_US))


_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
UNITS_S: Final[dict[str, float]] = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
"""Units in which durations are written, in seconds."""

_UNITS_US: Final = {"ms": 1_000, "s": SECOND_US, "min": 60 * SECOND_US, "h": HOUR_US, "d": DAY_US}
_WRITTEN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([a-z]+)")


def written_us(text: str) -> int | None:
    """Microseconds of a duration as people write it: 500ms, 1.5s, 2min; None if the text is none."""
    found = _WRITTEN.fullmatch(text)
    if found is None or found[2] not in _UNITS_US:
        return None
    return min(round(Fraction(found[1]) * _UNITS_US[found[2]]), LONGEST_US)


def written(us: int) -> str:
    """Exact text of a duration that `written_us` reads back: 1s, 500ms, 1.5ms."""
    if us % SECOND_US == 0:
        return f"{us // SECOND_US}s"
    return f"{us / 1_000:.3f}".rstrip("0").rstrip(".") + "ms"


_LATEST_S: Final = 253_402_300_799 - 86_400
"""Latest date shown: a day before the end of year 9999, the end of datetime, to be valid in every time
zone."""


def duration(us: float) -> str:
    """Duration as text: 90 s, 15 min, 2.5 h."""
    seconds = us / SECOND_US
    if seconds < 1:
        return f"{us / 1_000:.3g} ms"
    for size, unit in _UNITS:
        if seconds >= 2 * size or size == 1:
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def date_of(at_us: Instant) -> datetime:
    """Date of an instant in UTC, to the second.

    Clamped: a page may claim to be changed in the year 300,000.
    """
    return datetime.fromtimestamp(min(max(at_us // SECOND_US, 0), _LATEST_S), UTC)


def moment(at_us: Instant) -> str:
    """Instant as text: 2026-05-04 10:20:30 UTC."""
    return f"{date_of(at_us):%Y-%m-%d %H:%M:%S} UTC"
