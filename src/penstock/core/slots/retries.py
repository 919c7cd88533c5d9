"""Requests: packets that are useful only in a slot of their own, and are retried if there is none.

Retries follow the exponential arrival pattern (paper §2.1), t0 + 2ⁿ·T; `period` has the constant one. A
request takes a place of the present slot, or the one kept for its retry, and goes ahead like a packet in its
slot. A request without a place is told to retry only if the slot of a coming retry has room, and that slot is
then reserved for it (Jamjoom and Shin; paper §2.2). If all of them within the window are full, it is rejected
at once: its retries would be useless and take part of the capacity they ask for. Requests have their own
share of each slot: they displace no served flow, however many come.

A flow whose arrivals follow the pattern without having said so is recognised (`RetrySequence`): a place of
the same share is kept for its next retry, which goes ahead if it comes then. It is never rejected: its sender
did not ask for an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.core.slots.flows import FlowState, key_of
from penstock.core.slots.lanes import Lane
from penstock.errors import SlotError
from penstock.model.instant import LONGEST_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.slots.control import FlowControl
    from penstock.core.slots.flows import Flow
    from penstock.core.slots.reservation import Reservations
    from penstock.model.instant import Instant

RETRIES: Final = 5
"""Retries needed to recognise an exponential pattern. Random arrivals look like it in one of 2,000 windows of
64; with four in one of 20.
"""

SLACK: Final = 0.15
"""Relative tolerance of each gap; back-off is often randomised. With 0.25 one window in 120 is mistaken."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """t0, then t0 + 2ⁿ·T for n = 0, 1, 2 …: the n-th retry."""

    start_us: Instant
    period_us: float

    def __post_init__(self) -> None:
        if not 0 < self.period_us <= LONGEST_US:
            raise SlotError(f"period {self.period_us} µs; allowed: above 0, at most {LONGEST_US}")

    def retry(self, number: int) -> Instant:
        """Time of a retry by its number, from 0."""
        return self.start_us + round(min(self.period_us * 2.0**number, LONGEST_US))

    def after(self, now_us: Instant) -> Instant:
        """First arrival after now."""
        if now_us < self.start_us:
            return self.start_us
        number = 0
        while self.retry(number) <= now_us:
            number += 1
        return self.retry(number)

    def until(self, last_us: Instant, *, after_us: Instant) -> Iterator[Instant]:
        """Retries after one instant and up to another."""
        number = 0
        while (at_us := self.retry(number)) <= last_us:
            if at_us > after_us:
                yield at_us
            number += 1


def exponential(arrivals_us: Sequence[Instant]) -> Exponential | None:
    """Exponential pattern of arrivals, whose distance from the first doubles; None if it does not."""
    if len(arrivals_us) < RETRIES + 1:
        return None
    start_us, *retries = arrivals_us
    # The distance of the last retry has the smallest relative error.
    period_us = (retries[-1] - start_us) / 2 ** (len(retries) - 1)
    if period_us <= 0:
        return None
    pattern = Exponential(start_us, period_us)
    before_us = start_us
    for number, at_us in enumerate(retries):
        expected_us = pattern.retry(number)
        if abs(at_us - expected_us) > SLACK * max(1, expected_us - before_us):
            return None
        before_us = expected_us
    return pattern


FORGET: Final = 4
"""Packets in a row that are no retries after which a flow counts as one without retries again."""


class RetrySequence:
    """Retries of one flow, recognised by their pattern; a packet off the pattern begins a new sequence."""

    __slots__ = ("_misses", "_number", "_pattern", "period_us", "slots")

    def __init__(self, pattern: Exponential, number: int) -> None:
        self._pattern = pattern
        self._number = number
        """Number of the retry that is expected next."""
        self._misses = 0
        self.period_us = pattern.period_us
        self.slots = range(0)
        """Slots kept for the next retry."""

    @classmethod
    def found(cls, before_us: Sequence[Instant], now_us: Instant) -> RetrySequence | None:
        """The pattern of the last arrivals and this one; None if they have none."""
        if len(before_us) < RETRIES:
            return None
        last, gap = now_us - before_us[-1], before_us[-1] - before_us[-2]
        # A cheap test first, as every arrival of a flow without a period is tested: the last gap has doubled.
        if not 1.5 * gap <= last <= 2.5 * gap or not gap:
            return None
        arrivals = [*list(before_us)[-RETRIES:], now_us]
        pattern = exponential(arrivals)
        if pattern is None:  # the first one came before arrivals were recorded: its distance is the first gap
            arrivals.insert(0, 2 * arrivals[0] - arrivals[1])
            pattern = exponential(arrivals)
        return None if pattern is None else cls(pattern, len(arrivals) - 1)

    @property
    def next_us(self) -> Instant:
        """When the next retry is expected."""
        return self._pattern.retry(self._number)

    @property
    def forgotten(self) -> bool:
        """Whether the flow has sent too many packets that were no retries."""
        return self._misses >= FORGET

    def arrive(self, now_us: Instant) -> bool:
        """Whether a packet is the retry expected next; otherwise it begins a new sequence."""
        pattern, number = self._pattern, self._number
        before_us = pattern.retry(number - 1) if number else pattern.start_us
        if abs(now_us - self.next_us) <= SLACK * (self.next_us - before_us):
            self._number += 1
            self._misses = 0
            return True
        self._pattern, self._number = Exponential(now_us, self.period_us), 0
        self._misses += 1
        return False


class Answer(StrEnum):
    """Answer to a request."""

    ACCEPTED = "accepted"
    AGAIN = "again"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, and when to retry."""

    answer: Answer
    at_us: Instant = 0
    """For AGAIN: the retry whose slot is reserved."""
    why: str = ""
    """Reason, for AGAIN and REJECTED."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A request told to retry, and the slots reserved for its retry."""

    first_us: Instant
    slots: range


class Retries:
    """Decides about requests that are retried when refused."""

    def __init__(self, reservations: Reservations, *, most: int) -> None:
        if most < 1:
            raise SlotError(f"most {most} requests; at least 1")
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
                # A retry may be a little late, because of the network, but hardly early.
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
        """Drop requests whose retry did not come."""
        gone = [key for key, coming in self._coming.items() if coming.slots.stop <= slot]
        for key in gone:
            del self._coming[key]


class RequestSlots:
    """Decides about each request; shares the table of `FlowControl`, and its places for requests."""

    def __init__(self, control: FlowControl) -> None:
        self._control = control
        self._retries = Retries(control.requested, most=control.options.flows)

    @property
    def answers(self) -> dict[str, int]:
        """Number of requests accepted, told to retry, and rejected."""
        return {answer.value: count for answer, count in self._retries.answers.items()}

    def flow(self, client: str, topic: str, *, now_us: Instant) -> Flow | None:
        """Flow of a request; None if the flow has slots already, or the table is full."""
        table, key = self._control.table, key_of(client, topic)
        flow = table.get(key) or table.add(key, client, topic, now_us=now_us)
        if flow is None or flow.state is FlowState.SERVED or (flow.client, flow.topic) != (client, topic):
            return None
        return flow

    def arrive(self, flow: Flow, period_us: float, *, now_us: Instant) -> Verdict:
        """A request, or a retry of it; if accepted, it goes into the reserved lane."""
        verdict = self._retries.arrive(flow.key, period_us=period_us, now_us=now_us)
        if verdict.answer is Answer.ACCEPTED:
            flow.arrivals += 1
            flow.last_us = now_us
            flow.laned = True
            self._control.packets[Lane.RESERVED] += 1
        return verdict
