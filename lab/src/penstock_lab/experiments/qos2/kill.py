"""QoS 2 under `kill -9` of the node: nothing is lost, nothing comes twice, at whatever step it is killed.

    publisher ──► relay ──► node ──► relay ──► subscriber        both sessions are kept

Each round publishes some messages, kills the node at a named point of the two exchanges or at random, starts
it again on the same folder, and waits until every exchange is complete.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.html_page import Table
from penstock.errors import InputError, NodeError
from penstock_lab.experiments.qos2 import wire
from penstock_lab.experiments.qos2.clients import CLIENTS, WINDOW
from penstock_lab.experiments.qos2.nodes import Nodes
from penstock_lab.experiments.qos2.relay import Relay
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from penstock_lab.experiments.qos2.clients import Publisher, Subscriber
    from penstock_lab.experiments.result import Progress

SHOWS: Final = Shows(live=True)
ROUNDS: Final = 200
"""Rounds for each client and version."""
VERSIONS: Final = {"4": 4, "5": 5}
WARM: Final = 3
"""Messages whose exchanges are complete before the node is killed: packet identifiers have moved on."""
MESSAGES: Final = 8
"""Messages around the kill."""
AWAY: Final = 2
"""Messages published while the node is away."""
TOPICS: Final = ("kill/a", "kill/b")
DISKS_MS: Final = (4, 12)
"""How much longer a transaction takes at named points; at random ones also as long as it does."""
RANDOM_S: Final = 0.1
LATE_S: Final = 0.01
"""Longest time between a packet for the node and the kill: the node may have dealt with it."""
FIRED_S: Final = 5.0
"""A point that is not reached by then is missed; the node is killed all the same."""
QUIET_S: Final = 3.0
"""No packet for so long: what is missing does not come any more."""

PUBLISHER: Final = "publisher"
SUBSCRIBER: Final = "subscriber"


class Step(NamedTuple):
    """A packet on its way."""

    client: str
    to_node: bool
    kind: int


class Point(NamedTuple):
    """A moment at which the node is killed: when a packet is seen."""

    name: str
    at: Step
    passes: bool = True
    """Whether the packet still arrives."""
    loses: Step | None = None
    """Once the packet that the node is killed at is next, nothing arrives any more in the direction of this
    one, from this one on. (What answers the packet that the node is killed at is lost anyway.)"""
    drops: bool = False
    """The subscriber loses its connection, and the node is killed when it is sent a PUBLISH after that."""
    away: bool = False
    """The subscriber comes back when the publisher has all its PUBCOMPs; the packet is one after that."""
    again: bool = False
    """The node is killed once more when it sends the subscriber something after its restart."""


_TO_SUBSCRIBER: Final = Step(SUBSCRIBER, False, wire.PUBLISH)
_PUBREC: Final = Step(PUBLISHER, False, wire.PUBREC)
_PUBREL: Final = Step(PUBLISHER, True, wire.PUBREL)
_PUBCOMP: Final = Step(PUBLISHER, False, wire.PUBCOMP)
_ITS_PUBREC: Final = Step(SUBSCRIBER, True, wire.PUBREC)
_ITS_PUBREL: Final = Step(SUBSCRIBER, False, wire.PUBREL)
_ITS_PUBCOMP: Final = Step(SUBSCRIBER, True, wire.PUBCOMP)

POINTS: Final = (
    Point("publisher sent PUBLISH", Step(PUBLISHER, True, wire.PUBLISH)),
    Point("subscriber has PUBLISH, publisher has no PUBREC", _TO_SUBSCRIBER, loses=_PUBREC),
    Point("publisher has PUBREC, subscriber has no PUBLISH", _PUBREC, loses=_TO_SUBSCRIBER),
    Point("publisher has PUBREC, its PUBREL is lost", _PUBREC),
    Point("PUBREC to the publisher is lost", _PUBREC, passes=False),
    Point("publisher sent PUBREL", _PUBREL),
    Point("publisher has PUBCOMP", _PUBCOMP),
    Point("PUBCOMP to the publisher is lost", _PUBCOMP, passes=False),
    Point("subscriber has PUBLISH, its PUBREC is lost", _ITS_PUBREC, passes=False),
    Point("subscriber sent PUBREC", _ITS_PUBREC),
    Point("PUBREL to the subscriber is lost", _ITS_PUBREL, passes=False),
    Point("subscriber has PUBREL, its PUBCOMP is lost", _ITS_PUBREL),
    Point("subscriber sent PUBCOMP", _ITS_PUBCOMP),
    Point("subscriber came back meanwhile", Step(PUBLISHER, True, wire.PUBLISH), drops=True),
    Point("subscriber came back to what waited", _TO_SUBSCRIBER, away=True),
    Point("subscriber took what waited, its PUBREC is lost", _ITS_PUBREC, passes=False, away=True),
    Point("killed again while it sends again", _TO_SUBSCRIBER, loses=_PUBREC, again=True),
)
ANYWHERE: Final = "at random"
QUICK_ROUNDS: Final = len(POINTS) + 1
"""Each named point once, and one at random."""


class Judge:
    """A conformant receiver's view: reads the packets that reach subscriber and publisher."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}
        """Packet identifiers with PUBLISH and without PUBREL, and the payload of each."""
        self.reused: list[str] = []
        self.unmarked: list[str] = []
        """Came again without DUP, under whatever packet identifier."""
        self.again = 0
        """Came with DUP, the subscriber may have had it before or not."""
        self.seen: set[bytes] = set()
        """Payloads that came."""
        self.sessions_lost: list[str] = []
        self._connected: Counter[str] = Counter()

    def passed(self, client: str, seen: wire.Seen) -> None:
        """A packet of the node reaches a client."""
        if seen.kind == wire.CONNACK:
            self._connected[client] += 1
            if seen.reason or (self._connected[client] > 1 and not seen.present):
                self.sessions_lost.append(f"{client}, connection {self._connected[client]}")
        elif client == SUBSCRIBER and seen.kind == wire.PUBLISH:
            before = self.held.setdefault(seen.packet_id, seen.payload)
            if before != seen.payload:
                self.reused.append(f"{seen.packet_id}: {before.decode()}, then {seen.payload.decode()}")
            elif seen.dup:
                self.again += 1
            elif seen.payload in self.seen:
                self.unmarked.append(f"{seen.payload.decode()} under {seen.packet_id}")
            self.seen.add(seen.payload)
        elif client == SUBSCRIBER and seen.kind == wire.PUBREL:
            self.held.pop(seen.packet_id, None)


