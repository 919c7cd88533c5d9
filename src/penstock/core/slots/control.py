"""The control of flows: record an arrival, predict and reserve the next, and say how this packet is treated.

`control_treatment` has the table of treatments. The core is told the time; it has `timer`, `on_timer` and
`events`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from penstock.core.slots.control_treatment import FlowEvent, Happening, Lane, treated
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import RECENT, Flow, FlowTable, State, Told, key_of
from penstock.core.slots.grid import Grid
from penstock.core.slots.police import Police
from penstock.core.slots.reservation import Reservations
from penstock.core.slots.shape import Shape
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.core.slots.control_options import ControlOptions
    from penstock.model.instant import Instant

SEEN_SLOTS: Final = 2
"""Slots of the history a flow must be in before it gets a place in the table: what comes once, gets none."""

AHEAD: Final = 2
"""Packets for which slots are reserved, if the window allows: one may be lost, the next is still expected."""

AGAIN_US: Final = SECOND_US
"""A flow that was refused is tried again after this, then after twice as long …"""

AGAIN_MOST: Final = 6
"""… doubled so many times at most: about a minute."""

PUNCTUAL: Final = 0.5
"""Share of its last packets in their slots below which a flow is better off as best effort."""

UNPUNCTUAL: Final = "comes outside its slots"

CHEATS: Final = "sends more than it declared"

CHEATING: Final = 0.1
"""Share of packets beyond the declared rate above which a flow is served no more."""


class FlowControl:
    """All flows of a link or a node."""

    def __init__(self, options: ControlOptions, *, now_us: Instant) -> None:
        self.options = options
        self.table = FlowTable(most=options.flows, idle_us=options.idle_us)
        self.refused: dict[str, int] = {}
        """Flows not admitted or served no more, by reason."""
        self.packets = dict.fromkeys(Lane, 0)
        self._slot_us = options.slot_us
        shape = Shape(arrays=options.slots, groups=1, positions=options.positions)
        self.history = RefreshingFilter(shape, start=now_us // options.slot_us)
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
        self._watched: list[tuple[int, int]] = []
        """(when to look, key) of flows that may fall silent: a heap."""
        self._events: list[FlowEvent] = []
        self._slot = now_us // options.slot_us

    @property
    def served(self) -> int:
        """Flows that are served."""
        return len(self._loads)

    # -- a packet comes --------------------------------------------------------------------------------------

    def flow(self, key: int, client: str, topic: str, *, now_us: Instant) -> Flow | None:
        """A packet's flow, if it has come before; it is recorded that it came."""
        slot = self._advance(now_us)
        flow = self.table.get(key)
        if flow is None:
            self.history.insert(key, slot)
            if self.options.detect and self.history.query(key).bit_count() >= SEEN_SLOTS:
                flow = self.table.add(key, client, topic, now_us=now_us)
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
        return self.take(flow, now_us=now_us)

    def take(self, flow: Flow, *, now_us: Instant) -> Lane:
        """A packet of a known flow; its lane. `flow` has been asked for it."""
        flow.arrivals += 1
        take = self._take_served if flow.state is State.SERVED else self._take_other
        lane = take(flow, now_us)
        flow.last_us = now_us
        if lane is Lane.BEST_EFFORT:
            flow.last_other_us = now_us
        self.packets[lane] += 1
        return lane

    def _take_served(self, flow: Flow, now_us: Instant) -> Lane:
        grid, police = flow.grid, flow.police
        assert grid is not None
        assert police is not None
        conforms = police.conforms(now_us)
        flow.excess_rate += ((not conforms) - flow.excess_rate) / RECENT
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
        police.period_us = flow.declared_us or grid.period_us
        self._fit_tolerance(flow)
        reserved = self._reserve_next(flow)
        lane, stays = treated(served=True, on_time=on_time, reserved=reserved)
        if not stays:
            self._leave(flow, "slot full", now_us)
        elif flow.on_time_rate < PUNCTUAL or grid.jitter_us > grid.period_us / 4:
            self._leave(flow, UNPUNCTUAL, now_us)
        return lane

    def _take_other(self, flow: Flow, now_us: Instant) -> Lane:
        """Best effort; perhaps it can be served from now on."""
        if flow.state is State.SILENT:
            self._happened(Happening.BACK, flow, now_us)
            self._become(flow, State.LEARNING, "", now_us)
        if flow.told is None:
            found = flow.learn(now_us)
            if found is None:
                return Lane.BEST_EFFORT
            flow.told = Told.DETECTED
            flow.grid = Grid.of(found, flow.learnt())
            self._try(flow, now_us)
        elif flow.grid is None:
            jitter_us = flow.tolerance_us / self.options.sigmas or None
            flow.grid = Grid(flow.declared_us, now_us, jitter_us=jitter_us)
            self._try(flow, now_us)
        else:
            if not flow.grid.add(now_us) and now_us - flow.last_us > 2 * flow.grid.period_us:
                flow.grid.restart(now_us)
            self._try(flow, now_us)
        return Lane.BEST_EFFORT

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
        reason = self.options.problem_with(period_us, jitter_us)
        flow = self.table.get(key)
        if flow is not None and flow.declared_us == period_us and flow.told is by:
            return flow.reason if flow.state is State.REFUSED else ""
        if flow is not None and flow.disbelieved_us == period_us and now_us < flow.again_us:
            return flow.reason
        if reason:
            return self._count(reason)
        if flow is None:
            flow = self.table.add(key, client, topic, now_us=now_us)
            if flow is None:
                return self._count("table full: so many flows cannot be known at a time")
        if flow.state is State.SERVED:
            self._stop(flow)
        flow.learnt()
        flow.told, flow.declared_us, flow.grid, flow.police = by, period_us, None, None
        flow.tolerance_us = jitter_us * self.options.sigmas
        if flow.disbelieved_us != period_us:
            flow.again_us = flow.failures = 0
        flow.last_us = now_us
        self._become(flow, State.LEARNING, "", now_us)
        return ""

    def untell(self, client: str, topic: str, *, now_us: Instant) -> None:
        """A flow's client has no period to tell any more."""
        flow = self.table.get(key_of(client, topic))
        if flow is not None and flow.told is not None:
            if flow.state is State.SERVED:
                self._stop(flow)
            flow.unlearn()
            self._become(flow, State.LEARNING, "", now_us)

    # -- being served ----------------------------------------------------------------------------------------

    def _try(self, flow: Flow, now_us: Instant) -> None:
        """Serve a flow whose grid is known, if that can be."""
        grid = flow.grid
        assert grid is not None
        if now_us < flow.again_us:
            return
        self._fit_tolerance(flow)
        reason = self.options.problem_with(grid.period_us, grid.jitter_us)
        load = self._load_of(flow)
        if not reason and self._load + load > self.options.reserved_load:
            reason = "no capacity: served flows take all that may be reserved"
        if not reason and not self._reserve_next(flow):
            reason = "slot full: a slot it would need has no place left"
        if reason:
            self._refuse(flow, Happening.REFUSED, reason, now_us)
            return
        self._loads[flow.key] = load
        self._load += load
        flow.police = Police(flow.declared_us or grid.period_us, self._allowance(flow))
        flow.police.conforms(now_us)
        flow.failures, flow.laned = 0, True
        flow.on_time_rate, flow.excess_rate = 1.0, 0.0
        self._become(flow, State.SERVED, "", now_us)
        self._happened(Happening.ADMITTED, flow, now_us)
        if not flow.watched:
            flow.watched = True
            heappush(self._watched, (self._silent_us(flow), flow.key))

    def _load_of(self, flow: Flow) -> float:
        assert flow.grid is not None
        return self._slot_us / flow.grid.period_us

    def _fit_tolerance(self, flow: Flow) -> None:
        """δ from the jitter that is seen: half a slot at least, as slots are no finer."""
        grid = flow.grid
        assert grid is not None
        wanted = self.options.sigmas * grid.jitter_us
        flow.tolerance_us = min(max(wanted, self._slot_us / 2), grid.period_us / 2)
        if flow.police is not None:
            flow.police.tolerance_us = self._allowance(flow)

    def _allowance(self, flow: Flow) -> float:
        """How early a packet may be: by a period, if the one before was late by as much."""
        assert flow.grid is not None
        return flow.grid.period_us

    def _reserve_next(self, flow: Flow) -> bool:
        """Have slots for the next packets; those of packets that should have come go."""
        grid, slots = flow.grid, self.reservations
        assert grid is not None
        reserved = flow.reserved
        while reserved and reserved[0].stop <= self._slot + 1:
            reserved.popleft()
        ahead = min(AHEAD, int((slots.longest_us - flow.tolerance_us) // grid.period_us))
        after_us = max(reserved[-1].stop * self._slot_us if reserved else 0, self._slot * self._slot_us)
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

    # -- not being served any more ---------------------------------------------------------------------------

    def _stop(self, flow: Flow) -> None:
        """Give back what is reserved."""
        for slots in flow.reserved:
            self.reservations.release(slots)
        flow.reserved.clear()
        self._load -= self._loads.pop(flow.key, 0.0)
        if not self._loads:
            self._load = 0.0  # no rounding errors of years

    def _leave(self, flow: Flow, reason: str, now_us: Instant) -> None:
        self._stop(flow)
        if reason in (CHEATS, UNPUNCTUAL):
            flow.disbelieved_us = flow.declared_us
            flow.unlearn()
        self._refuse(flow, Happening.LEFT, reason, now_us)

    def _refuse(self, flow: Flow, what: Happening, reason: str, now_us: Instant) -> None:
        """Not served: tried again later, each time after twice as long."""
        self._stop(flow)
        again_us = AGAIN_US << min(flow.failures, AGAIN_MOST)
        flow.failures += 1
        flow.again_us = now_us + again_us
        self._count(reason)
        first = flow.reason != reason or what is Happening.LEFT
        self._become(flow, State.REFUSED, reason, now_us)
        if first:  # the same refusal again is no news
            self._happened(what, flow, now_us, reason, again_us)

    def _count(self, reason: str) -> str:
        short = reason.partition(":")[0]
        self.refused[short] = self.refused.get(short, 0) + 1
        return reason

    # -- silence ---------------------------------------------------------------------------------------------

    def _silent_us(self, flow: Flow) -> int:
        """When a served flow is taken for silent, if nothing comes until then."""
        assert flow.grid is not None
        late_us = flow.grid.at(self.options.silent_after) + flow.tolerance_us
        return round(max(late_us, flow.last_us + self.options.silent_least_us)) + 1

    def timer(self) -> Instant | None:
        """When to look whether a flow is silent."""
        return self._watched[0][0] if self._watched else None

    def on_timer(self, *, now_us: Instant) -> None:
        """The moment has come."""
        self._advance(now_us)
        while self._watched and self._watched[0][0] <= now_us:
            _, key = heappop(self._watched)
            flow = self.table.get(key)
            if flow is None or flow.state is not State.SERVED:
                if flow is not None:
                    flow.watched = False
                continue
            due_us = self._silent_us(flow)
            if due_us > now_us:
                heappush(self._watched, (due_us, key))
                continue
            assert flow.grid is not None
            flow.watched = False
            flow.missed += max(0, flow.grid.steps(now_us))
            self._stop(flow)
            self._become(flow, State.SILENT, "silent", now_us)
            self._happened(Happening.SILENT, flow, now_us, "silent")

    # -- what can be known -----------------------------------------------------------------------------------

    def events(self) -> list[FlowEvent]:
        """Take what happened."""
        events, self._events = self._events, []
        return events

    def _advance(self, now_us: Instant) -> int:
        slot = now_us // self._slot_us
        if slot > self._slot:
            self._slot = self.reservations.advance(now_us)
            self.history.advance(slot)
        return self._slot

    def _become(self, flow: Flow, state: State, reason: str, now_us: Instant) -> None:
        if flow.state is not state:
            flow.since_us = now_us
        flow.state, flow.reason = state, reason

    def _happened(
        self, what: Happening, flow: Flow, now_us: Instant, reason: str = "", retry_us: int = 0
    ) -> None:
        self._events.append(FlowEvent(what, flow, now_us, reason, retry_us))
