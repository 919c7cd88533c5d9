"""When a node tries for a direct connection to another one.

Of two nodes the one with the smaller name takes care of it, so that there is one connection and not two. It
first offers the other one to connect to it, then asks where it can connect itself, and so on in turn: one of
two nodes may not be reachable from outside. Pauses grow while that does not work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.backoff import pauses_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


class Attempts:
    """The attempts for a connection to one other node; `stop` them at the end."""

    def __init__(self, dice: Random, *, offer: Callable[[], None], ask: Callable[[], None]) -> None:
        self._dice = dice
        self._ways = (offer, ask)
        self._made = 0
        """Attempts since the last connection that was good."""
        self._pauses = self._new_pauses()
        self._timer: asyncio.TimerHandle | None = None

    def _new_pauses(self) -> Callable[[], float]:
        return pauses_s(
            self._dice,
            least_s=limits.CLUSTER_DIRECT_RETRY_LEAST_S,
            most_s=limits.CLUSTER_DIRECT_RETRY_MOST_S,
        ).__next__

    def begin(self) -> None:
        """Make the next attempt now."""
        self.stop()
        way = self._ways[self._made % len(self._ways)]
        self._made += 1
        self._wait()
        way()

    def again(self, *, lasted_s: float) -> None:
        """A connection has ended after this time: make an attempt after a pause."""
        self.stop()
        if lasted_s >= limits.CLUSTER_DIRECT_LASTING_S:
            self._made = 0
            self._pauses = self._new_pauses()
        self._wait()

    def stop(self) -> None:
        """Make no further attempt."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pauses(), self.begin)
