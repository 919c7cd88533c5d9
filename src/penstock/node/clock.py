"""Wall clock and monotonic clock in microseconds, and a wall clock that runs evenly and reports jumps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.instant import Instant


def wall_us() -> Instant:
    """Return the time of the system clock, which may be set."""
    return time.time_ns() // 1_000


def steady_us() -> int:
    """Return the time of the monotonic clock, which only goes forward."""
    return time.monotonic_ns() // 1_000


class Clock:
    """A wall clock that runs evenly: a change of the system clock shows only after `follow`."""

    def __init__(
        self, *, wall: Callable[[], Instant] = wall_us, steady: Callable[[], int] = steady_us
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead_us = wall() - steady()

    def now_us(self) -> Instant:
        """Return the time, as if the system clock had not been set since the last `follow`."""
        return self._steady() + self._ahead_us

    def follow(self) -> int:
        """Adopt the time of the system clock; return by how much it was set, 0 if it was not."""
        jump_us = self._wall() - self.now_us()
        if abs(jump_us) <= limits.CLOCK_JUMP_US:
            return 0
        self._ahead_us += jump_us
        return jump_us
