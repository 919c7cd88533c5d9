"""The paper's heuristic (§5): climb when packs come sooner than usual, descend when they come later.

The turnaround of a level is the time from a pack at that level to the next packing request. A longer one
means slower arrival, faster departure or a more effective level, so a lower level may do; a shorter one the
opposite.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from penstock.errors import QueueError

if TYPE_CHECKING:
    from penstock.core.queues.controller import Outcome, Request
    from penstock.model.instant import Instant


class Smoothing(Enum):
    """Two readings of the paper's smoothing formula; docs/decisions/0002 compares them."""

    PRINTED = "printed"
    """t ← (1 − α)·observed + α·t, as printed: nine tenths of the newest observation."""
    LOW_PASS = "low-pass"  # noqa: S105  # a filter, no password
    """t ← α·observed + (1 − α)·t, the usual low-pass filter: one tenth of it."""


@dataclass(frozen=True, slots=True)
class LadderState:
    """All a ladder knows, for one that goes on elsewhere or later; its settings are no part of it."""

    level: int = 1
    last_us: Instant | None = None
    """Time of the last pack; None before the first."""
    usual_us: float | None = None
    """What is expected of a level used for the first time."""
    turnaround_us: tuple[tuple[int, float], ...] = ()
    """Smoothed turnaround by level, in order of the levels."""


class Ladder:
    """One rung up or down per packing request."""

    def __init__(
        self, *, smoothing: Smoothing = Smoothing.LOW_PASS, alpha: float = 0.1, threshold: float = 0.1
    ) -> None:
        if not 0 < alpha < 1 or not threshold >= 0:
            raise QueueError(f"a ladder needs 0 < alpha < 1 and threshold ≥ 0, found {alpha} and {threshold}")
        self._weight = alpha if smoothing is Smoothing.LOW_PASS else 1 - alpha
        self._threshold = threshold
        self._level = 1
        self._last_us: Instant | None = None
        self._turnaround_us: dict[int, float] = {}
        self._usual_us: float | None = None

    @property
    def level(self) -> int:
        """The level it would use now."""
        return self._level

    def state(self) -> LadderState:
        """What it knows now."""
        turnarounds = tuple(sorted(self._turnaround_us.items()))
        return LadderState(self._level, self._last_us, self._usual_us, turnarounds)

    def restore(self, state: LadderState) -> None:
        """Go on from what another ladder of the same settings knew."""
        self._level = state.level
        self._last_us = state.last_us
        self._usual_us = state.usual_us
        self._turnaround_us = dict(state.turnaround_us)

    def choose(self, request: Request) -> int:
        """The level for this request."""
        if self._last_us is not None:
            change = self._observe(request.now_us - self._last_us)
            self._level += (change < -self._threshold) - (change > self._threshold)
        self._level = min(max(self._level, 1), request.highest)
        return self._level

    def _observe(self, observed_us: int) -> float:
        """By which share this turnaround differs from what is usual at the level of the last pack.

        A level used for the first time is expected to do as the level before it did; then a higher level's
        longer turnaround sends the ladder down again, until it has proven to be the rule.
        """
        usual_us = self._turnaround_us.get(self._level, self._usual_us)
        if usual_us is None:
            usual_us = float(observed_us)
        self._usual_us = self._weight * observed_us + (1 - self._weight) * usual_us
        self._turnaround_us[self._level] = self._usual_us
        return (observed_us - usual_us) / max(usual_us, 1.0)

    def packed(self, outcome: Outcome) -> None:
        """The pack happened; it may have had to climb."""
        self._last_us = outcome.now_us
        self._level = outcome.level or self._level
