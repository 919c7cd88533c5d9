"""The flows of a node: drives the control of flows, and publishes what happens to them on $flows topics.

$flows/silent     a served flow has stopped sending
$flows/back       a silent flow sends again
$flows/refused    a flow is not served, or no longer, with the reason
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from penstock import limits
from penstock.core.slots.control import FlowControl
from penstock.core.slots.flows import FlowState, PeriodSource, key_of
from penstock.core.slots.lanes import FlowHappening, Lane
from penstock.core.slots.retries import RequestSlots
from penstock.errors import InputError
from penstock.model.instant import SECOND_US, to_us
from penstock.node.access.rate import RateLimit
from penstock.node.slots.links import SessionLinks
from penstock.node.slots.status import FlowsStatus, SlotsStatus
from penstock.node.store.control_table import TableFollower

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from penstock.core.slots.flows import Flow
    from penstock.core.slots.lanes import FlowEvent
    from penstock.core.slots.statistics import FlowStatistics
    from penstock.core.slots.unlisted import UnlistedFlow
    from penstock.model.instant import Instant
    from penstock.node.broker.routes import Router
    from penstock.node.config.slots import SlotSettings
    from penstock.node.slots.declared import Declared
    from penstock.node.store.control_table import TableVersion

log = logging.getLogger(__name__)

TOPICS: Final = "$flows/"

TICK_S: Final = 0.05
"""Interval of checks for silent flows."""

RESERVATIONS: Final = "reservations"
"""The control table."""

COLUMNS: Final = {"client": "string", "topic": "string", "period_us": "int64", "jitter_us": "int64"}

SAME_PERIOD: Final = 0.01
"""Periods of the same flow from two tables differ by less."""

_NAMES: Final = {
    FlowHappening.SILENT: "silent",
    FlowHappening.BACK: "back",
    FlowHappening.REFUSED: "refused",
    FlowHappening.LEFT: "refused",
    FlowHappening.SHUT_OUT: "refused",
}

_json = msgspec.json.Encoder()


class Reserved(msgspec.Struct, frozen=True):
    """A row of the control table."""

    client: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    period_us: Annotated[int, msgspec.Meta(ge=1)]
    jitter_us: Annotated[int, msgspec.Meta(ge=0)] = 0


class Topic(msgspec.Struct, frozen=True):
    """A topic that a client publishes on, with the key of its flow."""

    key: int
    name: str


class Flows:
    """All flows at listeners with slots."""

    def __init__(
        self,
        settings: SlotSettings,
        *,
        clock: Callable[[], Instant],
        publish: Callable[[str, bytes], None],
        router: Router,
    ) -> None:
        self.settings = settings
        options = settings.options()
        self.links = SessionLinks(settings, options, router)
        self.control = FlowControl(options, now_us=clock(), links=self.links)
        self.requests = RequestSlots(self.control)
        self._clock = clock
        self._publish = publish
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._following: asyncio.Task[None] | None = None
        self._alarms = 0
        each_us = to_us(TICK_S) // limits.FLOW_REFUSALS
        self._refusals = RateLimit(interval_us=each_us, ahead_us=each_us * (limits.FLOW_REFUSALS - 1))
        self.follower: TableFollower | None = None
        if settings.reservations:
            folder = Path(settings.reservations)
            self.follower = TableFollower(folder, RESERVATIONS, COLUMNS, keys=2, taken=self._take_table)

    # -- living ----------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to check for silent flows and to follow the control table."""
        self._loop = loop
        if self.follower is not None:
            if not Path(self.settings.reservations).is_dir():
                log.warning(
                    "slots.reservations: no folder '%s' yet; a table in it is used once it is written",
                    self.settings.reservations,
                )
            self._following = loop.create_task(self.follower.run(limits.CONTROL_LOOK_S))
        self._look()

    def reconfigure(self, settings: SlotSettings) -> None:
        """Apply the capacities of links and the table of decisions; the rest needs a restart."""
        self.settings = settings
        self.links.reconfigure(settings)
        self.control.decide_by(settings.decisions.decisions())

    def close(self) -> None:
        """Stop checking for silent flows."""
        if self._timer is not None:
            self._timer.cancel()
        if self._following is not None:
            self._following.cancel()

    def _look(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(TICK_S, self._look)
        now_us = self._clock()
        due_us = self.control.timer()
        if due_us is not None and due_us <= now_us:
            self.control.on_timer(now_us=now_us)
        self._tell_all()

    # -- messages --------------------------------------------------------------------------------------------

    def take(
        self, client_id: str, topic: Topic, count: int, *, now_us: Instant
    ) -> tuple[Flow | UnlistedFlow, list[Lane]] | None:
        """Record messages of a topic that arrived together; return flow and lanes, None if never served."""
        flow = self.control.flow(topic.key, client_id, topic.name, now_us=now_us)
        if flow is None:
            self.control.packets[Lane.BEST_EFFORT] += count
            return None
        lanes = self.control.take(flow, count, now_us=now_us)
        return (flow, lanes) if flow.laned else None

    def tell(self, client_id: str, topic: str, declared: Declared, *, now_us: Instant) -> str:
        """Accept a period that a client declares; return why it cannot be served, empty if it can."""
        if not declared.period_us:
            self.control.untell(client_id, topic, now_us=now_us)
            return ""
        why = self.control.tell(
            client_id, topic, declared.period_us, jitter_us=declared.jitter_us, now_us=now_us
        )
        # For a flow in the table the core makes an event, which `_tell_all` publishes.
        if why and self.control.table.get(key_of(client_id, topic)) is None:
            self._say_refused(client_id, topic, why)
        return why

    def unreadable(self, client_id: str, topic: str, why: str, *, what: str = "bad period") -> None:
        """Count and publish a declaration of a client that is malformed."""
        self.control.standing.count(what)
        self._say_refused(client_id, topic, why)

    def _say_refused(self, client_id: str, topic: str, why: str) -> None:
        now_us = self._clock()
        if self._refusals.take(now_us=now_us):
            body = {"client": client_id, "topic": topic, "reason": why, "at_us": now_us}
            self._publish(f"{TOPICS}refused", _json.encode(body))

    # -- what happens ----------------------------------------------------------------------------------------

    def _tell_all(self) -> None:
        for event in self.control.events():
            if event.what is FlowHappening.SILENT:
                self._alarms += 1
                log.warning("flow silent: client '%s', topic '%s'", event.flow.client, event.flow.topic)
            name = _NAMES.get(event.what)
            if name is None:
                continue
            if name == "refused" and not self._refusals.take(now_us=self._clock()):
                continue
            self._publish(TOPICS + name, _json.encode(_facts(event)))

    def _take_table(self, loaded: TableVersion) -> None:
        """Adopt the periods of a control table; those that clients declare take precedence."""
        if loaded.version.rows > self.settings.flows:
            raise InputError(
                f"has {loaded.version.rows:,} flows, slots.flows is {self.settings.flows:,}",
                path=str(loaded.folder),
            )
        rows = loaded.rows(Reserved)
        now_us = self._clock()
        wanted = {key_of(row.client, row.topic) for row in rows}
        for known in self.control.table.values():
            if known.told is PeriodSource.TABLE and known.key not in wanted:
                self.control.untell(known.client, known.topic, now_us=now_us)
        for row in rows:
            flow = self.control.table.get(key_of(row.client, row.topic))
            if flow is not None and (flow.told is PeriodSource.CLIENT or _is_known_at(flow, row.period_us)):
                continue
            self.control.tell(
                row.client,
                row.topic,
                row.period_us,
                jitter_us=row.jitter_us,
                by=PeriodSource.TABLE,
                now_us=now_us,
            )

    # -- what can be known -----------------------------------------------------------------------------------

    def rows(self) -> list[FlowStatistics]:
        """Return all flows: silent ones first, then refused, served, learning; each by client and topic."""
        order = {FlowState.SILENT: 0, FlowState.REFUSED: 1, FlowState.SERVED: 2, FlowState.LEARNING: 3}
        found = sorted(self.control.table.values(), key=lambda one: (order[one.state], one.client, one.topic))
        return [flow.statistics() for flow in found]

    def status(self) -> FlowsStatus:
        """Return the figures of all flows together."""
        control = self.control
        follower = self.follower
        version = follower.version if follower is not None else None
        links = self.links.all()
        presents = [window.reservations.now for window in control.windows]
        fullest, name = max(
            ((round(link.fullest(presents), 4), link.name) for link in links), default=(0.0, "")
        )
        filters = [
            one.statistics()
            for window in control.windows
            for one in (window.history, window.reservations.filter)
        ]
        return FlowsStatus(
            known=len(control.table),
            served=control.served,
            silent=sum(flow.state is FlowState.SILENT for flow in control.table.values()),
            refused=dict(control.refused),
            alarms=self._alarms,
            reserved=control.packets[Lane.RESERVED],
            best_effort=control.packets[Lane.BEST_EFFORT],
            late=control.packets[Lane.LATE],
            requests=self.requests.answers,
            retried=control.retried,
            unlisted=control.unlisted.on_time,
            fullest=fullest,
            fullest_link=name,
            links=len(links),
            memory_bytes=sum(one.memory_bytes for one in filters),
            false_positive=round(max(one.joint_false_positive for one in filters), 9),
            slots=[
                SlotsStatus(slot_us=window.slot_us, window_us=control.options.window_us(number))
                for number, window in enumerate(control.windows)
            ],
            forgotten=control.table.forgotten,
            turned_away=control.table.turned_away,
            table_version=version.version if version is not None else 0,
            table_fault=follower.fault if follower is not None else "",
        )


def _is_known_at(flow: Flow, period_us: int) -> bool:
    """Whether a flow has this period already: declaring it again would interrupt it, or hide its silence."""
    grid = flow.grid
    return (
        flow.state in (FlowState.SERVED, FlowState.SILENT)
        and grid is not None
        and abs(grid.period_us - period_us) <= SAME_PERIOD * period_us
    )


def _facts(event: FlowEvent) -> dict[str, object]:
    flow = event.flow
    facts: dict[str, object] = {
        "client": flow.client,
        "topic": flow.topic,
        "at_us": event.at_us,
        "last_us": flow.last_us,
        "period_us": flow.statistics().period_us,
    }
    if event.what is FlowHappening.SILENT:
        facts["silent_s"] = round((event.at_us - flow.last_us) / SECOND_US, 3)
    if event.what is FlowHappening.SHUT_OUT:
        facts |= {"reason": event.reason, "links": len(flow.links), "links_refused": len(flow.shut_out)}
    if event.what in (FlowHappening.REFUSED, FlowHappening.LEFT):
        facts["reason"] = event.reason
        facts["served_before"] = event.what is FlowHappening.LEFT
        if event.retry_us:
            facts["retry_after_s"] = event.retry_us / SECOND_US
    return facts