class Found(NamedTuple):
    """The fate of the messages of one client library and version."""

    who: str
    rounds: int
    published: int
    acknowledged: int
    again: int
    lost: list[str]
    twice: list[str]
    reused: list[str]
    unmarked: list[str]
    disorder: list[str]
    incomplete: list[str]
    """Messages whose publisher never got PUBCOMP, or that the subscriber holds for ever."""
    sessions_lost: list[str]
    missed: list[str]
    """Points that were not reached."""


class _Trap:
    """Kills the node when a packet is seen for the n-th time."""

    def __init__(self, point: Point, count: int, late_s: float) -> None:
        self.point = point
        self.at = point.at
        self.left = count
        self.late_s = late_s if point.at.to_node and point.passes else 0.0


class Run:
    """One node and its two clients, over all rounds."""

    def __init__(self, folder: Path, *, version: int, client: str, dice: Random) -> None:
        self._nodes = Nodes(folder)
        self._dice = dice
        self._relay = Relay(version, self._passes)
        self._version = version
        self._client = client
        self._judge = Judge()
        self._trap: _Trap | None = None
        self._killed = asyncio.Event()
        self._silenced: set[tuple[str, bool]] = set()
        """Directions in which nothing arrives any more until the node is killed."""
        self._published: list[tuple[str, bytes]] = []
        self._missed: list[str] = []
        self._heard = 0.0
        """When the last packet passed."""
        self._publisher: Publisher | None = None
        self._subscriber: Subscriber | None = None

    async def begin(self) -> None:
        """Start node and clients."""
        self._start(0)
        publisher, subscriber = CLIENTS[self._client]
        self._subscriber = subscriber(self._version, await self._relay.listen(SUBSCRIBER))
        await asyncio.wait_for(self._subscriber.subscribed(), 60)
        self._publisher = publisher(self._version, await self._relay.listen(PUBLISHER))

    async def close(self) -> None:
        """End clients and node."""
        for client in (self._publisher, self._subscriber):
            if client is not None:
                await client.close()
        await self._relay.close()
        self._nodes.close()

    # -- one round -------------------------------------------------------------------------------------------

    async def kill(self, point: Point | None) -> None:
        """Kill the node at a point, None: at random, and have all exchanges end after its restart."""
        dice = self._dice
        self._publish(WARM)
        await self._settled()
        trap = None
        if point is not None:
            trap = _Trap(point, dice.randint(1, 3), dice.choice((0.0, dice.uniform(0.0, LATE_S))))
        await self._kill_at(trap, dice.uniform(0.0, RANDOM_S))
        self._publish(AWAY)
        if point is not None and point.again:
            self._trap = _Trap(Point(point.name, _TO_SUBSCRIBER), 1, 0.0)
        disk_ms = dice.choice(DISKS_MS if point is not None else (0, *DISKS_MS))
        self._start(disk_ms)
        if self._trap is not None:
            await self._sprung(self._trap.point.name)
            self._start(disk_ms)
        await self._settled()

    async def _kill_at(self, trap: _Trap | None, at_random_s: float) -> None:
        away = trap is not None and trap.point.away
        self._killed.clear()
        if away:
            self._relay.keep_away(SUBSCRIBER)
            self._publish(MESSAGES)
            await self._settled(publisher_only=True)
            self._trap = trap
            self._relay.let_in(SUBSCRIBER)
        else:
            self._trap = trap
            self._publish(MESSAGES)
        if trap is None:
            await asyncio.sleep(at_random_s)
            self._kill()
            await self._killed.wait()
        else:
            await self._sprung(trap.point.name)

    async def _sprung(self, name: str) -> None:
        """Wait until the node is killed; kill it if its point is not reached."""
        self._killed.clear()
        try:
            await asyncio.wait_for(self._killed.wait(), FIRED_S)
        except TimeoutError:
            self._missed.append(name)
            self._trap = None
            self._kill()
            await self._killed.wait()

    def _publish(self, count: int) -> None:
        assert self._publisher is not None
        first = len(self._published)
        more = [(TOPICS[number % 2], b"%d" % number) for number in range(first, first + count)]
        self._published += more
        self._publisher.publish(more)

    def _start(self, disk_ms: int) -> None:
        self._silenced.clear()
        self._relay.open(self._nodes.start(disk_ms=disk_ms))

    def _kill(self) -> None:
        self._nodes.kill()
        self._trap = None
        self._silenced = {(client, way) for client in (PUBLISHER, SUBSCRIBER) for way in (True, False)}
        asyncio.get_running_loop().call_soon(self._cut)  # the packet that it is killed at may still pass

    def _cut(self) -> None:
        self._relay.cut()
        self._killed.set()

    def _passes(self, client: str, to_node: bool, seen: wire.Seen) -> bool:
        """Decide whether the relay passes a packet on; kill the node if the trap waits for this packet."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        if (client, to_node) in self._silenced:
            return False
        passes, trap, step = True, self._trap, Step(client, to_node, seen.kind)
        if trap is not None and trap.left == 1 and trap.point.loses == step:
            self._silenced.add((client, to_node))
            return False
        if trap is not None and trap.at == step:
            trap.left -= 1
            if not trap.left:
                passes = trap.point.passes
                self._spring(trap, loop)
        if passes and not to_node:
            self._judge.passed(client, seen)
        return passes

    def _spring(self, trap: _Trap, loop: asyncio.AbstractEventLoop) -> None:
        if trap.point.drops:
            assert self._subscriber is not None
            loop.call_soon(self._subscriber.drop_connection)
            self._trap = _Trap(Point(trap.point.name, _TO_SUBSCRIBER), 1, 0.0)
        elif trap.late_s:
            self._trap = None
            loop.call_later(trap.late_s, self._kill)
        else:
            self._kill()

    async def _settled(self, *, publisher_only: bool = False) -> None:
        """Wait until every exchange is complete, or nothing happens any more."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        assert self._publisher is not None
        assert self._subscriber is not None
        while loop.time() - self._heard < QUIET_S:
            complete = len(self._publisher.done) == len(self._published)
            if not publisher_only:
                complete = complete and not self._judge.held
                complete = complete and len(self._subscriber.handed_on) >= len(self._published)
            if complete:
                return
            await asyncio.sleep(0.005)

    # -- the judgement ---------------------------------------------------------------------------------------

    def found(self, rounds: int) -> Found:
        """Compare what was published with what the subscriber handed on."""
        assert self._publisher is not None
        assert self._subscriber is not None
        done, handed_on = self._publisher.done, self._subscriber.handed_on
        times = Counter(payload for _, payload in handed_on)
        disorder = []
        for topic in TOPICS:
            numbers = [int(payload) for name, payload in handed_on if name == topic]
            disorder += [
                f"{topic}: {after} after {before}" for before, after in pairwise(numbers) if after < before
            ]
        return Found(
            who=f"{self._client}, MQTT {'5' if self._version == wire.V5 else '3.1.1'}",
            rounds=rounds,
            published=len(self._published),
            acknowledged=len(done),
            again=self._judge.again,
            lost=[
                payload.decode() for _, payload in self._published if payload in done and not times[payload]
            ],
            twice=[f"{payload.decode()} ({count} times)" for payload, count in times.items() if count > 1],
            reused=self._judge.reused,
            unmarked=self._judge.unmarked,
            disorder=disorder,
            incomplete=[
                *(
                    f"{payload.decode()} has no PUBCOMP"
                    for _, payload in self._published
                    if payload not in done
                ),
                *(f"{packet_id} is held" for packet_id in self._judge.held),
            ],
            sessions_lost=self._judge.sessions_lost,
            missed=self._missed,
        )


