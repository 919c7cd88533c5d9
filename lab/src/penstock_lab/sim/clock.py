"""Virtual time: a queue of actions in integer microseconds, and a node's clock with offset and drift."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from penstock.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS_PER_INSTANT: Final = 1_000_000
"""Actions at one microsecond before the run is called stuck: a burst of 100,000 events still passes."""

STEPS_UNTIL_IDLE: Final = 100_000_000
"""Actions of a run without an end: minutes of real time; only a timer that renews itself gets there."""


class Timer:
    """One planned action: keep it to cancel it."""

    __slots__ = ("_action", "when_us")

    def __init__(self, when_us: int, action: Callable[[], None]) -> None:
        self.when_us = when_us
        self._action: Callable[[], None] | None = action

    @property
    def active(self) -> bool:
        """Whether the action has neither run nor been cancelled."""
        return self._action is not None

    def cancel(self) -> None:
        """Forget the action; after it has run this does nothing."""
        self._action = None

    def take(self) -> Callable[[], None] | None:
        """Hand the action out, at most once: this is the clock's side of the timer."""
        action, self._action = self._action, None
        return action


class Clock:
    """Runs actions in order of time; those of equal time in the order in which they were planned."""

    def __init__(self, *, steps_per_instant: int = STEPS_PER_INSTANT) -> None:
        if steps_per_instant < 1:
            raise SimulationError(f"steps_per_instant is {steps_per_instant}: give at least 1")
        self._now_us = 0
        # The number makes the order total, so that two timers are never compared.
        self._heap: list[tuple[int, int, Timer]] = []
        self._planned = 0
        self._steps = 0
        self._steps_now = 0
        self._steps_per_instant = steps_per_instant
        self._running = False

    @property
    def now_us(self) -> int:
        """The present moment."""
        return self._now_us

    @property
    def steps(self) -> int:
        """Actions run so far."""
        return self._steps

    @property
    def pending(self) -> int:
        """Actions planned and not cancelled."""
        return sum(timer.active for _, _, timer in self._heap)

    def at(self, when_us: int, action: Callable[[], None]) -> Timer:
        """Plan an action for a moment; for the present one it runs after those already planned for it."""
        if when_us < self._now_us:
            raise SimulationError(
                f"planned for {when_us} µs, but the clock is at {self._now_us} µs: the past cannot be planned"
            )
        timer = Timer(when_us, action)
        heappush(self._heap, (when_us, self._planned, timer))
        self._planned += 1
        return timer

    def after(self, delay_us: int, action: Callable[[], None]) -> Timer:
        """Plan an action for a moment counted from the present one."""
        return self.at(self._now_us + delay_us, action)

    def run(self, until_us: int) -> int:
        """Run what is planned up to and including `until_us`, which is then the present; return the steps."""
        if until_us < self._now_us:
            raise SimulationError(f"run until {until_us} µs, but the clock is at {self._now_us} µs")
        steps = self._run(until_us=until_us, step_limit=None)
        self._now_us = until_us
        self._steps_now = 0
        return steps

    def run_until_idle(self, *, step_limit: int = STEPS_UNTIL_IDLE) -> int:
        """Run until nothing is planned; time stops at the last action; return the steps."""
        return self._run(until_us=None, step_limit=step_limit)

    def _run(self, *, until_us: int | None, step_limit: int | None) -> int:
        if self._running:
            raise SimulationError("an action called run(): plan with at() or after() instead")
        self._running = True
        before = self._steps
        try:
            while self._heap and (until_us is None or self._heap[0][0] <= until_us):
                when_us, _, timer = heappop(self._heap)
                action = timer.take()
                if action is None:
                    continue
                if step_limit is not None and self._steps - before >= step_limit:
                    raise SimulationError(
                        f"still not idle after {step_limit} steps, at {when_us} µs, about to run {action!r}: "
                        "an action plans itself again without end; cancel it, or use run(until_us)"
                    )
                self._step(when_us, action)
        finally:
            self._running = False
        return self._steps - before

    def _step(self, when_us: int, action: Callable[[], None]) -> None:
        if when_us > self._now_us:
            self._now_us = when_us
            self._steps_now = 0
        self._steps_now += 1
        if self._steps_now > self._steps_per_instant:
            raise SimulationError(
                f"time stands still at {when_us} µs: more than {self._steps_per_instant} steps, the next is "
                f"{action!r}; an action plans itself again without a delay"
            )
        self._steps += 1
        action()


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
