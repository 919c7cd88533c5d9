"""Slots reserved ahead: who may come when, and how many at most.

The filter RBF_r says in which slots a flow is expected, a count per slot how many packets are. Both cover the
slots from now on; a slot is cleared before it comes into the window. A packet comes in one of the slots that
are reserved for it, so it takes an equal part of a place in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.errors import SlotError

if TYPE_CHECKING:
    from penstock.model.instant import Instant


WHOLE: Final = 5_040
"""A place: the least number that 1 to 10 slots divide into equal parts."""


class Reservations:
    """Future slots and who has them."""

    def __init__(self, *, slot_us: int, slots: int, capacity: int, positions: int, now_us: Instant) -> None:
        if slot_us < 1:
            raise SlotError(f"a slot of {slot_us} µs is none; at least 1 µs")
        if capacity < 1:
            raise SlotError(f"a capacity of {capacity} packets a slot reserves nothing; at least 1")
        if slots < 4:
            raise SlotError(f"a window of {slots} slots cannot look ahead; at least 4")
        self.slot_us = slot_us
        self.capacity = capacity
        self.ahead = slots - 2
        """Slots after the present one that can be reserved."""
        shape = Shape(arrays=slots, groups=1, positions=positions, ahead=self.ahead)
        self.now = now_us // slot_us
        """The present slot."""
        self._filter = RefreshingFilter(shape, start=self.now)
        self._counts = [0] * slots
        """Places taken of slot s, in parts of WHOLE, at s mod slots."""

    def advance(self, now_us: Instant) -> int:
        """Let time pass; the present slot."""
        now = now_us // self.slot_us
        if now > self.now:
            counts, size = self._counts, len(self._counts)
            # Those that come into the window; their places were used by slots long gone.
            first = max(self.now + self.ahead + 1, now + self.ahead + 1 - size)
            for slot in range(first, now + self.ahead + 1):
                counts[slot % size] = 0
            self.now = now
            self._filter.advance(now)
        return self.now

    @property
    def longest_us(self) -> int:
        """How far ahead can be reserved for certain."""
        return self.ahead * self.slot_us

    def slots_between(self, from_us: float, to_us: float) -> range:
        """The slots that a span of time touches, past ones left out."""
        first = max(self.now, int(from_us // self.slot_us))
        return range(first, max(first, int(to_us // self.slot_us)) + 1)

    def full(self, slots: range) -> int | None:
        """The first of these slots that has no place left, or lies beyond the window; None: all have."""
        counts, size, last = self._counts, len(self._counts), self.now + self.ahead
        most = self.capacity * WHOLE - WHOLE // len(slots)
        for slot in slots:
            if slot > last or counts[slot % size] > most:
                return slot
        return None

    def reserve(self, key: int, slots: range) -> bool:
        """Take a place in these slots together, or in none."""
        if not slots or self.full(slots) is not None:
            return False
        part = WHOLE // len(slots)
        for slot in slots:
            self._counts[slot % len(self._counts)] += part
            self._filter.insert(key, slot)
        return True

    def release(self, slots: range) -> None:
        """Give back what one `reserve` took; the filter forgets it when it expires."""
        for slot in slots:
            if self.now <= slot <= self.now + self.ahead:
                self._counts[slot % len(self._counts)] -= WHOLE // len(slots)

    def holds(self, key: int) -> bool:
        """Whether a flow has reserved the present slot; a filter may say so in error, rarely."""
        return self._filter.contains(key, self.now)

    def taken(self, slot: int) -> float:
        """Places taken in a slot of the window."""
        there = self.now <= slot <= self.now + self.ahead
        return self._counts[slot % len(self._counts)] / WHOLE if there else 0.0

    def fullest(self) -> float:
        """Places taken in the fullest slot from now on."""
        return max(self.taken(slot) for slot in range(self.now, self.now + self.ahead + 1))
