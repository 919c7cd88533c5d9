"""The section `slots`: settings of reserved slots, and checks of lengths, filters and capacities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from penstock import limits
from penstock.core.slots.lanes import Decisions, Lane
from penstock.core.slots.options import ControlOptions, divisors
from penstock.model.instant import to_us
from penstock.node.config.amounts import SECONDS, Million, Seconds, Share, Thousand
from penstock.node.config.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


LaneName: TypeAlias = Literal["reserved", "best_effort", "late"]


class FilterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The refreshing Bloom filters: u arrays × v groups = `slots.window`; two for each length of slots."""

    groups: Annotated[int, msgspec.Meta(ge=1, le=limits.SLOT_WINDOW)] = 1
    """v, groups of hash functions, a divisor of `slots.window`; u is the window divided by it. More groups
    spread a burst over more bits, and make a query v times as expensive."""
    hashes: Annotated[int, msgspec.Meta(ge=1, le=limits.SLOT_HASHES)] = 8
    """k, hash functions of a group."""
    positions: Annotated[int, msgspec.Meta(ge=64, le=1 << 24)] = 1 << 16
    """m, bits of one array. A filter takes (u + 1) × m bits, without the spare u × m."""
    spare: bool = True
    """Whether filters with several groups have a spare array; without it the v slots of an array expire
    together, and reservations reach v slots less far ahead."""


class DecisionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Table 2 of the RBF paper: the lane of a message of a served flow. Others are always best effort."""

    in_slot: LaneName = "reserved"
    """Row 2: the message came in a slot reserved for it."""
    outside_slot: LaneName = "late"
    """Row 3: it did not."""
    not_reserved: Literal["reserved", "best_effort", "late", "as_it_is"] = "reserved"
    """Row 4: there is no slot for the next message; `as_it_is`: rows 2 and 3 decide."""
    leaves: bool = True
    """Row 4: whether the flow is no longer served then."""
    beyond_rate: LaneName = "late"
    """The message is beyond the flow's rate; this row is not in the paper."""

    def decisions(self) -> Decisions:
        """Make the table of the core."""
        row_4 = None if self.not_reserved == "as_it_is" else _lane(self.not_reserved)
        return Decisions(
            in_slot=_lane(self.in_slot),
            outside_slot=_lane(self.outside_slot),
            not_reserved=row_4,
            leaves=self.leaves,
            beyond_rate=_lane(self.beyond_rate),
        )


class LinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capacity of the links of some receivers."""

    clients: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    """Client identifiers, with * and ? as in file names; the first entry that matches counts."""
    capacity: Million
    """Messages that such a link carries in one slot of `slots.slot_s`."""


class SlotSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reserved slots for flows of constant rate, at listeners with `slots: true`."""

    slot_s: Annotated[float, msgspec.Meta(ge=0.001, le=3_600, extra={"unit": SECONDS})] = 0.02
    """Length of the shortest time slots; the shortest period that can be served. Starting a new slot takes
    0.1 ms."""
    longer: tuple[Annotated[int, msgspec.Meta(ge=2, le=1_000)], ...] = (16, 256)
    """Lengths of longer slots as multiples of `slot_s`, each at least twice the one before: for periods
    beyond the window of shorter ones. Each length takes two more filters."""
    window: Annotated[int, msgspec.Meta(ge=4, le=limits.SLOT_WINDOW)] = 64
    """Slots that are planned ahead, of each length; the longest period that can be served is two of the
    longest slots less."""
    filter: FilterSettings = FilterSettings()
    """The filters that remember arrivals and reservations by slot."""
    capacity: Million = 100
    """Messages that the link of a receiver carries in one slot of `slot_s`, unless `links` says otherwise."""
    links: tuple[LinkSettings, ...] = ()
    """Links with another capacity."""
    reserved_share: Share = 0.5
    """Share of a link's capacity that may be reserved; the rest is left for best effort."""
    request_share: Share = 0.1
    """Share of `capacity` for messages with `penstock-retry` and for recognised retries, of the whole node;
    at least one of them per slot."""
    late_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """Late messages sent per best-effort message while both wait."""
    tolerance: Annotated[float, msgspec.Meta(gt=0, le=10)] = 3.0
    """A message is on time if it is early or late by at most so many standard deviations of its jitter."""
    decisions: DecisionSettings = DecisionSettings()
    """The lane of a message by the state of its flow."""
    detect: bool = True
    """Whether the node detects the periods and retries of flows that were not declared."""
    flows: Million = 10_000
    """Largest number of flows with an entry in the table of flows."""
    unlisted: bool = True
    """Whether flows that find the table full are served by the filters alone; periods are known to a slot."""
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
            longer_us=tuple(times * to_us(self.slot_s) for times in self.longer),
            slots=self.window,
            groups=self.filter.groups,
            hashes=self.filter.hashes,
            positions=self.filter.positions,
            spare=self.filter.spare,
            capacity=self.capacity,
            share=self.reserved_share,
            request_share=self.request_share,
            sigmas=self.tolerance,
            decisions=self.decisions.decisions(),
            detect=self.detect,
            flows=self.flows,
            unlisted=self.unlisted,
            idle_us=max(1, to_us(self.idle_s)),
            silent_after=self.silent_after,
            silent_least_us=to_us(self.silent_least_s),
        )


def _lane(name: str) -> Lane:
    return Lane[name.upper()]


def problems(slots: SlotSettings) -> Iterator[Problem]:
    """Check settings of slots against each other."""
    before = 1
    for number, times in enumerate(slots.longer):
        path = f"slots.longer[{number}]"
        if number + 1 >= limits.SLOT_LENGTHS:
            yield Problem(path, "is one length too many", allowed=f"up to {limits.SLOT_LENGTHS - 1}")
            break
        if times < 2 * before:
            yield Problem(path, f"found {times}", allowed=f"{2 * before} or more, twice the length before it")
        before = times
    groups, allowed = slots.filter.groups, divisors(slots.window)
    if groups not in allowed:
        near = min(allowed, key=lambda each: abs(each - groups))
        yield Problem(
            "slots.filter.groups",
            f"found {groups}, which does not divide the window of {slots.window} slots",
            allowed=", ".join(map(str, allowed)),
            near=str(near),
        )
    elif not slots.filter.spare and slots.window - groups < 2:
        yield Problem(
            "slots.filter.groups",
            f"found {groups}: without a spare an array expires as a whole, and no slot is left to reserve",
            allowed=", ".join(str(each) for each in allowed if slots.window - each >= 2),
        )
    if len(slots.links) > limits.SLOT_LINKS:
        yield Problem(
            "slots.links", f"has {len(slots.links):,} entries", allowed=f"up to {limits.SLOT_LINKS:,}"
        )
    named = [("slots.capacity", slots.capacity)]
    named += [(f"slots.links[{number}].capacity", link.capacity) for number, link in enumerate(slots.links)]
    for path, capacity in named:
        if int(capacity * slots.reserved_share) < 1:
            share = slots.reserved_share
            yield Problem(
                path,
                f"found {capacity}, of which a share of {share:g} is less than one message a slot",
                allowed=f"{-int(-1 // share):,} or more, or a larger slots.reserved_share",
            )


def warnings(slots: SlotSettings) -> Iterator[str]:
    """Find links that an entry before them hides."""
    seen: dict[str, int] = {}
    for number, link in enumerate(slots.links):
        hidden_by = seen.get(link.clients, seen.get("*"))
        if hidden_by is not None:
            yield f"slots.links[{number}]: never used, slots.links[{hidden_by}] matches the clients first"
        seen.setdefault(link.clients, number)
