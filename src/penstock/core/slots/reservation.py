"""Slots reserved ahead, how many packets each takes, and the served flows that hold them.

The filter RBF_r holds in which slots a flow is expected, a counter per slot how many packets are. Both cover
the present and future slots; a slot is cleared before it enters the window. A packet comes in one of the
slots reserved for it, so it takes an equal part of a place in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.errors import SlotError

if TYPE_CHECKING:
    from penstock.core.slots.flows import Flow
    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant

WHOLE: Final = 5_040
"""Units of one place: 1 to 10 slots divide it evenly."""


class Reservations:
    """Future slots and the flows that reserved them."""

    def __init__(self, *, slot_us: int, slots: int, capacity: int, positions: int, now_us: Instant) -> None:
        if slot_us < 1:
            raise SlotError(f"slot_us {slot_us}; at least 1")
        if capacity < 1:
            raise SlotError(f"capacity {capacity} packets a slot; at least 1")
        if slots < 4:
            raise SlotError(f"slots {slots}; at least 4")
        self.slot_us = slot_us
        self.capacity = capacity
        self.ahead = slots - 2
        """Slots after the present one that can be reserved."""
        shape = Shape(arrays=slots, groups=1, positions=positions, ahead=self.ahead)
        self.now = now_us // slot_us
        """The present slot."""
        self._filter = RefreshingFilter(shape, start=self.now)
        self._counts = [0] * slots
        """Units of WHOLE taken in slot s, at index s mod slots."""

    def advance(self, now_us: Instant) -> int:
        """Advance to a time; returns the present slot."""
        now = now_us // self.slot_us
        if now > self.now:
            counts, size = self._counts, len(self._counts)
            # Clear the slots that enter the window: their entries belonged to expired slots.
            first = max(self.now + self.ahead + 1, now + self.ahead + 1 - size)
            for slot in range(first, now + self.ahead + 1):
                counts[slot % size] = 0
            self.now = now
            self._filter.advance(now)
        return self.now

    @property
    def longest_us(self) -> int:
        """How far ahead a reservation is always possible."""
        return self.ahead * self.slot_us

    def slots_between(self, from_us: float, to_us: float) -> range:
        """Slots that a time span touches, without past ones."""
        first = max(self.now, int(from_us // self.slot_us))
        return range(first, max(first, int(to_us // self.slot_us)) + 1)

    def full(self, slots: range) -> int | None:
        """First of these slots that is full or beyond the window; None if all have room."""
        counts, size, last = self._counts, len(self._counts), self.now + self.ahead
        most = self.capacity * WHOLE - WHOLE // len(slots)
        for slot in slots:
            if slot > last or counts[slot % size] > most:
                return slot
        return None

    def reserve(self, key: int, slots: range) -> bool:
        """Take a place in all these slots, or in none."""
        if not slots or self.full(slots) is not None:
            return False
        part = WHOLE // len(slots)
        for slot in slots:
            self._counts[slot % len(self._counts)] += part
            self._filter.insert(key, slot)
        return True

    def release(self, slots: range) -> None:
        """Return the places of one `reserve`; the filter forgets them when they expire."""
        for slot in slots:
            if self.now <= slot <= self.now + self.ahead:
                self._counts[slot % len(self._counts)] -= WHOLE // len(slots)

    def holds(self, key: int) -> bool:
        """Whether a flow has reserved the present slot; false positives are possible but rare."""
        return self._filter.contains(key, self.now)

    def taken(self, slot: int) -> float:
        """Places taken in a slot of the window."""
        there = self.now <= slot <= self.now + self.ahead
        return self._counts[slot % len(self._counts)] / WHOLE if there else 0.0

    def fullest(self) -> float:
        """Places taken in the fullest slot from now on."""
        return max(self.taken(slot) for slot in range(self.now, self.now + self.ahead + 1))


AHEAD: Final = 2
"""Packets ahead for which slots are reserved, if the window allows: after one is lost, the next is still
expected."""

FULL_SLOT: Final = "slot full: a slot it would need has no place left"


class ReservedPlaces:
    """Reservations of the served flows; each flow's grid predicts its next packets."""

    def __init__(self, options: ControlOptions, *, now_us: Instant) -> None:
        self.options = options
        self.reservations = Reservations(
            slot_us=options.slot_us,
            slots=options.slots,
            capacity=options.reserved_capacity,
            positions=options.positions,
            now_us=now_us,
        )
        self._load = 0.0
        """Places per slot that served flows take on average."""
        self._loads: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._loads)

    def admit(self, flow: Flow) -> str:
        """Serve a flow; returns why that is impossible, or an empty text."""
        grid, options = flow.grid, self.options
        assert grid is not None
        self.fit_tolerance(flow)
        reason = options.problem_with(grid.period_us, grid.jitter_us)
        if reason:
            return reason
        load = options.slot_us / grid.period_us
        if self._load + load > options.reserved_load:
            return "no capacity: served flows take all that may be reserved"
        if not self.reserve_next(flow):
            self.give_back(flow)
            return FULL_SLOT
        self._loads[flow.key] = load
        self._load += load
        return ""

    def fit_tolerance(self, flow: Flow) -> None:
        """Set δ from the observed jitter: at least half a slot, as slots are no finer."""
        grid, options = flow.grid, self.options
        assert grid is not None
        wanted = options.sigmas * grid.jitter_us
        flow.tolerance_us = min(max(wanted, options.slot_us / 2), grid.period_us / 2)

    def reserve_next(self, flow: Flow) -> bool:
        """Reserve slots for the next packets, and release those of packets that should have come."""
        grid, slots = flow.grid, self.reservations
        assert grid is not None
        reserved, now, slot_us = flow.reserved, slots.now, slots.slot_us
        while reserved and reserved[0].stop <= now + 1:
            reserved.popleft()
        ahead = min(AHEAD, int((slots.longest_us - flow.tolerance_us) // grid.period_us))
        after_us = max(reserved[-1].stop if reserved else 0, now) * slot_us
        for place in range(1, ahead + 1):
            at_us = grid.at(place)
            if at_us <= after_us:
                continue
            wanted = slots.slots_between(at_us - flow.tolerance_us, at_us + flow.tolerance_us)
            if reserved:
                wanted = range(max(wanted.start, reserved[-1].stop), max(wanted.stop, reserved[-1].stop + 1))
            if not slots.reserve(flow.key, wanted):
                return False
            reserved.append(wanted)
        return ahead > 0

    def give_back(self, flow: Flow) -> None:
        """Release the slots of a flow that is no longer served."""
        for slots in flow.reserved:
            self.reservations.release(slots)
        flow.reserved.clear()
        self._load -= self._loads.pop(flow.key, 0.0)
        if not self._loads:
            self._load = 0.0  # drop accumulated rounding errors
