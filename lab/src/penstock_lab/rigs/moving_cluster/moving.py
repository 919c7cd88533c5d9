"""Clients that move between the nodes of a cluster under random faults, in virtual time.

The nodes are real: brokers and cluster services, as they run in a process of their own, over a network that
loses, repeats and delays frames, whose links are cut, and whose nodes are frozen, killed and started again.
Clients with kept sessions leave and come back anywhere. At the end everything is mended, and what a moving
client is promised is checked: nothing twice and in order, and every event has come or is counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.cluster.view import Sighting
from penstock.model.instant import SECOND_US
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connack, Connect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock.node.access.gate import Gate
from penstock.node.broker.broker import Broker
from penstock.node.cluster.peer import ClusterPeer
from penstock.node.cluster.service import ClusterService
from penstock.node.config.cluster import ClusterSettings
from penstock.node.config.schema import Config
from penstock_lab.rigs.moving_cluster.traveller import Traveller, Wire
from penstock_lab.rigs.moving_cluster.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.cluster.fabric import FabricEvents

ACTIONS: Final = 80
"""Things that happen in a run before everything is mended."""

QUIET_S: Final = 300
"""Virtual seconds within which a mended cluster must be quiet."""

DOUBT_S: Final = 2 * limits.CLUSTER_LEASE_S
"""For so long after a session was at two nodes its client may get an event once more."""


@dataclass(frozen=True, slots=True)
class MovingRun:
    """The outcome of one run."""

    seed: int
    problems: tuple[str, ...]
    published: int
    received: int
    moves: int
    """Sessions that came to other nodes whole."""
    digested: int
    abandoned: int
    repeated: int
    """Events that came once more after a session had been at two nodes."""
    faults: int


class _Fabric:
    """The network as one node sees it."""

    problem = ""
    refused = 0

    def __init__(self, world: _World, own: Sighting) -> None:
        self._world = world
        self.own = own
        self.events: FabricEvents

    @property
    def address(self) -> str:
        return f"memory/{self.own.name}"

    async def open(self, events: FabricEvents) -> None:
        self.events = events

    async def close(self) -> None:
        pass

    def send(self, to: Sighting, frame: bytes) -> None:
        self._world.carry(self.own, to, frame)

    def join(self, addresses: tuple[str, ...]) -> None:
        """Nothing to do: all nodes know each other."""

    def forget(self, to: Sighting) -> None:
        pass

    def is_direct(self, to: Sighting) -> bool:  # noqa: ARG002
        return False


class _Node:
    """One incarnation of a node."""

    def __init__(self, world: _World, name: str, incarnation: int) -> None:
        config = Config(data="")
        self.name = name
        self.alive = True
        self.frozen = False
        self._stalled: list[Callable[[], object]] = []
        self.own = Sighting("ward", name, incarnation)
        self.fabric = _Fabric(world, self.own)
        self.broker = Broker(config, gate=Gate(config), clock=world.loop.now_us)
        settings = ClusterSettings(
            name="ward", node=name, queue_events=world.queue_events, fan_out=world.fan_out
        )
        self.service = ClusterService(
            self.broker, settings, own=self.own, fabric=self.fabric, about=lambda: ((), "")
        )
        self.sensor: Wire

    async def start(self) -> None:
        self.broker.start()
        await self.service.start()
        self.sensor = Wire(self, _heard, lambda _: None)
        self.sensor.send(Connect(client_id=f"sensor-{self.name}", keep_alive_s=0))

    def do(self, what: Callable[[], object]) -> None:
        """Have something happen here, now or when the node is no longer frozen."""
        if self.frozen:
            self._stalled.append(what)
        elif self.alive:
            what()

    def thaw(self) -> None:
        self.frozen = False
        stalled, self._stalled = self._stalled, []
        for what in stalled:
            what()

    def takes(self, topic: str, client: str, origin: str) -> bool:
        """Whether an event of another node has a receiver here, or is counted for a session that has left."""
        trails = self.service.moves.trails
        return bool(self.broker.router.find(topic).local) or trails.counts(client, origin)

    def abandoned(self) -> int:
        """Events that this node has given up, and says so."""
        figures = self.service.status().events
        moves = self.service.moves.figures().abandoned
        return figures.abandoned + moves + self.broker.status().account.abandoned

    def quiet(self) -> bool:
        return all(peer.link.connected and peer.link.idle for peer in self.service.peers())


def _heard(_: Wire, packet: object) -> None:
    assert not isinstance(packet, Connack) or packet.reason == 0


class _World:
    """The nodes, their clients, the network and the time."""

    def __init__(self, seed: int, loop: VirtualLoop, *, trees: bool) -> None:
        self.seed = seed
        self.fan_out = 1 if trees else limits.CLUSTER_FAN_OUT
        self.loop = loop
        self.dice = dice = Random(seed)  # noqa: S311  # a run is repeated by its seed
        self.problems: list[str] = []
        self.faults = 0
        self.published = 0
        self.repeated = 0
        self.lose = dice.choice([0, 0.02, 0.2])
        self.repeat = dice.choice([0, 0.1])
        self.delay_s = dice.choice([0.0001, 0.005, 0.1])
        self.queue_events = dice.choice([limits.CLUSTER_QUEUE_EVENTS, 10])
        self.faulty = dice.choice([(), ("cut", "freeze"), ("cut", "freeze", "kill")])
        self._cuts: dict[frozenset[str], None] = {}
        self.names = [f"n{number}" for number in range(dice.randint(2, 4))]
        self.nodes: dict[str, _Node] = {}
        self.past: list[_Node] = []
        """Nodes that were killed."""
        self.clients = [
            Traveller(f"c{number}", dice.choice([0, 1, 2]), self.watch, self._lost_sight)
            for number in range(dice.randint(1, 3))
        ]
        self.owed: dict[str, dict[bytes, None]] = {client.name: {} for client in self.clients}
        """Events that each client should get or be told of."""
        self._when_us: dict[bytes, int] = {}
        self._last: dict[tuple[str, bytes], int] = {}
        self._doubted_us: dict[str, int] = {}
        """When a client's session was last known to be at two nodes."""

    def problem(self, said: str) -> None:
        self.problems.append(f"{self.loop.time():.3f} s: {said}")

    # -- the network -----------------------------------------------------------------------------------------

    def carry(self, sender: Sighting, to: Sighting, frame: bytes) -> None:
        origin = self.nodes.get(sender.name)
        if origin is None or origin.own != sender:
            return

        def arrive() -> None:
            target = self.nodes.get(to.name)
            if target is not None and target.own == to and not self._apart(sender.name, to.name):
                target.do(lambda: target.fabric.events.received(sender, frame))

        times = 0 if self.dice.random() < self.lose else 2 if self.dice.random() < self.repeat else 1
        for _ in range(times):
            delay_s = self.dice.random() * self.delay_s
            origin.do(lambda delay_s=delay_s: self.loop.call_later(delay_s, arrive))  # type: ignore[misc]

    def _apart(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cuts

    def meet(self, one: _Node) -> None:
        """Announce a node to those that reach it, and them to it."""
        for other in list(self.nodes.values()):
            if other is not one and not self._apart(one.name, other.name):
                self._see(one, other)
                self._see(other, one)

    @staticmethod
    def _see(one: _Node, other: _Node) -> None:
        one.do(lambda: one.fabric.events.appeared(other.own))

    def part(self, one: _Node, seen: Sighting, after_s: float) -> None:
        """Have a node notice that another one is gone, unless it is back by then."""

        def notice() -> None:
            there = self.nodes.get(seen.name)
            gone = there is None or there.own != seen or there.frozen
            if gone or self._apart(one.name, seen.name):
                one.do(lambda: one.fabric.events.vanished(seen))

        self.loop.call_later(after_s, notice)

    # -- what happens ----------------------------------------------------------------------------------------

    async def start(self, name: str) -> None:
        node = _Node(self, name, self.loop.now_us())
        self.nodes[name] = node
        await node.start()
        self.meet(node)

    async def act(self) -> None:
        """One random thing happens."""
        dice = self.dice
        if dice.random() < 0.5 and self.nodes:
            self._publish(dice.choice(list(self.nodes.values())), dice.choice(self.clients))
        elif dice.random() < 0.6 or not self.faulty:
            self._travel(dice.choice(self.clients))
        else:
            what = dice.choice([*self.faulty, "mend", "mend", "thaw", "thaw", "start", "start"])
            await self._fault(what, dice.choice(self.names))
        self._doubt()

    def _publish(self, node: _Node, client: Traveller) -> None:
        if node.frozen:
            return
        topic = f"{client.name}/{self.dice.choice('ab')}"
        for _ in range(self.dice.randint(1, 12)):
            self.published += 1
            payload = b"%s:%d" % (node.name.encode(), self.published)
            self._when_us[payload] = self.loop.now_us()
            if client.subscribed and self._reaches_somebody(node, topic, client.name):
                self.owed[client.name][payload] = None
            node.sensor.connection.data_received(encode(Publish(topic, payload), V5))

    def _reaches_somebody(self, node: _Node, topic: str, client: str) -> bool:
        """Whether a node knows a receiver of a topic, here or at a node that has not done with it.

        A node that is cut off may believe that another one wants what that one has given up. What it keeps
        for it is for nobody, as it would be if it had heard so.
        """
        everybody = {each.own: each for each in [*self.nodes.values(), *self.past]}
        fan = node.broker.router.find(topic)
        return bool(fan.local) or any(
            not peer.link.theirs.known or everybody[peer.seen].takes(topic, client, node.name)
            for peer in fan.peers
            if isinstance(peer, ClusterPeer)
        )

    def _travel(self, client: Traveller) -> None:
        if client.wire is not None and self.dice.random() < 0.3:
            client.leave()
        elif self.nodes:
            client.go(self.dice.choice(list(self.nodes.values())))

    async def _fault(self, what: str, name: str) -> None:
        dice, node = self.dice, self.nodes.get(name)
        match what:
            case "cut" if node is not None:
                self._cut(node, self.nodes.get(dice.choice(self.names)))
            case "mend":
                self.mend()
            case "freeze" if node is not None and not node.frozen:
                self.faults += 1
                node.frozen = True
                for other in self.nodes.values():
                    self.part(other, node.own, limits.CLUSTER_LEASE_S)
            case "thaw" if node is not None and node.frozen:
                node.thaw()
                self.meet(node)
            case "kill" if node is not None:
                self._kill(node)
            case "start" if node is None:
                await self.start(name)
            case _:
                pass

    def _kill(self, node: _Node) -> None:
        self.faults += 1
        del self.nodes[node.name]
        node.alive = False
        self.past.append(node)
        for other in self.nodes.values():
            self.part(other, node.own, self.dice.choice([0.01, limits.CLUSTER_LEASE_S]))
        for client in self.clients:
            # Any event that has not come yet may have been in the memory of this node.
            owed = self.owed[client.name]
            self.owed[client.name] = {payload: None for payload in owed if payload in client.got}
            if client.wire is not None and client.at is node:
                client.wire.killed()

    def _cut(self, one: _Node, other: _Node | None) -> None:
        if other is not None and one is not other:
            self.faults += 1
            self._cuts[frozenset((one.name, other.name))] = None
            self.part(one, other.own, self.dice.random() * limits.CLUSTER_LEASE_S)
            self.part(other, one.own, self.dice.random() * limits.CLUSTER_LEASE_S)

    def mend(self) -> None:
        if self._cuts:
            pair = next(iter(self._cuts))
            del self._cuts[pair]
            one, other = (self.nodes.get(name) for name in sorted(pair))
            if one is not None and other is not None:
                self._see(one, other)
                self._see(other, one)

    # -- what is promised ------------------------------------------------------------------------------------

    def _doubt(self) -> None:
        """Note whose sessions are at two nodes, or were continued without what waited."""
        for client in self.clients:
            name = client.name
            found = [each for each in self.nodes.values() if each.broker.sessions.get(name) is not None]
            if len(found) > 1 or any(
                name in each.service.moves.claims.partial or name in each.service.moves.roots.standby
                for each in found
            ):
                self._doubted_us[name] = self.loop.now_us()

    def _lost_sight(self, client: Traveller) -> None:
        """A session begins anew, since those who know of the other one cannot be reached: there are two."""
        self._doubted_us[client.name] = self.loop.now_us()

    def watch(self, client: Traveller, payload: bytes, again: bool) -> None:
        """A client has got an event."""
        origin = payload.split(b":")[0]
        number = int(payload.split(b":")[1])
        key = (client.name, origin)
        self._doubt()
        doubted_us = self._doubted_us.get(client.name, -1)
        late = number <= self._last.get(key, 0)
        if (again or late) and self._when_us[payload] > doubted_us + DOUBT_S * SECOND_US:
            said = "once more" if again else f"behind {self._last[key]}"
            self.problem(f"{client.name} (QoS {client.qos}) got {payload.decode()} {said}")
        self.repeated += again
        self._last[key] = max(number, self._last.get(key, 0))

    async def heal(self) -> None:
        """End all faults, have every client come once more, and wait until everything is at rest."""
        await self._end_faults()
        await self._settle(clients=True)
        await asyncio.sleep(8)  # what nobody has taken is given up
        await self._settle(clients=False)

    async def _end_faults(self) -> None:
        self.lose = 0
        while self._cuts:
            self.mend()
        for name in self.names:
            node = self.nodes.get(name)
            if node is None:
                await self.start(name)
            elif node.frozen:
                node.thaw()
        for node in self.nodes.values():
            self.meet(node)
        await asyncio.sleep(4 * limits.CLUSTER_LEASE_S)
        for node in self.nodes.values():
            self.meet(node)
        for client in self.clients:
            client.go(self.dice.choice(list(self.nodes.values())))

    async def _settle(self, *, clients: bool) -> None:
        """Wait until all links are at rest, and all clients connected, which come again if they are not."""
        for _ in range(QUIET_S):
            await asyncio.sleep(1 if clients else 0.1)
            for client in self.clients if clients else ():
                if client.idle:
                    client.go(self.dice.choice(list(self.nodes.values())))
            quiet = all(node.quiet() for node in self.nodes.values())
            if quiet and (not clients or all(self._served())):
                return

    def _served(self) -> list[bool]:
        return [client.wire is not None and client.subscribed for client in self.clients]

    def check(self) -> None:
        nodes = list(self.nodes.values())
        for node in nodes:
            if not node.quiet():
                self.problem(f"{node.name}: its links are not at rest")
            if not node.broker.status().account.balanced:
                self.problem(f"{node.name}: not accounted for: {node.broker.status().account}")
        for client, served in zip(self.clients, self._served(), strict=True):
            held = [each.name for each in nodes if each.broker.sessions.get(client.name) is not None]
            there = None if client.at is None else client.at.name
            if not served or held != [there]:
                self.problem(f"{client.name} is at {there}, its session at {held}")
        missing = {
            client.name: [payload for payload in self.owed[client.name] if payload not in client.got]
            for client in self.clients
        }
        lost = sum(len(each) for each in missing.values())
        if lost > self.counted():
            few = {name: [each.decode() for each in some[:5]] for name, some in missing.items() if some}
            self.problem(f"{lost} events are neither here nor counted ({self.counted()}): {few}")

    def counted(self) -> int:
        """Events that somebody has been told of that they do not come."""
        return self.digested() + self.abandoned()

    def digested(self) -> int:
        return sum(node.service.status().events.digested for node in [*self.nodes.values(), *self.past])

    def abandoned(self) -> int:
        return sum(node.abandoned() for node in [*self.nodes.values(), *self.past])


def run(seed: int, *, trees: bool = False) -> MovingRun:
    """Run one cluster and its clients through their faults, each node passing on to one other if `trees`.

    The same seed gives the same run.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(_run(seed, loop, trees=trees))


async def _run(seed: int, loop: VirtualLoop, *, trees: bool) -> MovingRun:
    world = _World(seed, loop, trees=trees)
    loop.set_exception_handler(lambda _, said: world.problem(f"a bug: {said}"))
    for name in world.names:
        await world.start(name)
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    for client in world.clients:
        client.go(world.dice.choice(list(world.nodes.values())))
    await asyncio.sleep(3)
    for _ in range(ACTIONS):
        await world.act()
        await asyncio.sleep(world.dice.choice([0.001, 0.05, 1.0]))
    await world.heal()
    world.check()
    nodes = [*world.nodes.values(), *world.past]
    return MovingRun(
        seed=seed,
        problems=tuple(world.problems),
        published=world.published,
        received=sum(len(client.got) for client in world.clients),
        moves=sum(node.service.moves.figures().came for node in nodes),
        digested=world.digested(),
        abandoned=world.abandoned(),
        repeated=world.repeated,
        faults=world.faults,
    )
