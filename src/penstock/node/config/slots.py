"""Settings of reserved slots: the section `slots` of the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock import limits
from penstock.core.slots.options import ControlOptions
from penstock.model.instant import to_us
from penstock.node.config.amounts import SECONDS, Million, Seconds, Share, Thousand


class SlotSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reserved slots for flows of constant rate, at listeners with `slots: true`."""

    slot_s: Annotated[float, msgspec.Meta(ge=0.001, le=3_600, extra={"unit": SECONDS})] = 0.02
    """Length of a time slot; the shortest period that can be served. Starting a new slot takes 0.1 ms."""
    window: Annotated[int, msgspec.Meta(ge=4, le=limits.SLOT_WINDOW)] = 64
    """Slots that are planned ahead; the longest period that can be served is two slots less."""
    capacity: Million = 100
    """Messages that the receivers' links carry in one slot."""
    reserved_share: Share = 0.5
    """Share of the capacity that may be reserved; the rest is left for best effort."""
    request_share: Share = 0.1
    """Share of the capacity for messages with `penstock-retry`; at least one of them per slot."""
    late_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """Late messages sent per best-effort message while both wait."""
    tolerance: Annotated[float, msgspec.Meta(gt=0, le=10)] = 3.0
    """A message is on time if it is early or late by at most so many standard deviations of its jitter."""
    detect: bool = True
    """Whether the node detects the periods of flows that were not declared."""
    flows: Million = 10_000
    """Largest number of flows."""
    idle_s: Annotated[float, msgspec.Meta(gt=0, le=10**9, extra={"unit": SECONDS})] = 600.0
    """A flow that is not served and sends nothing for this time is forgotten."""
    silent_after: Thousand = 3
    """Messages that a served flow may miss in a row before $flows/silent reports it."""
    silent_least_s: Seconds = 0.5
    """Shortest silence that $flows/silent reports."""
    lane_events: Million = 1_000
    """Messages that may wait in the reserved and late lanes of one receiver; further ones are best effort."""
    reservations: str = ""
    """Folder of the control table `reservations` with periods of flows; empty: no table is read."""

    def options(self) -> ControlOptions:
        """Make the options of the core; SlotError if the settings contradict each other."""
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
