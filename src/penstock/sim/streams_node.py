"""A simulated node of reliable streams: the broker core, queues and links, a log that survives crashes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.streams.events import Acknowledged, Delivered, Missed
from penstock.core.streams.link_queue import LinkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.broker import Broker
    from penstock.core.streams.events import Event
    from penstock.core.streams.log import MemoryLog
    from penstock.core.streams.messages import Message
    from penstock.core.streams.subend import Subend
    from penstock.sim.clock import Timer
    from penstock.sim.link import Link
    from penstock.sim.local_clock import LocalClock
    from penstock.sim.streams_history import History, Subscriber
    from penstock.sim.streams_options import NetworkOptions
    from penstock.sim.world import World

EPOCH_US: Final = 1_000_000_000
"""What clocks show when the world begins: far enough from 0 for those that are behind."""


class StreamNode:
    """Drives a broker as a real node would: messages in, timers, messages out, commits."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        clock: LocalClock,
        build: Callable[[StreamNode], Broker],
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
        self.broker: Broker | None = None
        self.crashes = 0
        self.set_back_us = 0
        """How far the clock has been set back: changes between a crash and the next start."""
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
        """What this node's clock shows."""
        return EPOCH_US + self._clock.now_us - self.set_back_us

    def connect(self, peer: str, link: Link[Message]) -> None:
        """A link to a neighbour; messages wait in a queue before it."""
        self.links[peer] = link
        options = self._options
        self.queues[peer] = LinkQueue(
            options.queue_bytes, fair=options.fair, header_bytes=options.header_bytes
        )

    def start(self) -> None:
        """Begin, or begin again, with nothing but the logs and the subscribers' positions."""
        self.subends.clear()
        self.broker = self._build(self)
        for log in self.logs.values():
            log.commit()
        self.settle()

    def crash(self) -> None:
        """Lose everything that is not durable."""
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
        """A message from a neighbour."""
        if self.broker is not None:
            self.history.watch(self.name, message)
            self.broker.receive(message, peer=peer, now_us=self.now_us)
            self.settle()

    def publish(self, pubend: str, body: bytes) -> int | None:
        """A publisher's message; None while the node is down."""
        if self.broker is None:
            return None
        tick = self.broker.pubend(pubend).publish(body, now_us=self.now_us)
        self._unlogged.setdefault(pubend, {})[tick] = body
        self._commit_soon(pubend)
        for event in self.broker.pubend(pubend).events():
            self._happened(event)
        return tick

    def settle(self) -> None:
        """Carry out what the broker wants."""
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
        """Give the link what it can take."""
        link, queue = self.links[peer], self.queues[peer]
        while link.ready and (found := queue.take()) is not None:
            link.send(*found)

    def _happened(self, event: Event) -> None:
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
        """Subscribers here process at once: up to the doubt horizon nothing is left to do."""
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
