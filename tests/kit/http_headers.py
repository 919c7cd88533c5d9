"""Headers of HTTP answers, for tests of polling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """Hints of a feed."""

    ttl_s: int | None = None
    update_period_s: int | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()
