"""What a node believes the time to be: the virtual clock seen through an offset and a drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.sim.clock import Clock, Timer

MILLION: Final = 1_000_000


class LocalClock:
    """Reads `now + offset + drift`; integer arithmetic, so reading and planning agree to the microsecond."""

    def __init__(self, clock: Clock, *, offset_us: int = 0, drift_ppm: int = 0) -> None:
        if drift_ppm <= -MILLION:
            raise SimulationError(f"drift_ppm is {drift_ppm}: a clock runs forward, give more than -1000000")
        self._clock = clock
        self.offset_us = offset_us
        self.drift_ppm = drift_ppm

    @property
    def now_us(self) -> int:
        """The local reading; negative if the clock is behind and the world has just begun."""
        return self.offset_us + self._clock.now_us * (MILLION + self.drift_ppm) // MILLION

    def at(self, when_us: int, action: Callable[[], None]) -> Timer:
        """Plan an action for the first true moment whose local reading is at least `when_us`."""
        true_us = -((self.offset_us - when_us) * MILLION // (MILLION + self.drift_ppm))
        return self._clock.at(max(true_us, self._clock.now_us), action)