async def play(
    folder: Path, *, version: int, client: str, rounds: int, seed: int, progress: Progress
) -> Found:
    """All rounds of one client library and version."""
    dice = Random(f"{seed} {version} {client}")  # noqa: S311  # repeatable on purpose
    run = Run(folder, version=version, client=client, dice=dice)
    points: list[Point | None] = []
    try:
        await run.begin()
        for number in range(rounds):
            if not points:
                points = [*POINTS, None]
                if rounds > QUICK_ROUNDS:  # half of the kills are at random
                    points += [None] * (len(POINTS) - 1)
                dice.shuffle(points)
            point = points.pop()
            progress(number, rounds, f"{client}, MQTT {version}: {point.name if point else ANYWHERE}")
            await run.kill(point)
        return run.found(rounds)
    finally:
        await run.close()


def reproduce(
    *,
    seed: int,
    quick: bool,
    out: Path | None,  # noqa: ARG001  # there are no pictures
    progress: Progress,
    rounds: str | None = None,
    version: str | None = None,
    client: str | None = None,
) -> ExperimentResult:
    """Kill and restart nodes; InputError if an option is wrong. Default: both clients, both versions."""
    count = QUICK_ROUNDS if quick else ROUNDS
    if rounds is not None:
        if not rounds.isdecimal() or not 0 < int(rounds) <= 100_000:
            raise InputError(f"--rounds is '{rounds}': a number from 1 on")
        count = int(rounds)
    if version is not None and version not in VERSIONS:
        raise InputError(f"--version is '{version}': 4 (MQTT 3.1.1) or 5")
    if client is not None and client not in CLIENTS:
        raise InputError(f"--client is '{client}': {' or '.join(CLIENTS)}")
    found: list[Found] = []
    problem = ""
    for number in (4, 5) if version is None else (VERSIONS[version],):
        for name in CLIENTS if client is None else (client,):
            with TemporaryDirectory(prefix="penstock-kill-") as folder:
                try:
                    one = play(
                        Path(folder), version=number, client=name, rounds=count, seed=seed, progress=progress
                    )
                    found.append(asyncio.run(one))
                except NodeError as error:
                    problem = str(error)
    return ExperimentResult(
        experiment="qos2-kill",
        title="QoS 2 under kill -9",
        setting=f"{count} rounds for each client and version; {WARM + MESSAGES + AWAY} messages a round, up "
        f"to {WINDOW} at a time; the node is killed at each named point of both exchanges, and at random"
        + (" (shortened)" if quick else ""),
        rows=_rows(found, problem),
        tables=(_table(found),) if found else (),
        plots=(),
        seed=seed,
        rival="wanted",
    )


