"""Wall clock and monotonic clock in microseconds, and a wall clock that runs evenly and reports jumps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.instant import Instant


def wall_us() -> Instant:
    """What the machine takes for the time."""
    return time.time_ns() // 1_000


def steady_us() -> int:
    """Time that only goes forward, from some moment on."""
    return time.monotonic_ns() // 1_000


class Clock:
    """Moments to plan by."""

    def __init__(
        self, *, wall: Callable[[], Instant] = wall_us, steady: Callable[[], int] = steady_us
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead_us = wall() - steady()

    def now_us(self) -> Instant:
        """The moment, as if the wall clock had not been set since."""
        return self._steady() + self._ahead_us

    def follow(self) -> int:
        """Follow the wall clock; by how much it was set, 0 if it was not."""
        jump_us = self._wall() - self.now_us()
        if abs(jump_us) <= limits.CLOCK_JUMP_US:
            return 0
        self._ahead_us += jump_us
        return jump_us
