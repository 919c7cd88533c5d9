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
from penstock.errors import SlotError

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
    """Of AGAIN and REJECTED."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A request that was turned away, and the slots kept for its retry."""

    first_us: Instant
    slots: range


class Retries:
    """Decides about requests that come again when they are turned away."""

    def __init__(self, reservations: Reservations, *, most: int) -> None:
        if most < 1:
            raise SlotError(f"{most} requests that come again are none; at least 1")
        self._slots = reservations
        self._most = most
        self._coming: dict[int, Coming] = {}
        self.answers = dict.fromkeys(Answer, 0)

    def __len__(self) -> int:
        return len(self._coming)

    def arrive(self, key: int, *, period_us: float, now_us: Instant) -> Verdict:
        """A request, or its retry; `period_us` is T, the time to its first retry."""
        verdict = self._decide(key, period_us, now_us)
        self.answers[verdict.answer] += 1
        return verdict

    def _decide(self, key: int, period_us: float, now_us: Instant) -> Verdict:
        slots = self._slots
        slot = slots.advance(now_us)
        coming = self._coming.pop(key, None)
        if coming is not None and slot in coming.slots:
            return Verdict(Answer.ACCEPTED)
        if coming is not None:
            slots.release(coming.slots)
        if slots.reserve(key, range(slot, slot + 1)):
            return Verdict(Answer.ACCEPTED)
        missed = coming is not None and coming.slots.stop <= slot
        first_us = now_us if coming is None or missed else coming.first_us
        pattern = Exponential(first_us, period_us)
        if len(self._coming) >= self._most:
            self._forget(slot)
        if len(self._coming) < self._most:
            for at_us in pattern.until(now_us + slots.longest_us - slots.slot_us, after_us=now_us):
                # It may come a little later than it would, and hardly earlier: what has to travel is late.
                wanted = slots.slots_between(at_us, at_us + slots.slot_us)
                if wanted.start > slot and slots.reserve(key, wanted):
                    self._coming[key] = Coming(first_us, wanted)
                    after_ms = (at_us - now_us) / 1_000
                    why = f"no place now: one is kept for the retry in {after_ms:g} ms"
                    return Verdict(Answer.AGAIN, at_us, why)
        after_ms, window_ms = (pattern.after(now_us) - now_us) / 1_000, slots.longest_us / 1_000
        why = f"no place now nor at any retry within {window_ms:g} ms (the next would be in {after_ms:g} ms)"
        return Verdict(Answer.REJECTED, why=why)

    def _forget(self, slot: int) -> None:
        """Those that did not come again."""
        gone = [key for key, coming in self._coming.items() if coming.slots.stop <= slot]
        for key in gone:
            del self._coming[key]
