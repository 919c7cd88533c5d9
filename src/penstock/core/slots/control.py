"""The control of flows: records an arrival, predicts and reserves the next, and decides the packet's lane.

`FlowStanding` changes states and counts refusals. The owner passes in the time; if it goes backwards, the
slots stand still. The interface is `timer`, `on_timer` and `events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import RECENT, Flow, FlowState, FlowTable, PeriodSource, Police, key_of
from penstock.core.slots.lanes import FlowEvent, FlowHappening, Lane, treated
from penstock.core.slots.period import Grid
from penstock.core.slots.reservation import FULL_SLOT, ReservedPlaces
from penstock.core.slots.shape import Shape
from penstock.core.slots.silence import SilentFlows
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant


AGAIN_US: Final = SECOND_US
"""First pause before a refused flow is tried again; it doubles with each failure …"""

AGAIN_MOST: Final = 6
"""… this many times at most: about a minute."""


class FlowStanding:
    """Changes states, counts refusals, and collects events until the owner takes them."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        """Flows not admitted or no longer served, by reason."""
        self._events: list[FlowEvent] = []

    def become(self, flow: Flow, state: FlowState, reason: str, now_us: Instant) -> None:
        """Set a flow's state."""
        if flow.state is not state:
            flow.since_us = now_us
        flow.state, flow.reason = state, reason

    def happened(
        self, what: FlowHappening, flow: Flow, now_us: Instant, reason: str = "", retry_us: int = 0
    ) -> None:
        """Add an event for the owner."""
        self._events.append(FlowEvent(what, flow, now_us, reason, retry_us))

    def events(self) -> list[FlowEvent]:
        """Remove and return the events."""
        events, self._events = self._events, []
        return events

    def refuse(
        self, flow: Flow, what: FlowHappening, reason: str, now_us: Instant, again_us: Instant = 0
    ) -> None:
        """Do not serve a flow; a repeated refusal for the same reason makes no event."""
        self.count(reason)
        news = what is FlowHappening.LEFT or _short(flow.reason) != _short(reason)
        self.become(flow, FlowState.REFUSED, reason, now_us)
        if news:
            self.happened(what, flow, now_us, reason, again_us)

    def defer(self, flow: Flow, what: FlowHappening, reason: str, now_us: Instant) -> None:
        """Refuse a flow for now.

        The pause before the next attempt doubles until it was served long enough.
        """
        again_us = wait_us(flow.failures)
        flow.failures += 1
        flow.again_us = now_us + again_us
        self.refuse(flow, what, reason, now_us, again_us)

    def count(self, reason: str) -> str:
        """Count a refusal by its reason up to the colon; returns the reason."""
        short = _short(reason)
        self.refused[short] = self.refused.get(short, 0) + 1
        return reason


def wait_us(failures: int) -> Instant:
    """Pause of a flow after this number of failures."""
    return AGAIN_US << min(failures, AGAIN_MOST)


def _short(reason: str) -> str:
    """A reason without the details of the single case."""
    return reason.partition(":")[0]


