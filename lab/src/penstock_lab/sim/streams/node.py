"""A simulated node of reliable streams: the broker core, queues and links, a log that survives crashes.

`NetworkOptions` describes nodes and links. `History` records what happened to the messages of a run; the
checks read it. `StreamPublisher` wants to publish at a rate, and waits while too many messages are not
acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.streams.link_queue import LinkQueue
from penstock.core.streams.messages import Acknowledged, Data, Delivered, Missed, Silence
from penstock.core.streams.options import StreamOptions
from penstock.core.streams.ticks import Spans
from penstock_lab.sim.link import LinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.streams.broker import StreamBroker
    from penstock.core.streams.log import MemoryLog
    from penstock.core.streams.messages import Matches, Message, StreamEvent
    from penstock.core.streams.subend import Subend
    from penstock_lab.sim.clock import LocalClock, Timer
    from penstock_lab.sim.faults import FaultOptions
    from penstock_lab.sim.link import Link
    from penstock_lab.sim.world import World

LAN: Final = LinkOptions(bytes_per_s=12_500_000, delay_us=2_000)
"""100 Mbit/s within a building."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Properties of nodes and links."""

    streams: StreamOptions = field(default_factory=StreamOptions)
    link: LinkOptions = LAN
    faults: Mapping[str, FaultOptions] = field(default_factory=dict)
    """Faults of links in both directions, by the node below; "" for all others."""
    down_only: bool = False
    """Whether bandwidth schedules limit only the direction towards the leaves; what goes up is small."""
    queue_bytes: int = 5 << 20
    """Size of the queue before each link; 5 MB in the paper."""
    header_bytes: int = 0
    """Bytes sent with each message of data or silence besides our own frame."""
    fair: bool = True
    """Whether links serve pubends in turn."""
    commit_us: int = 3_000
    """Duration of a group commit; messages that come meanwhile wait for the next one."""
    before_us: int = 0
    """Subscribers start this long before the epoch: at least as much as a clock may be behind."""
    record: bool = True
    """Whether links write into the trace; long experiments turn it off."""


@dataclass(slots=True)
class Subscriber:
    """A subscriber at a leaf; its position survives crashes of the node."""

    name: str
    node: str
    matches: Matches | None
    position: dict[str, int] = field(default_factory=dict)
    """First tick that has not been processed, per pubend."""
    received: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)

    def take(self, pubend: str, tick: int, body: bytes) -> None:
        """Process a message and advance the position in one step."""
        if self.matches is None or self.matches(body):
            self.received.setdefault(pubend, []).append((tick, body))
        self.position[pubend] = tick + 1


@dataclass(slots=True)
class History:
    """The story of a run: durable and acknowledged messages per pubend, and what nodes were told."""

    durable: dict[str, dict[int, bytes]] = field(default_factory=dict)
    acknowledged: dict[str, dict[int, None]] = field(default_factory=dict)
    subscribers: list[Subscriber] = field(default_factory=list)
    silences: dict[tuple[str, str, str], Spans] = field(default_factory=dict)
    """Ranges told to be silent, by (node, pubend, interest)."""
    missed: list[tuple[str, str, int, int]] = field(default_factory=list)
    """(node, pubend, from, to) of ranges that nodes were told are gone."""

    def watch(self, node: str, message: Message) -> None:
        """Record a message that reaches a node."""
        if isinstance(message, Data):
            self._silent(node, message.pubend, message.interest, message.since, message.tick)
        elif isinstance(message, Silence):
            self._silent(node, message.pubend, message.interest, message.since, message.until)

    def _silent(self, node: str, pubend: str, interest: str, since: int, until: int) -> None:
        if until > since:
            self.silences.setdefault((node, pubend, interest), Spans()).add(since, until)


EPOCH_US: Final = 1_000_000_000
"""Reading of clocks when the world begins: large enough that a clock behind it stays positive."""


