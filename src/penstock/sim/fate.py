"""Decides what becomes of a message once it is on the wire; the link carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from penstock.sim.faults import FaultOptions


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one message or of one copy."""

    arrival_us: int | None
    """None if it is lost."""
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

    def draw(self, *, start_us: int, end_us: int) -> list[Outcome]:
        """The message's outcome, then its copy's if there is one; the times are those of the transmission."""
        faults = self._faults
        if not self._by_chance:
            return [self._outcome(start_us, end_us, jitter=0.0, hold=1.0)]
        # Always as many dice for a message: changing one fault leaves the draws of all others as they were.
        loss, copy, jitter, hold, copy_jitter, copy_hold = (self._dice.random() for _ in range(6))
        if loss < faults.loss:
            return [Outcome(None)]
        outcomes = [self._outcome(start_us, end_us, jitter=jitter, hold=hold)]
        if copy < faults.duplication:
            outcomes.append(self._outcome(start_us, end_us, jitter=copy_jitter, hold=copy_hold))
        return outcomes

    def _outcome(self, start_us: int, end_us: int, *, jitter: float, hold: float) -> Outcome:
        held = hold < self._faults.reordering
        arrival_us = end_us + self._delay_us + int(jitter * (self._faults.jitter_us + 1))
        arrival_us = max(arrival_us, self._latest_in_order_us)
        if held:
            arrival_us += self._faults.reordering_delay_us
        cuts = self._faults.partitions
        if any(start_us < until_us and from_us <= arrival_us for from_us, until_us in cuts):
            return Outcome(None, partition=True)
        if not held:
            self._latest_in_order_us = arrival_us
        return Outcome(arrival_us)
