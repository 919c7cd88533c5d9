"""Slots reserved ahead: who may come when, and how many at most.

The filter RBF_r says in which slots a flow is expected, a count per slot how many flows are. Both cover the
slots from now on; a slot is cleared before it comes into the window. A reservation takes a place in each slot
it touches: a packet comes in one of them, and in whichever it is, there is room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.errors import SlotError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.instant import Instant


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
        self._now = now_us // slot_us
        self._filter = RefreshingFilter(shape, start=self._now)
        self._counts = [0] * slots
        """Of slot s at s mod slots."""

    def advance(self, now_us: Instant) -> int:
        """Let time pass; the present slot."""
        now = now_us // self.slot_us
        if now > self._now:
            counts, size = self._counts, len(self._counts)
            # Those that come into the window; their places were used by slots long gone.
            first = max(self._now + self.ahead + 1, now + self.ahead + 1 - size)
            for slot in range(first, now + self.ahead + 1):
                counts[slot % size] = 0
            self._now = now
            self._filter.advance(now)
        return self._now

    @property
    def longest_us(self) -> int:
        """How far ahead can be reserved for certain."""
        return self.ahead * self.slot_us

    def slots_between(self, from_us: float, to_us: float) -> range:
        """The slots that a span of time touches, past ones left out."""
        first = max(self._now, int(from_us // self.slot_us))
        return range(first, max(first, int(to_us // self.slot_us)) + 1)

    def full(self, slots: range) -> int | None:
        """The first of these slots that has no place left, or lies beyond the window; None: all have."""
        counts, size, last = self._counts, len(self._counts), self._now + self.ahead
        for slot in slots:
            if slot > last or counts[slot % size] >= self.capacity:
                return slot
        return None

    def reserve(self, key: int, slots: range) -> bool:
        """Take a place in each of these slots, or in none."""
        if self.full(slots) is not None:
            return False
        for slot in slots:
            self._counts[slot % len(self._counts)] += 1
            self._filter.insert(key, slot)
        return True

    def release(self, slots: Iterable[int]) -> None:
        """Give places back that were taken; the filter forgets them when they expire."""
        for slot in slots:
            if self._now <= slot <= self._now + self.ahead and self._counts[slot % len(self._counts)]:
                self._counts[slot % len(self._counts)] -= 1

    def holds(self, key: int) -> bool:
        """Whether a flow has reserved the present slot; a filter may say so in error, rarely."""
        return self._filter.contains(key, self._now)

    def taken(self, slot: int) -> int:
        """Places taken in a slot of the window."""
        return self._counts[slot % len(self._counts)] if self._now <= slot <= self._now + self.ahead else 0

    def fullest(self) -> int:
        """Places taken in the fullest slot from now on."""
        return max(self.taken(slot) for slot in range(self._now, self._now + self.ahead + 1))
