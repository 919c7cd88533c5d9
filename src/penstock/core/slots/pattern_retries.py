"""Retries with a future and retries without (Jamjoom and Shin; paper §2.2).

Who is turned away comes back, at t0 + T, t0 + 2T, t0 + 4T … A request that finds no place now is told to come
again only if the slot of a coming retry has room, and that slot is then its own. If all of them within the
window are full, it is rejected at once: its retries would be for nothing, and take part of the capacity they
ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.core.slots.pattern import Exponential

if TYPE_CHECKING:
    from penstock.core.slots.reservation import Reservations
    from penstock.model.instant import Instant


class Answer(StrEnum):
    """To a request."""

    ACCEPTED = "accepted"
    AGAIN = "again"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, and when to come again."""

    answer: Answer
    at_us: Instant = 0
    """Of AGAIN: the retry whose slot is reserved."""
    why: str = ""


class Retries:
    """Decides about requests that come again when they are turned away."""

    def __init__(self, reservations: Reservations) -> None:
        self._slots = reservations

    def arrive(self, key: int, *, first_us: Instant, period_us: float, now_us: Instant) -> Verdict:
        """A request, or a retry of the one that came first at `first_us` and backs off from `period_us`."""
        slots = self._slots
        slot = slots.advance(now_us)
        if slots.holds(key) or slots.reserve(key, range(slot, slot + 1)):
            return Verdict(Answer.ACCEPTED)
        pattern = Exponential(first_us, period_us)
        for at_us in pattern.until(now_us + slots.longest_us, after_us=now_us):
            if slots.reserve(key, slots.slots_between(at_us, at_us)):
                return Verdict(Answer.AGAIN, at_us)
        after_s = (pattern.after(now_us) - now_us) / 1_000_000
        return Verdict(
            Answer.REJECTED,
            why=f"no place now nor at any retry within {slots.longest_us / 1_000_000:g} s "
            f"(the next would be in {after_s:g} s)",
        )
