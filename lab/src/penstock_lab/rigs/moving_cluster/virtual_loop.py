"""An event loop in virtual time: when nothing is left to do now, it is later at once.

The code of a node runs in it as it is, without sockets and threads: an hour of waiting takes no time, and
what happens depends on nothing but the random seed of whoever drives it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.errors import SimulationError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.model.instant import Instant

BEGIN_US: Final = 1_600_000_000 * SECOND_US
"""The time at which a virtual loop begins, for those who ask for it in microseconds since 1970."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs tasks and timers; it has no sockets, and nothing outside can wake it."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._clock_resolution = 1e-6
        self._now_s = 0.0

    def time(self) -> float:
        """Virtual seconds since the loop began."""
        return self._now_s

    def now_us(self) -> Instant:
        """The virtual time."""
        return BEGIN_US + round(self._now_s * SECOND_US)

    def select(self, timeout: float | None) -> list[object]:
        """Let the time pass until the next timer; SimulationError if there is none."""
        if timeout is None:
            raise SimulationError("every task waits, and no timer is left that could wake one")
        self._now_s += max(0.0, timeout)
        return []

    def _process_events(self, event_list: list[object]) -> None:
        """There are no sockets, so nothing has happened at one."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""
