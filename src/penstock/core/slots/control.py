"""The control of flows: record an arrival, predict and reserve the next, and say how this packet is treated.

`control_treatment` has the table of treatments, `control_places` what is reserved, `control_standing` why a
flow is refused, `control_silence` who does not come any more. The core is told the time, and if that goes
back, takes it as standing still for its slots; it has `timer`, `on_timer` and `events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.slots.control_places import FULL_SLOT, Places
from penstock.core.slots.control_silence import Silence
from penstock.core.slots.control_standing import Standing, wait_us
from penstock.core.slots.control_treatment import Happening, Lane, treated
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import RECENT, Flow, FlowTable, State, Told, key_of
from penstock.core.slots.grid import Grid
from penstock.core.slots.police import Police
from penstock.core.slots.shape import Shape

if TYPE_CHECKING:
    from penstock.core.slots.control_options import ControlOptions
    from penstock.core.slots.control_treatment import FlowEvent
    from penstock.model.instant import Instant

SEEN_SLOTS: Final = 2
"""Slots of the history a flow must be in before it gets a place in the table: what comes once, gets none."""

PUNCTUAL: Final = 0.5
"""Share of its last packets in their slots below which a flow is better off as best effort."""

UNPUNCTUAL: Final = "comes outside its slots"

CHEATS: Final = "sends more than it declared"

DISBELIEVED: Final = "did not keep to the period it told before"

CHEATING: Final = 0.1
"""Share of packets beyond the declared rate above which a flow is served no more."""

CREDIT: Final = 32
"""Packets a flow may catch up with after a pause before they count as beyond its rate."""

FIRST_CREDIT: Final = 16
"""The same of a flow that is new: who connects, sends what it kept until then."""


class FlowControl:
    """All flows of a link or a node."""

    def __init__(self, options: ControlOptions, *, now_us: Instant) -> None:
        self.options = options
        self.table = FlowTable(most=options.flows, idle_us=options.idle_us)
        self.standing = Standing()
        self.packets = dict.fromkeys(Lane, 0)
        shape = Shape(arrays=options.slots, groups=1, positions=options.positions)
        self.history = RefreshingFilter(shape, start=now_us // options.slot_us)
        self.places = Places(options, now_us=now_us)
        self.reservations = self.places.reservations
        self._silence = Silence(options)
        self._slot_us = options.slot_us
        self._recorded: set[int] = set()
        """Flows without a place in the table that have come in the present slot."""

    @property
    def refused(self) -> dict[str, int]:
        """Flows not admitted or served no more, by reason."""
        return self.standing.refused

    @property
    def served(self) -> int:
        """Flows that are served."""
        return len(self.places)

    # -- a packet comes --------------------------------------------------------------------------------------

    def flow(self, key: int, client: str, topic: str, *, now_us: Instant) -> Flow | None:
        """A packet's flow, if it has come before; it is recorded that it came."""
        slot = self.reservations.now
        if now_us // self._slot_us != slot:
            slot = self._advance(now_us)
        flow = self.table.get(key)
        if flow is None:
            if key in self._recorded:  # its next slot decides
                return None
            if len(self._recorded) < limits.SLOT_REMEMBERED:
                self._recorded.add(key)
            self.history.insert(key, slot)
            if self.options.detect and self.history.query(key).bit_count() >= SEEN_SLOTS:
                flow = self.table.add(key, client, topic, now_us=now_us)
        elif flow.topic != topic or flow.client != client:  # hashes can be made to be the same
            return None
        elif flow.last_slot != slot:
            self.history.insert(key, slot)
        if flow is not None:
            flow.last_slot = slot
        return flow

    def arrive(self, client: str, topic: str, *, now_us: Instant) -> Lane:
        """A packet; its lane."""
        flow = self.flow(key_of(client, topic), client, topic, now_us=now_us)
        if flow is None:
            self.packets[Lane.BEST_EFFORT] += 1
            return Lane.BEST_EFFORT
        return self.take(flow, 1, now_us=now_us)[0]

    def take(self, flow: Flow, count: int, *, now_us: Instant) -> list[Lane]:
        """Packets of a known flow that came together; their lanes. `flow` has been asked for it."""
        lanes: list[Lane] = []
        while len(lanes) < count:
            if flow.state is State.SERVED:
                flow.arrivals += 1
                lane, taken = self._take_served(flow, now_us), 1
            else:  # all that is left: what one of them says, the others cannot say better
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
            flow.failures, flow.disbelieved_us = 0, 0.0
        self.places.fit_tolerance(flow)
        # A packet may be early by a period, if the one before was late by as much.
        police.period_us = slow.period_us = flow.declared_us or grid.period_us
        police.tolerance_us = slow.tolerance_us = grid.period_us
        reserved = self.places.reserve_next(flow)
        lane, stays = treated(served=True, on_time=on_time, reserved=reserved)
        if not stays:
            self._leave(flow, FULL_SLOT, now_us)
        elif flow.on_time_rate < PUNCTUAL or grid.jitter_us > grid.period_us / 4:
            self._leave(flow, UNPUNCTUAL, now_us)
        return lane

    def _take_other(self, flow: Flow, now_us: Instant, count: int) -> None:
        """Best effort; perhaps it can be served from now on."""
        if flow.state is State.SILENT:
            self.standing.happened(Happening.BACK, flow, now_us)
            self.standing.become(flow, State.LEARNING, "", now_us)
        if flow.told is None:
            found = flow.learn(now_us, count)
            if found is None:
                return
            flow.told = Told.DETECTED
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
        by: Told = Told.CLIENT,
        now_us: Instant,
    ) -> str:
        """A flow's period; why it cannot be served, empty if it can: its next packets will show."""
        self._advance(now_us)
        key = key_of(client, topic)
        flow = self.table.get(key)
        if flow is not None and flow.declared_us == period_us and flow.told is by:
            return flow.reason if flow.state is State.REFUSED else ""
        if flow is not None and flow.disbelieved_us == period_us and now_us < flow.again_us:
            return flow.reason or DISBELIEVED
        if not period_us > 0:
            return self.standing.count(self.options.problem_with(period_us))
        if flow is None:
            flow = self.table.add(key, client, topic, now_us=now_us)
        if flow is None or flow.topic != topic or flow.client != client:
            return self.standing.count("table full: so many flows cannot be known at a time")
        self.places.give_back(flow)
        flow.learnt()
        flow.told, flow.declared_us, flow.grid = by, period_us, None
        flow.told_jitter_us = jitter_us
        if not flow.disbelieved_us:
            flow.again_us = flow.failures = 0
        flow.last_us = now_us
        reason = self.options.problem_with(period_us, jitter_us)
        if reason:
            self.standing.refuse(flow, Happening.REFUSED, reason, now_us)
        elif now_us < flow.again_us:
            reason = DISBELIEVED
            self.standing.become(flow, State.REFUSED, reason, now_us)
        else:
            self.standing.become(flow, State.LEARNING, "", now_us)
        return reason

    def untell(self, client: str, topic: str, *, now_us: Instant) -> None:
        """A flow's client has no period to tell any more."""
        flow = self.table.get(key_of(client, topic))
        if flow is not None and flow.told is not None:
            self.places.give_back(flow)
            flow.unlearn()
            self.standing.become(flow, State.LEARNING, "", now_us)

    # -- being served, and no more ---------------------------------------------------------------------------

    def _try(self, flow: Flow, now_us: Instant) -> None:
        """Serve a flow whose grid is known, if that can be."""
        grid = flow.grid
        assert grid is not None
        if now_us < flow.again_us:
            return
        reason = self.places.admit(flow)
        if reason:
            if flow.declared_us:  # what comes until then is no part of the grid it told
                flow.grid = None
            elif grid.jitter_us > grid.period_us / 4:  # nobody has such a grid: it is lost
                flow.unlearn()
            self.standing.defer(flow, Happening.REFUSED, reason, now_us)
            return
        period_us, credit_us = flow.declared_us or grid.period_us, CREDIT * grid.period_us
        flow.police = Police(period_us, grid.period_us)
        flow.slow_police = Police(period_us, grid.period_us, credit_us=credit_us)
        flow.police.conforms(now_us)
        flow.slow_police.conforms(now_us - (0 if flow.failures else round(FIRST_CREDIT * grid.period_us)))
        flow.laned = True
        flow.on_time_rate, flow.excess_rate = 1.0, 0.0
        self.standing.become(flow, State.SERVED, "", now_us)
        self.standing.happened(Happening.ADMITTED, flow, now_us)
        self._silence.watch(flow)

    def _leave(self, flow: Flow, reason: str, now_us: Instant) -> None:
        self.places.give_back(flow)
        if reason in (CHEATS, UNPUNCTUAL):
            flow.disbelieved_us = flow.declared_us
            if self.options.detect:
                flow.unlearn()
            else:  # nobody would find it out
                flow.grid = None
        self.standing.defer(flow, Happening.LEFT, reason, now_us)

    # -- silence ---------------------------------------------------------------------------------------------

    def timer(self) -> Instant | None:
        """When to look whether a flow is silent."""
        return self._silence.timer()

    def on_timer(self, *, now_us: Instant) -> None:
        """The moment has come."""
        self._advance(now_us)
        for flow in self._silence.fallen(now_us):
            assert flow.grid is not None
            flow.missed += max(0, flow.grid.steps(now_us))
            self.places.give_back(flow)
            self.standing.become(flow, State.SILENT, "silent", now_us)
            self.standing.happened(Happening.SILENT, flow, now_us, "silent")

    # -- what can be known -----------------------------------------------------------------------------------

    def events(self) -> list[FlowEvent]:
        """Take what happened."""
        return self.standing.events()

    def _advance(self, now_us: Instant) -> int:
        before = self.reservations.now
        slot = self.reservations.advance(now_us)
        if slot != before:
            self.history.advance(slot)
            self._recorded.clear()
        return slot
