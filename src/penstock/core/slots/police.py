"""Policing: whether a packet keeps to the rate its flow declared (GCRA, ITU-T I.371).

A packet conforms if it comes no earlier than `tolerance_us` before its theoretical time; only packets that
conform move that time on. So a flow may be early by its jitter, and never gets more than its rate for long.
With a credit it may catch up so much of what it was late by: a stalled network brings many at once, and
nobody has lied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import SlotError

if TYPE_CHECKING:
    from penstock.model.instant import Instant


class Police:
    """The generic cell rate algorithm for one flow."""

    __slots__ = ("_next_us", "credit_us", "period_us", "tolerance_us")

    def __init__(self, period_us: float, tolerance_us: float, *, credit_us: float = 0.0) -> None:
        if not period_us > 0:
            raise SlotError(f"a period of {period_us} µs cannot be policed; it must be above 0")
        if not tolerance_us >= 0:
            raise SlotError(f"a tolerance of {tolerance_us} µs cannot be; 0 or more")
        if not credit_us >= 0:
            raise SlotError(f"a credit of {credit_us} µs cannot be; 0 or more")
        self.period_us = period_us
        self.tolerance_us = tolerance_us
        self.credit_us = credit_us
        self._next_us: float | None = None
        """Theoretical time of the next packet."""

    def conforms(self, now_us: Instant) -> bool:
        """Whether a packet that comes now keeps to the rate."""
        next_us = float(now_us) if self._next_us is None else self._next_us
        if now_us < next_us - self.tolerance_us:
            return False
        self._next_us = max(now_us - self.credit_us, next_us) + self.period_us
        return True
