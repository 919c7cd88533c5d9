"""The places of served flows: who is served, how many at most, and the slots of their next packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.reservation import Reservations

if TYPE_CHECKING:
    from penstock.core.slots.control_options import ControlOptions
    from penstock.core.slots.flows import Flow
    from penstock.model.instant import Instant

AHEAD: Final = 2
"""Packets for which slots are reserved, if the window allows: one may be lost, the next is still expected."""

FULL_SLOT: Final = "slot full: a slot it would need has no place left"


class Places:
    """What is reserved for flows; each has a grid by which its next packets are known."""

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
        """Places a slot that served flows take on average."""
        self._loads: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._loads)

    def admit(self, flow: Flow) -> str:
        """Serve a flow; why that cannot be, empty if it is done."""
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
        """δ from the jitter that is seen: half a slot at least, as slots are no finer."""
        grid, options = flow.grid, self.options
        assert grid is not None
        wanted = options.sigmas * grid.jitter_us
        flow.tolerance_us = min(max(wanted, options.slot_us / 2), grid.period_us / 2)

    def reserve_next(self, flow: Flow) -> bool:
        """Have slots for the next packets; those of packets that should have come go."""
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
        """A flow is served no more."""
        for slots in flow.reserved:
            self.reservations.release(slots)
        flow.reserved.clear()
        self._load -= self._loads.pop(flow.key, 0.0)
        if not self._loads:
            self._load = 0.0  # no rounding errors of years
