"""Faults of a simulation as one flat value, and the draw of what becomes of each message on a link.

`FaultOptions` says what may go wrong. `Fate` decides for each transmission: lost, late, duplicated or cut off
by a partition; the link carries the decision out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.errors import SimulationError

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """The faults of a link, and of the clocks at its ends; the default is a world without faults."""

    loss: float = 0.0
    """Probability that a message vanishes after its transmission."""

    duplication: float = 0.0
    """Probability that a message that is not lost arrives twice; the copy takes no bandwidth."""

    reordering: float = 0.0
    """Probability that a message (or a copy) is held back on the way, so that later ones overtake it."""

    reordering_delay_us: int = 0
    """How long a message is held back; must be positive if `reordering` is."""

    jitter_us: int = 0
    """Each message takes 0 to this much longer, evenly spread; jitter alone never changes the order."""

    partitions: tuple[tuple[int, int], ...] = ()
    """Intervals `(from_us, until_us)`, the end not included: a message on the wire during one, from the start
    of its transmission to its arrival, is lost without a sign to the sender."""

    bandwidth_schedule: tuple[tuple[int, int], ...] = ()
    """Steps `(from_us, bytes_per_s)` that replace the link's own rate; at 0 a transmission stands still."""

    clock_offset_us: int = 0
    """A node's clock is wrong by up to this much, either way."""

    clock_drift_ppm: int = 0
    """A node's clock is too fast or too slow by up to this many parts in a million."""

    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "reordering"):
            probability = getattr(self, name)
            # The negated comparison refuses NaN, too.
            if not 0.0 <= probability <= 1.0:
                raise SimulationError(f"faults.{name} is {probability}: a probability lies between 0 and 1")
        for name in ("reordering_delay_us", "jitter_us", "clock_offset_us", "clock_drift_ppm"):
            _check_whole(name, getattr(self, name))
        if self.reordering > 0.0 and self.reordering_delay_us == 0:
            raise SimulationError("faults.reordering needs a positive reordering_delay_us to have an effect")
        if self.clock_drift_ppm >= 1_000_000:
            raise SimulationError(f"faults.clock_drift_ppm is {self.clock_drift_ppm}: stay below 1000000")
        _check_partitions(self.partitions)
        _check_schedule(self.bandwidth_schedule)

    @property
    def by_chance(self) -> bool:
        """True if a message's fate depends on chance."""
        return any((self.loss, self.duplication, self.reordering, self.jitter_us))


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int) or value < 0:
        raise SimulationError(f"faults.{name} is {value!r}: give a whole number, 0 or more")


def _check_partitions(partitions: tuple[tuple[int, int], ...]) -> None:
    for index, (from_us, until_us) in enumerate(partitions):
        _check_whole(f"partitions[{index}] from_us", from_us)
        _check_whole(f"partitions[{index}] until_us", until_us)
        if from_us >= until_us:
            raise SimulationError(f"faults.partitions[{index}] is empty: {from_us} to {until_us} µs")
    for index, (earlier, later) in enumerate(pairwise(partitions), start=1):
        if later[0] < earlier[1]:
            raise SimulationError(
                f"faults.partitions[{index}] starts at {later[0]} µs, before the one ahead of it ends at "
                f"{earlier[1]} µs: give them in order and apart"
            )


def _check_schedule(schedule: tuple[tuple[int, int], ...]) -> None:
    for index, (from_us, bytes_per_s) in enumerate(schedule):
        _check_whole(f"bandwidth_schedule[{index}] from_us", from_us)
        _check_whole(f"bandwidth_schedule[{index}] bytes_per_s", bytes_per_s)
    for index, (earlier, later) in enumerate(pairwise(schedule), start=1):
        if later[0] <= earlier[0]:
            raise SimulationError(
                f"faults.bandwidth_schedule[{index}] starts at {later[0]} µs, not after the one ahead at "
                f"{earlier[0]} µs: give the steps in order"
            )


@dataclass(frozen=True, slots=True)
class WireOutcome:
    """The end of one message or of one copy."""

    arrival_us: int | None
    """Time of arrival; None if the message is lost."""
    partition: bool = False
    """True if a partition took it."""


class Fate:
    """Draws the outcomes of one link's messages, in the order of their transmission."""

    def __init__(self, faults: FaultOptions, *, delay_us: int, dice: Random) -> None:
        self._faults = faults
        self._by_chance = faults.by_chance
        self._delay_us = delay_us
        self._dice = dice
        self._latest_in_order_us = 0

    def draw(self, *, start_us: int, end_us: int) -> list[WireOutcome]:
        """Return the outcome of the message, then of its copy if any; both times are of the transmission."""
        faults = self._faults
        if not self._by_chance:
            return [self._outcome(start_us, end_us, jitter=0.0, hold=1.0)]
        # Each message takes the same number of draws, so that changing one fault does not shift the others.
        loss, copy, jitter, hold, copy_jitter, copy_hold = (self._dice.random() for _ in range(6))
        if loss < faults.loss:
            return [WireOutcome(None)]
        outcomes = [self._outcome(start_us, end_us, jitter=jitter, hold=hold)]
        if copy < faults.duplication:
            outcomes.append(self._outcome(start_us, end_us, jitter=copy_jitter, hold=copy_hold))
        return outcomes

    def _outcome(self, start_us: int, end_us: int, *, jitter: float, hold: float) -> WireOutcome:
        held = hold < self._faults.reordering
        arrival_us = end_us + self._delay_us + int(jitter * (self._faults.jitter_us + 1))
        arrival_us = max(arrival_us, self._latest_in_order_us)
        if held:
            arrival_us += self._faults.reordering_delay_us
        cuts = self._faults.partitions
        if any(start_us < until_us and from_us <= arrival_us for from_us, until_us in cuts):
            return WireOutcome(None, partition=True)
        if not held:
            self._latest_in_order_us = arrival_us
        return WireOutcome(arrival_us)
