"""The control of flows: records an arrival, predicts and reserves the next, and decides the packet's lane.

`FlowStanding` counts why flows are refused and for how long; `SilentFlows` finds served flows that no
longer send. The owner passes in the time; if that goes back, it stands still for the slots. The interface
is `timer`, `on_timer` and `events`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import RECENT, Flow, FlowState, FlowTable, PeriodSource, Police, key_of
from penstock.core.slots.lanes import FlowEvent, FlowHappening, Lane, treated
from penstock.core.slots.period import Grid
from penstock.core.slots.reservation import FULL_SLOT, ReservedPlaces
from penstock.core.slots.shape import Shape
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant


class SilentFlows:
    """One moment for each served flow; it is only moved on when it has come."""

    def __init__(self, options: ControlOptions) -> None:
        self._options = options
        self._heap: list[tuple[Instant, int, Flow]] = []
        """(when to look, a number of its own, flow); in force if the flow is watched for that moment."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, flow: Flow) -> None:
        """A flow is served: look when it would be silent, if nobody looks earlier."""
        due_us = self._due_us(flow)
        if flow.watched_us is None or due_us < flow.watched_us:
            self._push(due_us, flow)
            if len(self._heap) > 2 * self._options.flows:
                self._clean()

    def timer(self) -> Instant | None:
        """When to look next."""
        return self._heap[0][0] if self._heap else None

    def fallen(self, now_us: Instant) -> Iterator[Flow]:
        """Flows that are silent by now."""
        heap = self._heap
        while heap and heap[0][0] <= now_us:
            at_us, _, flow = heappop(heap)
            if at_us != flow.watched_us:
                continue
            flow.watched_us = None
            if flow.state is not FlowState.SERVED:
                continue
            due_us = self._due_us(flow)
            if due_us <= now_us:
                yield flow
            else:
                self._push(due_us, flow)

    def _push(self, due_us: Instant, flow: Flow) -> None:
        flow.watched_us = due_us
        heappush(self._heap, (due_us, next(self._numbers), flow))

    def _clean(self) -> None:
        """Leave one moment for each served flow."""
        in_force = [one for one in self._heap if one[0] == one[2].watched_us]
        for _, _, flow in in_force:
            if flow.state is not FlowState.SERVED:
                flow.watched_us = None
        self._heap[:] = [one for one in in_force if one[2].state is FlowState.SERVED]
        heapify(self._heap)

    def _due_us(self, flow: Flow) -> Instant:
        """When a served flow is taken for silent, if nothing comes until then."""
        assert flow.grid is not None
        late_us = flow.grid.at(self._options.silent_after) + flow.tolerance_us
        return round(max(late_us, flow.last_us + self._options.silent_least_us)) + 1


AGAIN_US: Final = SECOND_US
"""A flow that was refused is tried again after this, then after twice as long …"""

AGAIN_MOST: Final = 6
"""… doubled so many times at most: about a minute."""


class FlowStanding:
    """Changes states, counts refusals and keeps what happened until somebody asks."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        """Flows not admitted or served no more, by reason."""
        self._events: list[FlowEvent] = []

    def become(self, flow: Flow, state: FlowState, reason: str, now_us: Instant) -> None:
        """A flow's state from now on."""
        if flow.state is not state:
            flow.since_us = now_us
        flow.state, flow.reason = state, reason

    def happened(
        self, what: FlowHappening, flow: Flow, now_us: Instant, reason: str = "", retry_us: int = 0
    ) -> None:
        """Something its owner should know."""
        self._events.append(FlowEvent(what, flow, now_us, reason, retry_us))

    def events(self) -> list[FlowEvent]:
        """Take what happened."""
        events, self._events = self._events, []
        return events

    def refuse(
        self, flow: Flow, what: FlowHappening, reason: str, now_us: Instant, again_us: Instant = 0
    ) -> None:
        """Not served; the same refusal again is no news."""
        self.count(reason)
        news = what is FlowHappening.LEFT or _short(flow.reason) != _short(reason)
        self.become(flow, FlowState.REFUSED, reason, now_us)
        if news:
            self.happened(what, flow, now_us, reason, again_us)

    def defer(self, flow: Flow, what: FlowHappening, reason: str, now_us: Instant) -> None:
        """Not served: tried again later, each time after twice as long, until it was served for so long."""
        again_us = wait_us(flow.failures)
        flow.failures += 1
        flow.again_us = now_us + again_us
        self.refuse(flow, what, reason, now_us, again_us)

    def count(self, reason: str) -> str:
        """Something could not be served: by what its reason says before the colon."""
        short = _short(reason)
        self.refused[short] = self.refused.get(short, 0) + 1
        return reason


def wait_us(failures: int) -> Instant:
    """How long a flow waits that failed so often before."""
    return AGAIN_US << min(failures, AGAIN_MOST)


def _short(reason: str) -> str:
    """A reason without what differs from case to case."""
    return reason.partition(":")[0]


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
        self.standing = FlowStanding()
        self.packets = dict.fromkeys(Lane, 0)
        shape = Shape(arrays=options.slots, groups=1, positions=options.positions)
        self.history = RefreshingFilter(shape, start=now_us // options.slot_us)
        self.places = ReservedPlaces(options, now_us=now_us)
        self.reservations = self.places.reservations
        self._silence = SilentFlows(options)
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
            if flow.state is FlowState.SERVED:
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
        """A flow's period; why it cannot be served, empty if it can: its next packets will show."""
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
            self.standing.refuse(flow, FlowHappening.REFUSED, reason, now_us)
        elif now_us < flow.again_us:
            reason = DISBELIEVED
            self.standing.become(flow, FlowState.REFUSED, reason, now_us)
        else:
            self.standing.become(flow, FlowState.LEARNING, "", now_us)
        return reason

    def untell(self, client: str, topic: str, *, now_us: Instant) -> None:
        """A flow's client has no period to tell any more."""
        flow = self.table.get(key_of(client, topic))
        if flow is not None and flow.told is not None:
            self.places.give_back(flow)
            flow.unlearn()
            self.standing.become(flow, FlowState.LEARNING, "", now_us)

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
            self.standing.defer(flow, FlowHappening.REFUSED, reason, now_us)
            return
        period_us, credit_us = flow.declared_us or grid.period_us, CREDIT * grid.period_us
        flow.police = Police(period_us, grid.period_us)
        flow.slow_police = Police(period_us, grid.period_us, credit_us=credit_us)
        flow.police.conforms(now_us)
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
            else:  # nobody would find it out
                flow.grid = None
        self.standing.defer(flow, FlowHappening.LEFT, reason, now_us)

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
            self.standing.become(flow, FlowState.SILENT, "silent", now_us)
            self.standing.happened(FlowHappening.SILENT, flow, now_us, "silent")

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
