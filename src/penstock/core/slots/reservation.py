"""Slots reserved ahead, and the served flows that hold them.

The filter RBF_r holds in which slots a flow is expected; the ledgers of links how many packets are. Both
cover the present and future slots; a slot is cleared before it enters the window. Slots of each length have a
`SlotWindow`; a flow is served in the shortest slots whose window its period fits into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.links import Ledger
from penstock.errors import SlotError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.slots.flows import Flow
    from penstock.core.slots.links import Link, LinksByTopic
    from penstock.core.slots.options import ControlOptions
    from penstock.core.slots.shape import Shape
    from penstock.model.instant import Instant


class Reservations:
    """Future slots of one length and the flows that reserved them."""

    def __init__(self, *, slot_us: int, shape: Shape, now_us: Instant, capacity: int = 1) -> None:
        """`capacity` is that of the ledger which counts where no links are given."""
        if slot_us < 1:
            raise SlotError(f"slot_us {slot_us}; at least 1")
        if shape.ahead < 2:
            raise SlotError(f"{shape.ahead} slots ahead; at least 2")
        self.slot_us = slot_us
        self.ahead = shape.ahead
        """Slots after the present one that can be reserved."""
        self.now = now_us // slot_us
        """The present slot."""
        self.filter = RefreshingFilter(shape, start=self.now)
        self.ledger = Ledger(slots=shape.slots, capacity=capacity)

    def advance(self, now_us: Instant) -> int:
        """Advance to a time; returns the present slot."""
        now = now_us // self.slot_us
        if now > self.now:
            self.now = now
            self.filter.advance(now)
        return self.now

    @property
    def longest_us(self) -> int:
        """How far ahead a reservation is always possible."""
        return self.ahead * self.slot_us

    def slots_between(self, from_us: float, to_us: float) -> range:
        """Slots that a time span touches, without past ones."""
        first = max(self.now, int(from_us // self.slot_us))
        return range(first, max(first, int(to_us // self.slot_us)) + 1)

    def reaches(self, slots: range) -> bool:
        """Whether all these slots are within the window."""
        return len(slots) > 0 and slots[-1] <= self.now + self.ahead

    def note(self, key: int, slots: Iterable[int]) -> None:
        """Remember that a flow is expected in these slots."""
        for slot in slots:
            self.filter.insert(key, slot)

    def reserve(self, key: int, slots: range, ledgers: Sequence[Ledger] | None = None) -> bool:
        """Take a place in all these slots of all ledgers, or in none."""
        ledgers = (self.ledger,) if ledgers is None else ledgers
        if not self.reaches(slots) or not all(ledger.has_room(slots) for ledger in ledgers):
            return False
        for ledger in ledgers:
            ledger.take(slots, now=self.now)
        self.note(key, slots)
        return True

    def release(self, slots: range) -> None:
        """Return the places of one `reserve` without links; the filter forgets them when they expire."""
        self.ledger.give_back(slots)

    def holds(self, key: int) -> bool:
        """Whether a flow has reserved the present slot; false positives are possible but rare."""
        return self.filter.contains(key, self.now)

    def taken(self, slot: int) -> float:
        """Places taken in a slot of the window, without links."""
        return self.ledger.taken(slot) if self.now <= slot <= self.now + self.ahead else 0.0


class SlotWindow:
    """Slots of one length: arrivals in the last ones (RBF_h), reservations in the next ones (RBF_r)."""

    def __init__(self, options: ControlOptions, slot_us: int, *, now_us: Instant) -> None:
        self.slot_us = slot_us
        self.history = RefreshingFilter(options.shape(), start=now_us // slot_us)
        self.reservations = Reservations(
            slot_us=slot_us, shape=options.shape(ahead=options.ahead), now_us=now_us
        )
        self.recorded: set[int] = set()
        """Flows without a place in the table that arrived in the present slot."""

    def advance(self, now_us: Instant) -> int:
        """Advance to a time; returns the present slot."""
        before = self.reservations.now
        slot = self.reservations.advance(now_us)
        if slot != before:
            self.history.advance(slot)
            self.recorded.clear()
        return slot


AHEAD: Final = 2
"""Packets ahead for which slots are reserved, if the window allows: after one is lost, the next is still
expected."""

FULL_SLOT: Final = "slot full: a slot it would need has no place left"

SHUT_OUT_US: Final = 4 * SECOND_US
"""Time after which a flow tries the links again that have shut it out."""


class ReservedPlaces:
    """Reservations of the served flows; each flow's grid predicts its next packets."""

    def __init__(
        self,
        options: ControlOptions,
        windows: Sequence[SlotWindow],
        links: LinksByTopic,
        *,
        shut_out: Callable[[Flow, Link], None],
    ) -> None:
        """`shut_out` is told of a link without a place for a flow that other links carry."""
        self.options = options
        self._windows = windows
        self._links = links
        self._shut_out = shut_out
        self._served: dict[int, Flow] = {}

    def __len__(self) -> int:
        return len(self._served)

    def admit(self, flow: Flow) -> str:
        """Serve a flow; returns why that is impossible, or an empty text."""
        grid, options = flow.grid, self.options
        assert grid is not None
        flow.length = options.length_for(grid.period_us, grid.jitter_us)
        self.fit_tolerance(flow)
        reason = options.problem_with(grid.period_us, grid.jitter_us)
        if reason:
            return reason
        flow.load = options.slot_us / grid.period_us
        flow.links_version = self._links.version
        wanted = self._links.of(flow.topic)
        flow.links = tuple(link for link in wanted if link.load + flow.load <= link.most_load)
        if wanted and not flow.links:
            where = f" on the link to '{wanted[0].name}'" if wanted[0].name else ""
            return f"no capacity: served flows take all that may be reserved{where}"
        self._served[flow.key] = flow
        for link in flow.links:
            link.add(flow.key, flow.load)
        flow.shut_out = tuple(link for link in wanted if flow.key not in link.flows)
        if not self.reserve_next(flow):
            self.give_back(flow)
            return FULL_SLOT
        flow.links_again_us = self._windows[0].reservations.now * options.slot_us + SHUT_OUT_US
        for link in flow.shut_out:
            self._shut_out(flow, link)
        return ""

    def fit_tolerance(self, flow: Flow) -> None:
        """Set δ from the observed jitter: at least half a slot, as slots are no finer."""
        grid, slot_us = flow.grid, self._windows[flow.length].slot_us
        assert grid is not None
        wanted = self.options.sigmas * grid.jitter_us
        flow.tolerance_us = min(max(wanted, slot_us / 2), grid.period_us / 2)

    def holds(self, flow: Flow) -> bool:
        """Whether the present slot is reserved for a flow."""
        return self._windows[flow.length].reservations.holds(flow.key)

    def reserve_next(self, flow: Flow) -> bool:
        """Reserve slots for the next packets, and release those of packets that should have come."""
        grid, slots = flow.grid, self._windows[flow.length].reservations
        assert grid is not None
        reserved, now, slot_us = flow.reserved, slots.now, slots.slot_us
        while reserved and reserved[0].stop <= now + 1:
            reserved.popleft()
        if flow.links_version != self._links.version or (
            flow.shut_out and now * slot_us >= flow.links_again_us
        ):
            self._find_links(flow, now * slot_us)
            if flow.shut_out and not flow.links:
                return False
        ahead = min(AHEAD, int((slots.longest_us - flow.tolerance_us) // grid.period_us))
        after_us = max(reserved[-1].stop if reserved else 0, now) * slot_us
        for place in range(1, ahead + 1):
            at_us = grid.at(place)
            if at_us <= after_us:
                continue
            wanted = slots.slots_between(at_us - flow.tolerance_us, at_us + flow.tolerance_us)
            if reserved:
                wanted = range(max(wanted.start, reserved[-1].stop), max(wanted.stop, reserved[-1].stop + 1))
            if not slots.reaches(wanted) or not self._take(flow, wanted, now):
                return False
            slots.note(flow.key, wanted)
            reserved.append(wanted)
        return ahead > 0

    def _take(self, flow: Flow, wanted: range, now: int) -> bool:
        """Take places on a flow's links; links without room shut it out. False if all of them do."""
        length = flow.length
        if len(flow.links) == 1:  # most flows have one receiver
            ledger = flow.links[0].ledger(length)
            if not ledger.has_room(wanted):
                return False
            ledger.take(wanted, now=now)
            return True
        ledgers = [link.ledger(length) for link in flow.links]
        full = [link for link, ledger in zip(flow.links, ledgers, strict=True) if not ledger.has_room(wanted)]
        if full:
            if len(full) == len(ledgers):
                return False
            for link in full:
                self._leave(flow, link)
                self._shut_out(flow, link)
            ledgers = [link.ledger(length) for link in flow.links]
        for ledger in ledgers:
            ledger.take(wanted, now=now)
        return True

    def _leave(self, flow: Flow, link: Link) -> None:
        """Give back a flow's places on one link."""
        flow.links = tuple(each for each in flow.links if each is not link)
        flow.shut_out = (*flow.shut_out, link)
        link.remove(flow.key)
        link.left = flow.key, flow.last_us
        for slots in flow.reserved:
            link.ledger(flow.length).give_back(slots)

    def _find_links(self, flow: Flow, now_us: Instant) -> None:
        """Take places on links that are new or were full, and give back those of links that are gone."""
        flow.links_version, flow.links_again_us = self._links.version, now_us + SHUT_OUT_US
        wanted = dict.fromkeys(self._links.of(flow.topic))
        now = self._windows[flow.length].reservations.now
        for link in flow.links:
            if link not in wanted:
                self._leave(flow, link)
        before = dict.fromkeys(flow.shut_out)
        joined, out = list(flow.links), []
        for link in wanted:
            if flow.key in link.flows:
                continue
            ledger = link.ledger(flow.length)
            if link.load + flow.load <= link.most_load and all(map(ledger.has_room, flow.reserved)):
                link.add(flow.key, flow.load)
                for slots in flow.reserved:
                    ledger.take(slots, now=now)
                joined.append(link)
            else:
                out.append(link)
        flow.links, flow.shut_out = tuple(joined), tuple(out)
        for link in out:
            if link not in before and joined:
                self._shut_out(flow, link)

    def give_back(self, flow: Flow) -> None:
        """Release the slots of a flow that is no longer served."""
        for link in flow.links:
            link.remove(flow.key)
            for slots in flow.reserved:
                link.ledger(flow.length).give_back(slots)
        flow.reserved.clear()
        flow.links = flow.shut_out = ()
        self._served.pop(flow.key, None)
