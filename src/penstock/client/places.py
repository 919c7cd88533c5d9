"""Where a subscription is in each reliable stream, so that nothing of them is handed out twice.

A node sends each stream in order, and after a crash of its own once more from a place that was safe. Ticks
only grow within a subscription: whoever wants to begin earlier subscribes anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.stamp import stamp_of

if TYPE_CHECKING:
    from penstock.model.stamp import User


class Places:
    """By stream, of one subscription; streams that were silent for longest are forgotten beyond a bound."""

    def __init__(self, start: int | None = None) -> None:
        self._start = start
        self._next: dict[str, int] = {}
        self.repeated = 0
        """Messages that came before."""

    @property
    def start(self) -> int | None:
        """Where to begin if the node has forgotten the subscription; None: with what comes then."""
        return min(self._next.values(), default=self._start)

    def passes(self, user: User) -> bool:
        """Whether a message with these properties is new, or of no stream at all."""
        stamp = stamp_of(user)
        if stamp is None:
            return True
        stream, tick = stamp
        if tick < self._next.get(stream, self._start or 0):
            self.repeated += 1
            return False
        self._next.pop(stream, None)
        if len(self._next) >= limits.CLIENT_STREAMS:
            del self._next[next(iter(self._next))]
        self._next[stream] = tick + 1
        return True
