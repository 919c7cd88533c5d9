"""A world for sessions that read a stream: a clock, a disk, connections and clients, all by seed.

The parts of the node are the real ones; what is around them is made here, so that it can be slow, full or
gone at any moment.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from penstock.core.streams import MemoryLog, StreamOptions
from penstock.core.streams.handshake import Offered
from penstock.core.streams.wire import Record, decode_record, encode_record
from penstock.model.event import stamp_of
from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode as read_packet
from penstock.mqtt.packets.packet import encode as packet_bytes
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Subscription as Options
from penstock.mqtt.topics import matches
from penstock.node.access.gate import Gate
from penstock.node.broker.broker import Broker
from penstock.node.broker.policies import NO_POLICY
from penstock.node.broker.session import Session
from penstock.node.broker.subscription import Subscription
from penstock.node.config.schema import Config, Listener
from penstock.node.config.streams import Hosting
from penstock.node.streams.sessions.subscriptions import StreamSubscriptions
from penstock.node.streams.tree.directory import StreamContext, StreamDirectory
from penstock.node.streams.tree.driver import CoreDriver
from penstock.node.streams.tree.hosted import HostedStream

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

STREAM = "orders"
TOPICS = ("orders/#",)
BEGAN_US = 1_700_000_000_000_000
OPTIONS = StreamOptions()
AGREED_BYTES = 1 << 30


class Handle:
    """Of something that will happen."""

    def __init__(self) -> None:
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled


class Loop:
    """An event loop whose time passes at once."""

    def __init__(self) -> None:
        self.now_us = BEGAN_US
        self._heap: list[tuple[int, int, Any]] = []
        self._numbers = count()

    def clock(self) -> int:
        return self.now_us

    def call_soon(self, what: Callable[..., None], *args: Any) -> Handle:
        return self.call_later(0, what, *args)

    def call_later(self, delay_s: float, what: Callable[..., None], *args: Any) -> Handle:
        handle = Handle()
        due_us = self.now_us + max(0, round(delay_s * 1e6))
        heapq.heappush(self._heap, (due_us, next(self._numbers), (handle, partial(what, *args))))
        return handle

    def run(self, duration_s: float) -> None:
        until_us = self.now_us + round(duration_s * 1e6)
        while self._heap and self._heap[0][0] <= until_us:
            due_us, _, (handle, what) = heapq.heappop(self._heap)
            self.now_us = max(self.now_us, due_us)
            if not handle.cancelled():
                what()
        self.now_us = until_us


class Disk:
    """The state file: what is not committed is gone after a crash."""

    def __init__(self, loop: Loop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self.durable: dict[tuple[str, tuple[str, ...]], bytes] = {}
        self._changes: list[tuple[tuple[str, tuple[str, ...]], bytes | None]] = []
        self._waiting: list[Callable[[], None]] = []
        self._life = 0
        self._soon = False
        self.fault = ""

    def load(self, table: str) -> list[tuple[tuple[str, ...], bytes]]:
        return [(key, value) for (name, key), value in self.durable.items() if name == table]

    def put(self, table: str, key: tuple[str, ...], value: bytes) -> None:
        self._changes.append(((table, key), value))
        self._wind()

    def remove(self, table: str, key: tuple[str, ...]) -> None:
        self._changes.append(((table, key), None))
        self._wind()

    def when_durable(self, callback: Callable[[], None]) -> None:
        if not self._changes:
            callback()
        else:
            self._waiting.append(callback)

    def crash(self) -> None:
        self._life += 1
        self._soon = False
        self._changes, self._waiting = [], []

    def _wind(self) -> None:
        if not self._soon:
            self._soon = True
            self._loop.call_later(self._rng.choice((0.0, 0.002, 0.05)), self._commit, self._life)

    def _commit(self, life: int) -> None:
        if life != self._life:
            return
        self._soon = False
        changes, self._changes = self._changes, []
        waiting, self._waiting = self._waiting, []
        for slot, value in changes:
            if value is None:
                self.durable.pop(slot, None)
            else:
                self.durable[slot] = value
        for callback in waiting:
            callback()


class SlowLog(MemoryLog):
    """Commits after a while, and often has what is asked for only later."""

    def __init__(self, loop: Loop, rng: random.Random) -> None:
        super().__init__()
        self.fault = ""
        self.bytes = 0
        self.largest = 1 << 20
        self._loop = loop
        self._rng = rng
        self.history: list[tuple[int, bytes]] = []
        """Everything that was ever durable."""
        self._fresh: list[tuple[int, bytes]] = []
        self._here: set[tuple[int, int, int]] = set()
        self._committed: Callable[[int, int], None] | None = None
        self._ready: Callable[[], None] = lambda: None
        self._soon = False

    def start(self, *, committed: Callable[[int, int], None], ready: Callable[[], None]) -> None:
        self._committed, self._ready, self._soon = committed, ready, False
        self._wind()

    def append(self, tick: int, body: bytes) -> None:
        super().append(tick, body)
        self._fresh.append((tick, body))
        self._wind()

    def claim(self, tick: int) -> None:
        super().claim(tick)
        self._wind()

    def _wind(self) -> None:
        if not self._soon and self._committed is not None:
            self._soon = True
            self._loop.call_later(self._rng.choice((0.0, 0.005, 0.02)), self._write, self._committed)

    def _write(self, committed: Callable[[int, int], None]) -> None:
        if committed is not self._committed:
            return
        self._soon = False
        self.history += self._fresh
        self._fresh = []
        committed(*self.commit())

    def crash(self) -> None:
        super().crash()
        self._committed = None
        self._fresh = []

    def read(self, since: int, until: int, most: int) -> list[tuple[int, bytes]] | None:
        key = (since, until, most)
        if key not in self._here and self._rng.random() < 0.3:
            self._here.add(key)
            self._loop.call_later(self._rng.choice((0.0, 0.01)), self._tell)
            return None
        return super().read(since, until, most)

    def _tell(self) -> None:
        self._ready()


@dataclass
class Wants:
    """A subscription of a client."""

    filter: str
    qos: int
    start: int | None = None
    begins: int = -1
    """Once it is acknowledged."""


class Line:
    """A connection: bytes take a while, and the transport is full at times."""

    maximum_packet_bytes = AGREED_BYTES
    address = "here"
    listener = Listener()
    why = ""

    def __init__(self, world: World, client: Client) -> None:
        self.paused = False
        self.sampled: Any = None
        self._world = world
        self._client = client

    @property
    def output(self) -> Self:
        return self

    def progress(self) -> tuple[int, int]:
        return 0, 0

    full = False

    def unsent(self) -> int:
        return 0

    def be_slow(self) -> None:
        pass

    def keep_little(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        self._world.loop.call_later(0.001, self._client.arrived, self, data)
        if not self.paused and self._world.rng.random() < self._world.full:
            self.paused = True
            assert self._client.session is not None
            self._client.session.delivery.keeping_up = False
            self._world.loop.call_later(self._world.rng.choice((0.001, 0.3)), self._resume)

    write_now = write

    def write_late(self, data: bytes, *, since_us: int) -> None:
        assert since_us <= self._world.loop.now_us
        self.write(data)
        self._resume()

    def send(self, packet: Any) -> None:
        self.write(packet_bytes(packet, 5))

    def end(self, error: Exception) -> None:
        raise AssertionError(error)

    def _resume(self) -> None:
        self.paused = False
        session = self._client.session
        if session is not None and session.link is self:
            session.drain(now_us=self._world.loop.now_us)


@dataclass
class Client:
    """Its session lives at the node; what it has received is its own and survives everything."""

    world: World
    name: str
    window: int
    wants: list[Wants]
    slow: bool = False
    session: Session | None = None
    line: Line | None = None
    got: list[tuple[int, int]] = field(default_factory=list)
    """Tick and QoS of what its program was shown."""
    repeated: int = 0
    _framer: Framer = field(default_factory=Framer)
    _open: set[int] = field(default_factory=set)

    def connect(self) -> None:
        world, session = self.world, self.session
        assert session is not None
        self.line = Line(world, self)
        self._framer = Framer()
        agreed: Any = SimpleNamespace(
            aliases_out=SimpleNamespace(maximum=0),
            maximum_packet_bytes=AGREED_BYTES,
            receive_maximum=self.window,
            terms=SimpleNamespace(receive_maximum=100),
        )
        connect = Connect(self.name, properties=Properties(session_expiry_s=10_000))
        again = session.attach_to(self.line, agreed, connect, most_expiry_s=10_000, now_us=world.loop.now_us)
        for pubrel in again:
            self.line.send(pubrel)
        session.drain(now_us=world.loop.now_us)

    def disconnect(self) -> None:
        session = self.session
        assert session is not None
        session.lose_link(now_us=self.world.loop.now_us)
        assert not session.detach(now_us=self.world.loop.now_us)
        self.line = None

    def subscribe(self, wants: Wants) -> None:
        node, session = self.world.node, self.session
        assert session is not None
        node.subscribe(session, wants)
        subscriptions = node.subscriptions
        subscription = session.held[wants.filter]
        now = subscriptions._streams[STREAM].now
        subscriptions.subscribed(subscription, wants.start)
        begins = now if wants.start is None else max(wants.start, self.world.log.trimmed)
        subscriptions.after_save(session, partial(setattr, wants, "begins", begins))()

    def change(self, wants: Wants) -> None:
        """Subscribe once more, with QoS 1 in the place of 2 or the other way round."""
        wants.qos = 3 - wants.qos
        node, session = self.world.node, self.session
        assert session is not None
        node.subscribe(session, wants)
        node.subscriptions.subscribed(session.held[wants.filter])

    def arrived(self, line: Line, data: bytes) -> None:
        if line is not self.line:
            return
        for frame in self._framer.feed(data):
            self._packet(line, read_packet(frame, 5))

    def _packet(self, line: Line, packet: Any) -> None:
        if isinstance(packet, Pubrel):
            self._open.discard(packet.packet_id)
            self._say(line, Pubcomp(packet.packet_id))
            return
        assert isinstance(packet, Publish)
        stamp = stamp_of(packet.properties.user)
        assert stamp is not None
        if packet.qos == 2:
            if packet.packet_id not in self._open:
                self._open.add(packet.packet_id)
                self.got.append((stamp[1], 2))
            self._say(line, Pubrec(packet.packet_id))
        else:
            if any(tick >= stamp[1] for tick, _ in self.got[-1:]):
                self.repeated += 1
            else:
                self.got.append((stamp[1], 1))
            self._say(line, Puback(packet.packet_id))

    def _say(self, line: Line, ack: Any) -> None:
        delay_s = self.world.rng.choice((0.001, 0.01, 0.2) if self.slow else (0.001, 0.002))
        self.world.loop.call_later(delay_s, self._heard, line, ack)

    def _heard(self, line: Line, ack: Any) -> None:
        session = self.session
        if line is not self.line or session is None:
            return
        if isinstance(ack, Puback):
            session.acks.acknowledged(ack.packet_id)
        else:
            reply = session.acks.receive(ack)
            if reply is not None:
                line.send(reply)
        behind = any(source.behind for source in session.sources)
        if session.delivery.waiting or not session.delivery.keeping_up or behind:  # as a connection does
            session.drain(now_us=self.world.loop.now_us)


class Node:
    """A subscriber-hosting node: its streams come from its own log, or from a neighbour."""

    def __init__(self, world: World) -> None:
        loop = world.loop
        self.world = world
        config = Config(data="")
        self.broker = Broker(config, gate=Gate(config), clock=loop.clock)
        self.driver = CoreDriver.make("here", OPTIONS, clock=loop.clock)
        directory = StreamDirectory("here")
        self.hosted = directory.hosted
        if world.remote:
            self.driver.core.follow(STREAM, "there")
            self.driver.links["there"] = partial(world.carry, self, up=True)
            directory.learn([Offered(STREAM, TOPICS, "there")], "there")
        else:
            directory.host(host(self.driver, world.log, loop))
        state: Any = world.disk
        context = StreamContext(directory, self.driver, state, loop.clock)
        for client in world.clients:
            session = client.session = Session(
                client.name, user="", now_us=BEGAN_US, retained=self.broker.retained
            )
            session.expiry_s = 10_000
            for wants in client.wants:
                if wants.begins >= 0:
                    self.subscribe(session, wants)
            self.broker.sessions.restore(session, now_us=loop.now_us)
        self.subscriptions = StreamSubscriptions(context, self.broker, show=lambda *_: None)
        self.subscriptions.start(loop)  # type: ignore[arg-type]
        self.driver.start(loop)  # type: ignore[arg-type]

    def subscribe(self, session: Session, wants: Wants) -> None:
        options = Options(wants.filter, wants.qos)
        self.broker.subscribe(
            session,
            Subscription(
                session.client_id,
                options,
                subscription_id=0,
                chosen=NO_POLICY,
                content=None,
                queueing=self.broker.queueing,
            ),
        )

    def crash(self) -> None:
        """Nothing of it does anything any more."""
        self.subscriptions._loop = self.subscriptions._saver._loop = None
        if self.subscriptions._timer is not None:
            self.subscriptions._timer.cancel()
        self.driver.close()
        for client in self.world.clients:
            client.session = client.line = None
        self.world.disk.crash()
        if not self.world.remote:
            self.world.log.crash()


def host(driver: CoreDriver, log: Any, loop: Loop) -> HostedStream:
    marks: Any = SimpleNamespace(
        checkpoint_tick=1 << 60, on_checkpoint=None, committed=lambda _: None, owed=lambda *_: None
    )
    hosting = Hosting(STREAM, TOPICS)
    pubend = driver.core.host(STREAM, log, now_us=loop.now_us, options=OPTIONS)
    hosted = HostedStream(hosting, log, pubend, marks, driver=driver, clock=loop.clock)
    hosted.start()
    return hosted


class World:
    """All of it."""

    def __init__(self, rng: random.Random, *, remote: bool, full: float = 0.05, loss: float = 0.0) -> None:
        self.rng = rng
        self.remote = remote
        self.full = full
        self.loss = loss
        self.loop = Loop()
        self.disk = Disk(self.loop, rng)
        self.log = SlowLog(self.loop, rng)
        self.clients: list[Client] = []
        self._published = 0
        self._there: CoreDriver | None = None
        self._there_hosted: HostedStream | None = None
        if remote:
            self._there = CoreDriver.make("there", OPTIONS, clock=self.loop.clock)
            self._there_hosted = host(self._there, self.log, self.loop)
            self._there.core.attach(STREAM, "here")
            self._there.links["here"] = lambda message: self.carry(self.node, message, up=False)
            self._there.start(self.loop)  # type: ignore[arg-type]
        self.node = Node(self)

    def carry(self, node: Node, message: Any, *, up: bool) -> None:
        """Over the link, in order, unless it is lost."""
        if self.rng.random() >= self.loss:
            self.loop.call_later(0.002, self._arrive, node, message, up)

    def _arrive(self, node: Node, message: Any, up: bool) -> None:
        if node is not self.node:
            return
        if up:
            assert self._there is not None
            self._there.receive(message, peer="here")
        else:
            node.driver.receive(message, peer="there")

    def client(self, name: str, *wants: Wants, window: int = 20, slow: bool = False) -> Client:
        """A session with these subscriptions, connected; it can be lost only once they are on disk."""
        while self.node.subscriptions._streams[STREAM].now < 0:
            self.loop.run(0.1)
        client = Client(self, name, window, list(wants), slow)
        self.clients.append(client)
        session = client.session = Session(name, user="", now_us=BEGAN_US, retained=self.node.broker.retained)
        self.node.broker.sessions.restore(session, now_us=self.loop.now_us)
        client.connect()
        for each in wants:
            client.subscribe(each)
        while any(each.begins < 0 for each in wants):
            self.loop.run(0.1)
        return client

    def publish(self, count: int = 1) -> None:
        hosted = self._there_hosted or self.node.hosted[STREAM]
        bodies = []
        for _ in range(count):
            self._published += 1
            topic = self.rng.choice(("orders/a", "orders/b"))
            qos = self.rng.choice((1, 2))
            bodies.append(encode_record(Record(topic, b"%d" % self._published, self.loop.now_us, qos=qos)))
        hosted.publish_many(bodies)

    def restart(self) -> None:
        """The node is killed, and is there again at once."""
        self.node.crash()
        self.node = Node(self)

    def rest(self, duration_s: float = 120.0) -> None:
        """Everybody is connected, and there is time."""
        for client in self.clients:
            if client.line is None:
                client.connect()
        self.full = self.loss = 0.0
        self.loop.run(duration_s)

    def check(self, *, once: bool = True) -> None:
        """Each client was shown each message that is for it, once (the first time counts) and in order."""
        for client in self.clients:
            expected = [
                tick
                for tick, body in self.log.history
                if any(
                    tick >= wants.begins and matches(wants.filter, decode_record(body).topic)
                    for wants in client.wants
                )
            ]
            got = [tick for tick, _ in client.got]
            if not once:
                got = list(dict.fromkeys(got))
            assert got == expected, (client.name, len(got), len(expected))