def _rows(found: list[Found], problem: str) -> tuple[Claim, ...]:
    rows = [
        Claim("the node starts again after each kill", "always", problem or "always", not problem, _START)
    ]
    judged = (
        ("messages with PUBCOMP that the subscriber's program did not get", "lost", _LOST),
        ("messages that the subscriber's program got twice", "twice", _TWICE),
        ("packet identifiers given to another message while they are held", "reused", _REUSED),
        ("messages that came again without DUP", "unmarked", _UNMARKED),
        ("messages of a topic out of order", "disorder", _DISORDER),
        ("exchanges that never end", "incomplete", _INCOMPLETE),
        ("sessions that the node forgot", "sessions_lost", _SESSIONS),
        ("points that were not reached", "missed", _MISSED),
    )
    for what, name, note in judged:
        bad = [f"{one.who}: {each}" for one in found for each in getattr(one, name)]
        ours = "0" if not bad else f"{len(bad)} ({'; '.join(bad[:3])}{'; …' if len(bad) > 3 else ''})"
        rows.append(Claim(what, "0", ours, not bad and bool(found), note))
    return tuple(rows)


_START: Final = "fails if a node cannot read what a killed one left"
_LOST: Final = (
    "fails if PUBREC or PUBCOMP leaves before the disk has the message, or if an identifier is reused"
)
_TWICE: Final = (
    "fails if PUBLISH or PUBREL leaves for the subscriber, or PUBREC for the publisher, before the disk"
)
_REUSED: Final = (
    "fails if a PUBLISH leaves before the disk has its packet identifier: a receiver drops the next"
)
_UNMARKED: Final = "fails if a PUBLISH leaves before the disk has it: the node takes it for a new one"
_DISORDER: Final = "fails if what is sent again is not sent in its order, or behind newer messages"
_INCOMPLETE: Final = (
    "fails if the node does not send PUBREL again, or does not answer a PUBREL it has forgotten"
)
_SESSIONS: Final = "fails if a CONNACK says that there is no session, though SUBACK or PUBREC has come before"
_MISSED: Final = "fails if a packet did not come within seconds, so that nothing was tested there"


def _table(found: list[Found]) -> Table:
    rows = tuple(
        (
            one.who,
            f"{one.rounds:,}",
            f"{one.published:,}",
            f"{one.acknowledged:,}",
            f"{one.again:,}",
        )
        for one in found
    )
    header = ("client", "kills", "published", "acknowledged", "PUBLISH with DUP")
    return Table("What was killed and sent", header, rows)
