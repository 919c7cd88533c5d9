"""The lowest level that drops as much as the rates demand.

With arrivals at rate λ and departures at rate μ a share 1 − μ/λ must go, whatever the level; a lower level
loses less important events. So: measure λ and μ between packs, measure what share each level takes of the
events it sees, and choose the lowest level that takes enough. A level not yet tried is tried when those below
it fall short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.core.queues.controller import Outcome, Request

WEIGHT: Final = 0.3
"""Of the newest observation: follows a change of load within about five packs."""


class Predictive:
    """Chooses by measured rates and ratios."""

    def __init__(self) -> None:
        self._level = 1
        self._excess: float | None = None
        self._ratios: dict[int, float] = {}

    @property
    def level(self) -> int:
        """The level it would use now."""
        return self._level

    def choose(self, request: Request) -> int:
        """The lowest level expected to drop the excess."""
        if request.arrived:
            excess = max(0.0, 1.0 - request.departed / request.arrived)
            self._excess = excess if self._excess is None else _smoothed(self._excess, excess)
        wanted = self._excess or 0.0
        levels = range(1, request.highest + 1)
        self._level = next((n for n in levels if self._ratios.get(n, 1.0) >= wanted), request.highest)
        return self._level

    def packed(self, outcome: Outcome) -> None:
        """Learn what share each level up to the one used took."""
        if not outcome.events:
            return
        dropped: dict[int, int] = {}
        for effect in outcome.effects:
            dropped[effect.cause.level] = dropped.get(effect.cause.level, 0) + effect.dropped
        total = 0
        for level in sorted(dropped):
            total += dropped[level]
            ratio = total / outcome.events
            self._ratios[level] = _smoothed(self._ratios.get(level, ratio), ratio)


def _smoothed(before: float, observed: float) -> float:
    return WEIGHT * observed + (1 - WEIGHT) * before
