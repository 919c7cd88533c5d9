"""The control of flows: records an arrival, predicts and reserves the next, and decides the packet's lane.

The owner passes in the time; if it goes backwards, the slots stand still. The interface is `timer`,
`on_timer` and `events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.slots.flows import RECENT, Flow, FlowState, FlowTable, PeriodSource, Police, key_of
from penstock.core.slots.lanes import FlowHappening, Lane
from penstock.core.slots.links import OneLink
from penstock.core.slots.period import Grid
from penstock.core.slots.reservation import FULL_SLOT, Reservations, ReservedPlaces, SlotWindow
from penstock.core.slots.retries import RetrySequence
from penstock.core.slots.shape import Shape
from penstock.core.slots.standing import FlowStanding, SilentFlows, wait_us
from penstock.core.slots.unlisted import UnlistedFlow, UnlistedFlows, regular

if TYPE_CHECKING:
    from penstock.core.slots.lanes import Decisions, FlowEvent
    from penstock.core.slots.links import Link, LinksByTopic
    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant


SEEN_SLOTS: Final = 2
"""Slots of the history a flow must occur in before it gets a place in the table: one-off keys get none. In
longer slots it must come at even distances, as much comes twice within minutes.
"""

SHUT_OUT: Final = "no capacity: on the link to"

PUNCTUAL: Final = 0.5
"""Share of punctual packets below which a flow is better served as best effort."""

UNPUNCTUAL: Final = "comes outside its slots"

CHEATS: Final = "sends more than it declared"

DISBELIEVED: Final = "did not keep to the period it told before"

CHEATING: Final = 0.1
"""Share of packets beyond the declared rate above which a flow is no longer served."""

CREDIT: Final = 32
"""Packets a flow may catch up with after a pause before they count as beyond its rate."""

FIRST_CREDIT: Final = 16
"""Credit of a new flow: a client that connects sends what it has buffered."""


class FlowControl:
    """Control of all flows of a node, on the links of their receivers."""

    def __init__(
        self, options: ControlOptions, *, now_us: Instant, links: LinksByTopic | None = None
    ) -> None:
        """Without `links` all packets go to one link with the capacity of the options."""
        self.options = options
        self.table = FlowTable(most=options.flows, idle_us=options.idle_us)
        self.standing = FlowStanding()
        self.packets = dict.fromkeys(Lane, 0)
        self.retried = 0
        """Packets recognised as retries."""
        self.windows = [SlotWindow(options, length, now_us=now_us) for length in options.lengths_us]
        self.links: LinksByTopic = OneLink(options) if links is None else links
        self.places = ReservedPlaces(options, self.windows, self.links, shut_out=self._shut_out)
        self.requested = Reservations(
            slot_us=options.slot_us,
            # Minimal: who has which slot is remembered exactly.
            shape=Shape(arrays=options.slots, positions=64, ahead=options.slots - 2),
            capacity=options.request_capacity,
            now_us=now_us,
        )
        """Places kept for requests and retries, of the whole node."""
        self.unlisted = UnlistedFlows(options, self.windows, self.links)
        self._window = self.windows[0]
        self._history, self._recorded = self._window.history, self._window.recorded
        self._slots = self._window.reservations
        self._silence = SilentFlows(options)
        self._slot_us = options.slot_us
        self._decisions = options.decisions

    @property
    def refused(self) -> dict[str, int]:
        """Flows not admitted or no longer served, by reason."""
        return self.standing.refused

    @property
    def served(self) -> int:
        """Number of served flows."""
        return len(self.places)

    def decide_by(self, decisions: Decisions) -> None:
        """Use another Table 2 from now on."""
        self._decisions = self.unlisted.decisions = decisions

    # -- a packet comes --------------------------------------------------------------------------------------

    def flow(self, key: int, client: str, topic: str, *, now_us: Instant) -> Flow | UnlistedFlow | None:
        """Record a packet; returns its flow if it is in the table, or served without being there."""
        slot = self._slots.now
        if now_us // self._slot_us != slot:
            slot = self._advance(now_us)
        flow = self.table.get(key)
        if flow is None:
            if key in self._recorded:  # counted in this slot already; its next slot decides
                return None
            return self._unknown(key, client, topic, slot, now_us)
        if flow.topic != topic or flow.client != client:  # hash collisions can be provoked
            return None
        if flow.last_slot != slot:
            self._history.insert(key, slot)
            flow.last_slot = slot
        return flow

    def _unknown(
        self, key: int, client: str, topic: str, slot: int, now_us: Instant
    ) -> Flow | UnlistedFlow | None:
        """The first packet in a slot of a flow that is not in the table."""
        if len(self._recorded) < limits.SLOT_REMEMBERED:
            self._recorded.add(key)
        self._history.insert(key, slot)
        if not self.options.detect:
            return None
        if self._history.query(key).bit_count() < SEEN_SLOTS and not self._returns(key):
            return None
        flow = self.table.add(key, client, topic, now_us=now_us)
        if flow is None:
            return self.unlisted.arrive(key, topic, now_us=now_us) if self.options.unlisted else None
        flow.last_slot = slot
        return flow

    def _returns(self, key: int) -> bool:
        """Record a packet in longer slots; returns whether it comes at even distances in some of them."""
        found = False
        for window in self.windows[1:]:
            if key in window.recorded:
                continue
            if len(window.recorded) < limits.SLOT_REMEMBERED:
                window.recorded.add(key)
            window.history.insert(key, window.reservations.now)
            found |= regular(window.history.query(key)) is not None
        return found

    def arrive(self, client: str, topic: str, *, now_us: Instant) -> Lane:
        """Record a packet; returns its lane."""
        flow = self.flow(key_of(client, topic), client, topic, now_us=now_us)
        if flow is None:
            self.packets[Lane.BEST_EFFORT] += 1
            return Lane.BEST_EFFORT
        return self.take(flow, 1, now_us=now_us)[0]

    def take(self, flow: Flow | UnlistedFlow, count: int, *, now_us: Instant) -> list[Lane]:
        """Lanes of packets of a flow that arrived together; call `flow` first."""
        lanes: list[Lane] = []
        if isinstance(flow, UnlistedFlow):
            lanes = [flow.lane, *[Lane.BEST_EFFORT] * (count - 1)]
            self.packets[flow.lane] += 1
            self.packets[Lane.BEST_EFFORT] += count - 1
            return lanes
        while len(lanes) < count:
            if flow.state is FlowState.SERVED:
                flow.arrivals += 1
                lane, taken = self._take_served(flow, now_us), 1
            else:  # the rest at once: equal arrival times add no information
                taken = count - len(lanes)
                flow.arrivals += taken
                lane = self._take_other(flow, now_us, taken)
                if lane is not Lane.RESERVED:
                    flow.last_other_us = now_us
            flow.last_us = now_us
            self.packets[lane] += taken
            lanes += [lane] * taken
        return lanes

    def _take_served(self, flow: Flow, now_us: Instant) -> Lane:
        grid, police, slow = flow.grid, flow.police, flow.slow_police
        assert grid is not None
        assert police is not None
        assert slow is not None
        conforms = police.conforms(now_us)
        flow.excess_rate += ((not slow.conforms(now_us)) - flow.excess_rate) / RECENT
        if not conforms:
            flow.excess += 1
            if flow.excess_rate > CHEATING:
                self._leave(flow, CHEATS, now_us)
            return self._decisions.beyond_rate
        on_time = self.places.holds(flow)
        steps = grid.add(now_us)
        if steps > 1:
            flow.missed += steps - 1
        flow.on_time_rate += (on_time - flow.on_time_rate) / RECENT
        if on_time:
            flow.on_time += 1
        else:
            flow.late += 1
        if flow.failures and now_us - flow.since_us > wait_us(flow.failures):
            # Served for longer than its pause was: earlier failures no longer count.
            flow.failures, flow.disbelieved_us = 0, 0.0
        self.places.fit_tolerance(flow)
        # A packet may follow closely on one that was late by up to a period.
        police.period_us = slow.period_us = flow.declared_us or grid.period_us
        police.tolerance_us = slow.tolerance_us = grid.period_us
        flow.last_us = now_us
        reserved = self.places.reserve_next(flow)
        lane = self._decisions.lane(on_time=on_time, reserved=reserved)
        if not reserved and self._decisions.leaves:
            self._leave(flow, FULL_SLOT, now_us)
        elif flow.on_time_rate < PUNCTUAL or grid.jitter_us > grid.period_us / 4:
            self._leave(flow, UNPUNCTUAL, now_us)
        return lane

    def _take_other(self, flow: Flow, now_us: Instant, count: int) -> Lane:
        """Treat packets as best effort or as retries, and try to serve the flow from now on."""
        if flow.state is FlowState.SILENT:
            self.standing.happened(FlowHappening.BACK, flow, now_us)
            self.standing.become(flow, FlowState.LEARNING, "", now_us)
        lane = Lane.BEST_EFFORT
        if flow.told is None:
            if count == 1 and self.options.detect:
                lane = self._retry_lane(flow, now_us)
            found = flow.learn(now_us, count)
            if found is None:
                return lane
            flow.told, flow.retries = PeriodSource.DETECTED, None
            flow.grid = Grid.of(found, flow.learnt())
        elif flow.grid is None:
            jitter_us = flow.told_jitter_us
            if now_us < flow.again_us or self.options.problem_with(flow.declared_us, jitter_us):
                return lane
            flow.grid = Grid(flow.declared_us, now_us, jitter_us=jitter_us or None)
        elif not flow.grid.add(now_us) and now_us - flow.last_us > 2 * flow.grid.period_us:
            flow.grid.restart(now_us)
        self._try(flow, now_us)
        return lane

    def _retry_lane(self, flow: Flow, now_us: Instant) -> Lane:
        """Lane of a packet of a flow without a period: reserved if a place was kept for it as a retry."""
        retries = flow.retries
        if retries is None:
            recent = flow.recent()
            if recent is None or (retries := RetrySequence.found(recent, now_us)) is None:
                return Lane.BEST_EFFORT
            flow.retries = retries
            came = True
        else:
            came = retries.arrive(now_us)
            if retries.forgotten:
                flow.retries = None
        slots = self.requested
        in_place = came and slots.advance(now_us) in retries.slots
        if len(retries.slots) and not in_place:
            slots.release(retries.slots)
        retries.slots = range(0)
        self.retried += came
        flow.retried += came
        if flow.retries is not None:
            # A retry may be a little late, because of the network, but hardly early.
            wanted = slots.slots_between(retries.next_us, retries.next_us + slots.slot_us)
            if wanted.start > slots.now and slots.reserve(flow.key, wanted):
                retries.slots = wanted
        if not in_place:
            return Lane.BEST_EFFORT
        flow.laned = True
        return Lane.RESERVED

    # -- periods that are told -------------------------------------------------------------------------------

    def tell(
        self,
        client: str,
        topic: str,
        period_us: float,
        *,
        jitter_us: float = 0,
        by: PeriodSource = PeriodSource.CLIENT,
        now_us: Instant,
    ) -> str:
        """Declare a flow's period.

        Returns why it cannot be served, or an empty text: then its next packets decide.
        """
        self._advance(now_us)
        key = key_of(client, topic)
        flow = self.table.get(key)
        if flow is not None and flow.declared_us == period_us and flow.told is by:
            return flow.reason if flow.state is FlowState.REFUSED else ""
        if flow is not None and flow.disbelieved_us == period_us and now_us < flow.again_us:
            return flow.reason or DISBELIEVED
        if not period_us > 0:
            return self.standing.count(self.options.problem_with(period_us))
        if flow is None:
            flow = self.table.add(key, client, topic, now_us=now_us)
        if flow is None or flow.topic != topic or flow.client != client:
            return self.standing.count("table full: too many flows")
        self.places.give_back(flow)
        flow.learnt()
        flow.told, flow.declared_us, flow.grid, flow.retries = by, period_us, None, None
        flow.told_jitter_us = jitter_us
        if not flow.disbelieved_us:
            flow.again_us = flow.failures = 0
        flow.last_us = now_us
        reason = self.options.problem_with(period_us, jitter_us)
        if reason:
            self.standing.refuse(flow, FlowHappening.REFUSED, reason, now_us)
        elif now_us < flow.again_us:
            reason = DISBELIEVED
            self.standing.become(flow, FlowState.REFUSED, reason, now_us)
        else:
            self.standing.become(flow, FlowState.LEARNING, "", now_us)
        return reason

    def untell(self, client: str, topic: str, *, now_us: Instant) -> None:
        """Withdraw the period that a client declared."""
        flow = self.table.get(key_of(client, topic))
        if flow is not None and flow.told is not None:
            self.places.give_back(flow)
            flow.unlearn()
            self.standing.become(flow, FlowState.LEARNING, "", now_us)

    # -- admission and refusal -------------------------------------------------------------------------------

    def _try(self, flow: Flow, now_us: Instant) -> None:
        """Serve a flow whose grid is known, if possible."""
        grid = flow.grid
        assert grid is not None
        if now_us < flow.again_us:
            return
        reason = self.places.admit(flow)
        if reason:
            if flow.declared_us:  # packets before then are not on the declared grid
                flow.grid = None
            elif grid.jitter_us > grid.period_us / 4:  # implausible for a period: the grid is lost
                flow.unlearn()
            self.standing.defer(flow, FlowHappening.REFUSED, reason, now_us)
            return
        period_us, credit_us = flow.declared_us or grid.period_us, CREDIT * grid.period_us
        flow.police = Police(period_us, grid.period_us)
        flow.slow_police = Police(period_us, grid.period_us, credit_us=credit_us)
        flow.police.conforms(now_us)
        # A new flow gets credit for what its client had buffered; one that failed before gets none.
        flow.slow_police.conforms(now_us - (0 if flow.failures else round(FIRST_CREDIT * grid.period_us)))
        flow.laned = True
        flow.on_time_rate, flow.excess_rate = 1.0, 0.0
        self.standing.become(flow, FlowState.SERVED, "", now_us)
        self.standing.happened(FlowHappening.ADMITTED, flow, now_us)
        self._silence.watch(flow)

    def _leave(self, flow: Flow, reason: str, now_us: Instant) -> None:
        self.places.give_back(flow)
        if reason in (CHEATS, UNPUNCTUAL):
            flow.disbelieved_us = flow.declared_us
            if self.options.detect:
                flow.unlearn()
            else:  # a declared flow would not be detected
                flow.grid = None
        self.standing.defer(flow, FlowHappening.LEFT, reason, now_us)

    # -- silence ---------------------------------------------------------------------------------------------

    def timer(self) -> Instant | None:
        """When to call `on_timer`."""
        return self._silence.timer()

    def on_timer(self, *, now_us: Instant) -> None:
        """Check which flows are silent."""
        self._advance(now_us)
        for flow in self._silence.fallen(now_us):
            assert flow.grid is not None
            flow.missed += max(0, flow.grid.steps(now_us))
            self.places.give_back(flow)
            self.standing.become(flow, FlowState.SILENT, "silent", now_us)
            self.standing.happened(FlowHappening.SILENT, flow, now_us, "silent")

    # -- observation -----------------------------------------------------------------------------------------

    def events(self) -> list[FlowEvent]:
        """Remove and return the events."""
        return self.standing.events()

    def _shut_out(self, flow: Flow, link: Link) -> None:
        """A link has no place for a flow that others carry."""
        reason = f"{SHUT_OUT} '{link.name}'"
        self.standing.count(reason)
        self.standing.happened(FlowHappening.SHUT_OUT, flow, flow.last_us, reason)

    def _advance(self, now_us: Instant) -> int:
        for window in self.windows[1:]:
            window.advance(now_us)
        return self._window.advance(now_us)
