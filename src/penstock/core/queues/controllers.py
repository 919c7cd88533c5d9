"""Controllers choose the level at which a full queue packs: the paper's ladder, and a predictive one.

The ladder (§5) climbs when packs come sooner than usual and descends when they come later. The turnaround of
a level is the time from a pack at that level to the next packing request. A longer turnaround means slower
arrival, faster departure or a more effective level, so a lower level may suffice; a shorter one means the
opposite.

The predictive controller, the default, takes the lowest level that keeps as little as it must: a lower level
drops less important events. It remembers the share of the queue's bytes that each level kept. A queue that is
full must drop a share 1 − μ/λ with arrivals at rate λ and departures at rate μ, which it measures between
packs. A queue whose events would wait too long must get below what its receiver takes in that time, and have
room for what comes in meanwhile. A level not yet tried is tried when the levels below it keep too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from penstock.errors import QueueError

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.policy.evaluate import FilterEffect


@dataclass(frozen=True, slots=True)
class PackRequest:
    """A queue that is full, or whose events would wait too long, asks for a level."""

    now_us: Instant
    highest: int
    """The policy's highest level."""
    arrived: int
    """Bytes that arrived since the last pack."""
    departed: int
    """Bytes that left since the last pack."""
    over_us: int = 0
    """Time since the last pack; 0 for the first."""
    held: float = 0.0
    """Bytes (or items, as the receiver's pace counts) in the queue, if time asks for the pack."""
    most: float | None = None
    """How many of them may stay so that none waits too long; None: the capacity asks for the pack."""
    hold_us: int = 0
    """How long the result should hold before the next pack, if time asks for this one."""


@dataclass(frozen=True, slots=True)
class PackOutcome:
    """Result of a pack."""

    now_us: Instant
    level: int
    """Level that made room, which may be higher than the chosen one; 0: the worst case."""
    events: int
    """Events in the queue before the pack."""
    effects: tuple[FilterEffect, ...]
    kept: float | None = None
    """Share of the queue's bytes that the level left, digests included; None: not known."""


class Controller(Protocol):
    """Chooses the level of each pack; one per queue."""

    @property
    def level(self) -> int:
        """Level it would choose now."""
        ...

    def choose(self, request: PackRequest) -> int:
        """Level to begin with, between 1 and `request.highest`."""
        ...

    def packed(self, outcome: PackOutcome) -> None:
        """Report the result of a pack; called after each."""
        ...


class Smoothing(Enum):
    """Two readings of the paper's smoothing formula; docs/decisions/0002 compares them."""

    PRINTED = "printed"
    """t ← (1 − α)·observed + α·t, as printed: nine tenths of the newest observation."""
    LOW_PASS = "low-pass"  # noqa: S105  # not a password
    """t ← α·observed + (1 − α)·t, the usual low-pass filter: one tenth of it."""


@dataclass(frozen=True, slots=True)
class LadderState:
    """State of a ladder, to continue elsewhere or later; its settings are not included."""

    level: int = 1
    last_us: Instant | None = None
    """Time of the last pack; None before the first."""
    usual_us: float | None = None
    """Expected turnaround of a level used for the first time."""
    turnaround_us: tuple[tuple[int, float], ...] = ()
    """Smoothed turnaround by level, in order of the levels."""


