"""What can be told about time slots."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock import limits
from penstock.core.slots.control_options import ControlOptions
from penstock.model.instant import to_us


class Slots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reserved slots for flows of constant rate, at listeners with `slots: true`."""

    slot_s: Annotated[float, msgspec.Meta(ge=0.001, le=3_600, extra={"unit": "s"})] = 0.02
    """Length of a time slot; the shortest period that can be served. To begin a new one takes 0.1 ms."""
    window: Annotated[int, msgspec.Meta(ge=4, le=limits.SLOT_WINDOW)] = 64
    """Slots that are looked ahead; the longest period that can be served is two less."""
    capacity: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100
    """Messages a slot's worth of the receivers' links carries."""
    reserved_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    """Of the capacity: what may be reserved; the rest stays for best effort."""
    request_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1
    """Of the capacity: what messages with `penstock-retry` may take, one of them in a slot at least."""
    late_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """Late messages that go out for each one of best effort, while both wait."""
    tolerance: Annotated[float, msgspec.Meta(gt=0, le=10)] = 3.0
    """Standard deviations of its jitter by which a message may be early or late and is still on time."""
    detect: bool = True
    """Whether periods are found out that nobody told."""
    flows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    """Flows known at a time."""
    idle_s: Annotated[float, msgspec.Meta(gt=0, le=10**9, extra={"unit": "s"})] = 600.0
    """A flow that is not served and has not come for so long is forgotten."""
    silent_after: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 3
    """Messages a served flow may miss in a row before $flows/silent tells."""
    silent_least_s: Annotated[float, msgspec.Meta(ge=0, le=10**9, extra={"unit": "s"})] = 0.5
    """And it is not silent before so long has passed."""
    lane_events: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1_000
    """Messages that may wait in the reserved and late lanes of one receiver; beyond, they are best effort."""
    reservations: str = ""
    """Folder of the control table `reservations`, which tells periods; empty: none is read."""

    def options(self) -> ControlOptions:
        """For the core; SlotError if they cannot be together."""
        return ControlOptions(
            slot_us=to_us(self.slot_s),
            slots=self.window,
            capacity=self.capacity,
            share=self.reserved_share,
            request_share=self.request_share,
            sigmas=self.tolerance,
            detect=self.detect,
            flows=self.flows,
            idle_us=max(1, to_us(self.idle_s)),
            silent_after=self.silent_after,
            silent_least_us=to_us(self.silent_least_s),
        )