class StreamNode:
    """Drives a broker as a real node would: messages in, timers, messages out, commits."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        clock: LocalClock,
        build: Callable[[StreamNode], StreamBroker],
        history: History,
        options: NetworkOptions,
    ) -> None:
        self.name = name
        self.history = history
        self.subscribers: list[Subscriber] = []
        self.subends: list[Subend] = []
        self.logs: dict[str, MemoryLog] = {}
        self.queues: dict[str, LinkQueue] = {}
        self.links: dict[str, Link[Message]] = {}
        self.on_acknowledged: dict[str, Callable[[int], None]] = {}
        self.broker: StreamBroker | None = None
        self.crashes = 0
        self.set_back_us = 0
        """How far the clock has been set back; changes only while the node is down."""
        self._world = world
        self._clock = clock
        self._build = build
        self._options = options
        self._timer: Timer | None = None
        self._timer_us = 0
        self._life = 0
        self._committing: dict[str, bool] = {}
        self._unlogged: dict[str, dict[int, bytes]] = {}

    @property
    def now_us(self) -> int:
        """The reading of this node's clock."""
        return EPOCH_US + self._clock.now_us - self.set_back_us

    def connect(self, peer: str, link: Link[Message]) -> None:
        """Add a link to a neighbour, with a queue before it."""
        self.links[peer] = link
        options = self._options
        self.queues[peer] = LinkQueue(
            options.queue_bytes, fair=options.fair, header_bytes=options.header_bytes
        )

    def start(self) -> None:
        """Start or restart the node from its logs and its subscribers' positions alone."""
        self.subends.clear()
        self.broker = self._build(self)
        for log in self.logs.values():
            log.commit()
        self.settle()

    def crash(self) -> None:
        """Crash the node: everything that is not durable is lost."""
        self.crashes += 1
        self._life += 1
        self.broker = None
        self._committing.clear()
        self._unlogged.clear()
        for queue in self.queues.values():
            queue.clear()
        for log in self.logs.values():
            log.crash()
        if self._timer is not None:
            self._timer.cancel()

    def arrive(self, peer: str, message: Message) -> None:
        """Take a message from a neighbour."""
        if self.broker is not None:
            self.history.watch(self.name, message)
            self.broker.receive(message, peer=peer, now_us=self.now_us)
            self.settle()

    def publish(self, pubend: str, body: bytes) -> int | None:
        """Publish a message; return its tick, or None while the node is down."""
        if self.broker is None:
            return None
        tick = self.broker.pubend(pubend).publish(body, now_us=self.now_us)
        self._unlogged.setdefault(pubend, {})[tick] = body
        self._commit_soon(pubend)
        for event in self.broker.pubend(pubend).events():
            self._happened(event)
        return tick

    def settle(self) -> None:
        """Carry out what the broker core asks for: send, deliver, commit, set timers."""
        broker = self.broker
        assert broker is not None
        outgoing = broker.outgoing()
        for peer, message in outgoing:
            self.queues[peer].offer(message)
        for peer in {peer: None for peer, _ in outgoing}:
            self.pump(peer)
        for event in broker.events():
            self._happened(event)
        for subend in self.subends:
            if subend.horizon > subend.acked:
                self._processed(subend)
        for pubend, log in self.logs.items():
            if log.claiming:
                self._commit_soon(pubend)
        self._wind()

    def pump(self, peer: str) -> None:
        """Move messages from the queue to the link while it is ready."""
        link, queue = self.links[peer], self.queues[peer]
        while link.ready and (found := queue.take()) is not None:
            link.send(*found)

    def _happened(self, event: StreamEvent) -> None:
        if isinstance(event, Delivered):
            for subscriber in self.subscribers:
                if event.tick >= subscriber.position.get(event.pubend, 0):
                    subscriber.take(event.pubend, event.tick, event.body)
        elif isinstance(event, Acknowledged):
            self.history.acknowledged.setdefault(event.pubend, {})[event.tick] = None
            told = self.on_acknowledged.get(event.pubend)
            if told is not None:
                told(event.tick)
        elif isinstance(event, Missed):
            self.history.missed.append((self.name, event.pubend, event.since, event.until))

    def _processed(self, subend: Subend) -> None:
        """Tell the core what subscribers have processed: everything up to the doubt horizon."""
        subend.acknowledge(subend.horizon)
        for subscriber in self.subscribers:
            if subscriber.position.get(subend.pubend, 0) < subend.horizon:
                subscriber.position[subend.pubend] = subend.horizon

    def _wind(self) -> None:
        assert self.broker is not None
        due_us = self.broker.timer()
        if due_us is None:
            return
        if self._timer is not None and self._timer.active:
            if self._timer_us <= due_us:
                return
            self._timer.cancel()
        self._timer_us = due_us
        self._timer = self._clock.at(due_us - EPOCH_US + self.set_back_us, self._on_timer)

    def _on_timer(self) -> None:
        if self.broker is not None:
            self.broker.on_timer(now_us=self.now_us)
            self.settle()

    def _commit_soon(self, pubend: str) -> None:
        if not self._committing.get(pubend):
            self._committing[pubend] = True
            self._world.clock.after(self._options.commit_us, partial(self._commit, pubend, self._life))

    def _commit(self, pubend: str, life: int) -> None:
        if life != self._life or self.broker is None:
            return
        self._committing[pubend] = False
        until, claimed = self.logs[pubend].commit()
        self.history.durable.setdefault(pubend, {}).update(self._unlogged.pop(pubend, {}))
        self.broker.pubend(pubend).committed(until, claimed=claimed, now_us=self.now_us)
        self.broker.changed(pubend, now_us=self.now_us)
        self.settle()


class StreamPublisher:
    """All publishers of one pubend as one; messages lost in a crash are not sent again."""

    def __init__(
        self,
        world: World,
        node: StreamNode,
        pubend: str,
        *,
        every_us: int,
        window: int,
        body: Callable[[int], bytes],
        until_us: int,
        start_us: int = 0,
    ) -> None:
        self.published = 0
        self._world = world
        self._node = node
        self._pubend = pubend
        self._every_us = every_us
        self._window = window
        self._body = body
        self._until_us = until_us
        self._waiting: dict[int, None] = {}
        self._life = node.crashes
        self._blocked = False
        node.on_acknowledged[pubend] = self._acknowledged
        world.clock.at(start_us, self._turn)

    def stop(self) -> None:
        """Publish nothing more."""
        self._until_us = self._world.now_us

    def _turn(self) -> None:
        """Publish the message that is due, or wait if too many are unacknowledged."""
        if self._world.now_us >= self._until_us:
            return
        if self._node.crashes != self._life:  # after a restart of the node nothing is in flight
            self._life = self._node.crashes
            self._waiting.clear()
        if len(self._waiting) >= self._window:
            self._blocked = True
            # A node that is down sends no acknowledgement to wake this publisher, so look again later.
            self._world.clock.after(10 * self._every_us, self._look_again)
            return
        self._blocked = False
        tick = self._node.publish(self._pubend, self._body(self.published))
        if tick is not None:
            self.published += 1
            self._waiting[tick] = None
        self._world.clock.after(self._every_us, self._turn)

    def _look_again(self) -> None:
        if self._blocked and self._node.crashes != self._life:
            self._turn()
        elif self._blocked:
            self._world.clock.after(10 * self._every_us, self._look_again)

    def _acknowledged(self, tick: int) -> None:
        self._waiting.pop(tick, None)
        if self._blocked and len(self._waiting) < self._window:
            self._blocked = False
            self._world.clock.at(self._world.now_us, self._turn)