class Ladder:
    """Climbs or descends one level per packing request."""

    def __init__(
        self, *, smoothing: Smoothing = Smoothing.LOW_PASS, alpha: float = 0.1, threshold: float = 0.1
    ) -> None:
        if not 0 < alpha < 1 or not threshold >= 0:
            raise QueueError(f"alpha {alpha}, threshold {threshold}; need 0 < alpha < 1 and threshold ≥ 0")
        self._weight = alpha if smoothing is Smoothing.LOW_PASS else 1 - alpha
        self._threshold = threshold
        self._level = 1
        self._last_us: Instant | None = None
        self._turnaround_us: dict[int, float] = {}
        self._usual_us: float | None = None

    @property
    def level(self) -> int:
        """Level it would choose now."""
        return self._level

    def state(self) -> LadderState:
        """Its current state."""
        turnarounds = tuple(sorted(self._turnaround_us.items()))
        return LadderState(self._level, self._last_us, self._usual_us, turnarounds)

    def restore(self, state: LadderState) -> None:
        """Continue from the state of another ladder with the same settings."""
        self._level = state.level
        self._last_us = state.last_us
        self._usual_us = state.usual_us
        self._turnaround_us = dict(state.turnaround_us)

    def choose(self, request: PackRequest) -> int:
        """Level for this request."""
        if self._last_us is not None:
            change = self._observe(request.now_us - self._last_us)
            self._level += (change < -self._threshold) - (change > self._threshold)
        self._level = min(max(self._level, 1), request.highest)
        return self._level

    def _observe(self, observed_us: int) -> float:
        """Relative difference of this turnaround from the usual one at the level of the last pack.

        A level used for the first time is expected to do as the level before it did. Thus a higher level's
        longer turnaround sends the ladder down again, until the longer one has become usual.
        """
        usual_us = self._turnaround_us.get(self._level, self._usual_us)
        if usual_us is None:
            usual_us = float(observed_us)
        self._usual_us = self._weight * observed_us + (1 - self._weight) * usual_us
        self._turnaround_us[self._level] = self._usual_us
        # At least 1: two packs within one microsecond have a turnaround of 0.
        return (observed_us - usual_us) / max(usual_us, 1.0)

    def packed(self, outcome: PackOutcome) -> None:
        """Record a pack, which may have climbed above the chosen level."""
        self._last_us = outcome.now_us
        self._level = outcome.level or self._level


@dataclass(frozen=True, slots=True)
class PredictiveState:
    """State of a predictive controller, to continue elsewhere or later."""

    level: int = 1
    excess: float | None = None
    growth: float = 0.0
    kept: tuple[tuple[int, float], ...] = ()
    """Share of the bytes that each level left, in order of the levels."""


WEIGHT: Final = 0.3
"""Weight of the newest observation: follows a change of load within about five packs."""


class Predictive:
    """Chooses by measured rates and drop ratios."""

    def __init__(self) -> None:
        self._level = 1
        self._excess: float | None = None
        self._growth = 0.0
        """Bytes by which the queue grows in a microsecond."""
        self._kept: dict[int, float] = {}
        """Share of the bytes that each level left."""

    @property
    def level(self) -> int:
        """Level it would choose now."""
        return self._level

    def state(self) -> PredictiveState:
        """Its current state."""
        return PredictiveState(self._level, self._excess, self._growth, tuple(sorted(self._kept.items())))

    def restore(self, state: PredictiveState) -> None:
        """Continue from the state of another controller."""
        self._level, self._excess, self._growth = state.level, state.excess, state.growth
        self._kept = dict(state.kept)

    def choose(self, request: PackRequest) -> int:
        """Lowest level expected to keep no more than the capacity, or the time, allows."""
        if request.arrived:
            excess = max(0.0, 1.0 - request.departed / request.arrived)
            self._excess = excess if self._excess is None else _smoothed(self._excess, excess)
        if request.over_us:
            growth = (request.arrived - request.departed) / request.over_us
            self._growth = _smoothed(self._growth, growth)
        wanted = 1.0 - (self._excess or 0.0) if request.most is None else self._in_time(request, request.most)
        levels = range(1, request.highest + 1)
        self._level = next((n for n in levels if self._kept.get(n, 0.0) <= wanted), request.highest)
        return self._level

    def _in_time(self, request: PackRequest, most: float) -> float:
        """Share of the queue that may stay: room is left for what comes in while the result should hold."""
        # Half at most: a burst must not make the queue drop what it could have sent.
        room = min(max(0.0, self._growth * request.hold_us), most / 2)
        return max(0.0, most - room) / request.held if request.held else 1.0

    def packed(self, outcome: PackOutcome) -> None:
        """Update what each level up to the one used keeps.

        Of levels below the one used only the number of events is known, which leaves out their digests.
        """
        self._level = outcome.level or self._level
        if not outcome.events:
            return
        dropped: dict[int, int] = {}
        for effect in outcome.effects:
            dropped[effect.cause.level] = dropped.get(effect.cause.level, 0) + effect.dropped
        total = 0
        for level in sorted(dropped):
            total += dropped[level]
            kept = 1.0 - total / outcome.events
            if level == outcome.level and outcome.kept is not None:
                kept = outcome.kept
            self._kept[level] = _smoothed(self._kept.get(level, kept), kept)


def _smoothed(before: float, observed: float) -> float:
    return WEIGHT * observed + (1 - WEIGHT) * before
