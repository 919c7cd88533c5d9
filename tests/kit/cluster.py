"""Nodes of a cluster in one process: over a network that a test can disturb, or over Zenoh."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

from penstock.core.cluster.frames import VERSION
from penstock.core.cluster.view import Sighting
from penstock.model.digest_wire import from_message
from penstock.mqtt.packets.connect import Pingreq, Pingresp
from penstock.node.cluster.direct.fabric import DirectFabric
from penstock.node.cluster.service import ClusterService
from penstock.node.config.cluster import ClusterSettings
from penstock.node.slots.elsewhere import FlowsElsewhere
from tests.kit.peer import node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.node.cluster.fabric import FabricEvents
    from penstock.node.cluster.peer import ClusterPeer
    from penstock.node.config.schema import Config
    from penstock.node.store.tables import Store
    from tests.kit.peer import Peer, Running


class Network:
    """Carries frames between nodes of one process; it may lose, repeat, delay and hold them."""

    def __init__(self, seed: int = 0, *, lose: float = 0, repeat: float = 0, delay_s: float = 0) -> None:
        self.dice = Random(seed)
        self.lose = lose
        self.repeat = repeat
        self.delay_s = delay_s
        self.nodes: dict[Sighting, Wire] = {}
        self.cuts: set[frozenset[str]] = set()
        self.held: dict[str, list[tuple[Wire, Sighting, bytes]]] = {}
        """Frames for nodes that are frozen."""
        self.carried = 0
        self.clock = 0

    def wire(self, cluster: str, name: str, *, version: int = VERSION) -> tuple[Sighting, Wire]:
        """The place of a node in this network."""
        self.clock += 1
        seen = Sighting(cluster, name, self.clock, version)
        return seen, Wire(self, seen)

    def carry(self, sender: Sighting, to: Sighting, frame: bytes) -> None:
        self.carried += 1
        target = self.nodes.get(to)
        if target is None or sender not in self.nodes:  # a node that was killed sends nothing either
            return
        if frozenset((sender.name, to.name)) in self.cuts or self.dice.random() < self.lose:
            return
        if to.name in self.held:
            self.held[to.name].append((target, sender, frame))
            return
        times = 2 if self.dice.random() < self.repeat else 1
        loop = asyncio.get_running_loop()
        for _ in range(times):
            loop.call_later(self.dice.random() * self.delay_s, target.arrive, sender, frame)

    def freeze(self, name: str) -> None:
        """A node hears nothing; nobody has noticed yet."""
        self.held[name] = []

    def thaw(self, name: str) -> None:
        for target, sender, frame in self.held.pop(name):
            target.arrive(sender, frame)

    def cut(self, one: str, other: str) -> None:
        """Two nodes do not reach each other, and are told so."""
        self.cuts.add(frozenset((one, other)))
        self._tell(one, other, here=False)

    def mend(self, one: str, other: str) -> None:
        self.cuts.discard(frozenset((one, other)))
        self._tell(one, other, here=True)

    def _tell(self, one: str, other: str, *, here: bool) -> None:
        for seen, wire in list(self.nodes.items()):
            for about in list(self.nodes):
                if {seen.name, about.name} == {one, other} and seen.name != about.name:
                    (wire.events.appeared if here else wire.events.vanished)(about)


class Wire:
    """The fabric of one node."""

    problem = ""
    refused = 0
    joined: tuple[str, ...] = ()

    def __init__(self, network: Network, own: Sighting) -> None:
        self._network = network
        self.own = own
        self.events: FabricEvents

    @property
    def address(self) -> str:
        return f"memory/{self.own.name}"

    async def open(self, events: FabricEvents) -> None:
        self.events = events
        others = dict(self._network.nodes)
        self._network.nodes[self.own] = self
        for seen, wire in others.items():
            wire.events.appeared(self.own)
            events.appeared(seen)

    async def close(self) -> None:
        if self._network.nodes.pop(self.own, None) is not None:
            for wire in list(self._network.nodes.values()):
                wire.events.vanished(self.own)

    def send(self, to: Sighting, frame: bytes) -> None:
        self._network.carry(self.own, to, frame)

    def join(self, addresses: tuple[str, ...]) -> None:
        self.joined = addresses

    def forget(self, to: Sighting) -> None:
        pass

    def is_direct(self, to: Sighting) -> bool:  # noqa: ARG002
        return False

    def arrive(self, sender: Sighting, frame: bytes) -> None:
        if self._network.nodes.get(self.own) is self:
            self.events.received(sender, frame)


class Member:
    """A node of the cluster, with its clients."""

    def __init__(self, running: Running, service: ClusterService, wire: Wire) -> None:
        self.running = running
        self.broker = running.broker
        self.service = service
        self.wire = wire
        self.connect = running.connect

    def to(self, name: str) -> ClusterPeer:
        """The link to another node."""
        return self.service._peers[name]

    def quiet(self) -> bool:
        """Whether nothing is on its way to any other node that is there."""
        return all(peer.link.idle for peer in self.service._peers.values() if peer.link.connected)


@asynccontextmanager
async def member(
    network: Network,
    name: str,
    *,
    cluster: str = "ward",
    version: int = VERSION,
    store: Store | None = None,
    config: Config | None = None,
    connected: bool = False,
    **settings: object,
) -> AsyncIterator[Member]:
    """A node that is a member of a cluster; `connected`: with direct connections beside the network."""
    own, wire = network.wire(cluster, name, version=version)
    chosen = ClusterSettings(name=cluster, node=name, **settings)  # type: ignore[arg-type]
    async with node(config, store=store) as running:
        service = ClusterService(
            running.broker,
            chosen,
            own=own,
            fabric=DirectFabric(wire, chosen, own) if connected else wire,
            about=lambda: ((f"mqtt://127.0.0.1:{running.port}",), ""),
        )
        running.observed.cluster = service
        if running.flows is not None:
            service.recognise(FlowsElsewhere(running.flows).recognise)
        await service.start()
        try:
            yield Member(running, service, wire)
        finally:
            await service.close()


@asynccontextmanager
async def members(network: Network, *names: str, **settings: object) -> AsyncIterator[list[Member]]:
    """Several nodes that know each other."""
    async with AsyncExitStack() as stack:
        found = [
            await stack.enter_async_context(member(network, name, **settings))  # type: ignore[arg-type]
            for name in names
        ]
        await settled(*found)
        yield found


def owned_by(nodes: list[Member], name: str) -> str:
    """A client whose root a node is."""
    roots = nodes[0].service.moves.roots
    return next(each for each in (f"phone{n}" for n in range(1000)) if roots.root_of(each) == name)


async def settled(*nodes: Member) -> None:
    """Wait until nothing is on its way between nodes."""
    await until(lambda: all(one.quiet() for one in nodes))


async def told(client: Peer) -> tuple[list[bytes], int]:
    """Messages until the node is silent, and events counted in digests among them."""
    client.send(Pingreq())
    await client.answer(Pingresp)
    events, digested = [], 0
    while client._aside:
        packet = client._aside.popleft()
        if any(name == "penstock-digest" for name, _ in packet.properties.user):
            digested += from_message(packet.payload)[0].count
        else:
            events.append(packet.payload)
    return events, digested