SEEN_SLOTS: Final = 2
"""Slots of the history a flow must occur in before it gets a place in the table: one-off keys get none."""

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
    """Control of all flows of a link or a node."""

    def __init__(self, options: ControlOptions, *, now_us: Instant) -> None:
        self.options = options
        self.table = FlowTable(most=options.flows, idle_us=options.idle_us)
        self.standing = FlowStanding()
        self.packets = dict.fromkeys(Lane, 0)
        shape = Shape(arrays=options.slots, groups=1, positions=options.positions)
        self.history = RefreshingFilter(shape, start=now_us // options.slot_us)
        self.places = ReservedPlaces(options, now_us=now_us)
        self.reservations = self.places.reservations
        self._silence = SilentFlows(options)
        self._slot_us = options.slot_us
        self._recorded: set[int] = set()
        """Flows without a place in the table that arrived in the present slot."""

    @property
    def refused(self) -> dict[str, int]:
        """Flows not admitted or no longer served, by reason."""
        return self.standing.refused

    @property
    def served(self) -> int:
        """Number of served flows."""
        return len(self.places)

    # -- a packet comes --------------------------------------------------------------------------------------

    def flow(self, key: int, client: str, topic: str, *, now_us: Instant) -> Flow | None:
        """Record a packet; returns its flow if it is in the table."""
        slot = self.reservations.now
        if now_us // self._slot_us != slot:
            slot = self._advance(now_us)
        flow = self.table.get(key)
        if flow is None:
            if key in self._recorded:  # counted in this slot already; its next slot decides
                return None
            if len(self._recorded) < limits.SLOT_REMEMBERED:
                self._recorded.add(key)
            self.history.insert(key, slot)
            if self.options.detect and self.history.query(key).bit_count() >= SEEN_SLOTS:
                flow = self.table.add(key, client, topic, now_us=now_us)
        elif flow.topic != topic or flow.client != client:  # hash collisions can be provoked
            return None
        elif flow.last_slot != slot:
            self.history.insert(key, slot)
        if flow is not None:
            flow.last_slot = slot
        return flow

    def arrive(self, client: str, topic: str, *, now_us: Instant) -> Lane:
        """Record a packet; returns its lane."""
        flow = self.flow(key_of(client, topic), client, topic, now_us=now_us)
        if flow is None:
            self.packets[Lane.BEST_EFFORT] += 1
            return Lane.BEST_EFFORT
        return self.take(flow, 1, now_us=now_us)[0]

    def take(self, flow: Flow, count: int, *, now_us: Instant) -> list[Lane]:
        """Lanes of packets of a flow that arrived together; call `flow` first."""
        lanes: list[Lane] = []
        while len(lanes) < count:
            if flow.state is FlowState.SERVED:
                flow.arrivals += 1
                lane, taken = self._take_served(flow, now_us), 1
            else:  # the rest at once: equal arrival times add no information
                lane, taken = Lane.BEST_EFFORT, count - len(lanes)
                flow.arrivals += taken
                self._take_other(flow, now_us, taken)
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
            return Lane.LATE
        on_time = self.reservations.holds(flow.key)
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
        reserved = self.places.reserve_next(flow)
        # A packet is treated as its reservation says before its flow leaves (decision 0020).
        lane, stays = treated(served=True, on_time=on_time, reserved=reserved)
        if not stays:
            self._leave(flow, FULL_SLOT, now_us)
        elif flow.on_time_rate < PUNCTUAL or grid.jitter_us > grid.period_us / 4:
            self._leave(flow, UNPUNCTUAL, now_us)
        return lane

    def _take_other(self, flow: Flow, now_us: Instant, count: int) -> None:
        """Treat packets as best effort, and try to serve the flow from now on."""
        if flow.state is FlowState.SILENT:
            self.standing.happened(FlowHappening.BACK, flow, now_us)
            self.standing.become(flow, FlowState.LEARNING, "", now_us)
        if flow.told is None:
            found = flow.learn(now_us, count)
            if found is None:
                return
            flow.told = PeriodSource.DETECTED
            flow.grid = Grid.of(found, flow.learnt())
        elif flow.grid is None:
            jitter_us = flow.told_jitter_us
            if now_us < flow.again_us or self.options.problem_with(flow.declared_us, jitter_us):
                return
            flow.grid = Grid(flow.declared_us, now_us, jitter_us=jitter_us or None)
        elif not flow.grid.add(now_us) and now_us - flow.last_us > 2 * flow.grid.period_us:
            flow.grid.restart(now_us)
        self._try(flow, now_us)

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
        flow.told, flow.declared_us, flow.grid = by, period_us, None
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

    def _advance(self, now_us: Instant) -> int:
        before = self.reservations.now
        slot = self.reservations.advance(now_us)
        if slot != before:
            self.history.advance(slot)
            self._recorded.clear()
        return slot
