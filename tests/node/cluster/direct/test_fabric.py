"""Nodes with direct connections beside a network that a test disturbs: frames take one way or the other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.core.cluster.view import Sighting
from penstock.node.cluster.direct.fabric import DirectFabric
from penstock.node.cluster.direct.offers import ARRANGES, Offer, encode
from penstock.node.config.cluster import Address, ClusterSettings, address_of
from penstock_lab.rigs.direct_ways import direct_ways
from penstock_lab.rigs.way import way
from tests.kit.certificates import Certificates, make
from tests.kit.cluster import Network, member
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from penstock.node.cluster.direct.listener import DirectListener
    from penstock_lab.rigs.way import Way
    from tests.kit.cluster import Member


class Heard:
    """Notes what a fabric tells its node."""

    def __init__(self) -> None:
        self.here: list[str] = []
        self.got: list[tuple[str, bytes]] = []

    def appeared(self, seen: Sighting) -> None:
        self.here.append(seen.name)

    def vanished(self, seen: Sighting) -> None:
        self.here.remove(seen.name)

    def received(self, sender: Sighting, frame: bytes) -> None:
        self.got.append((sender.name, frame))


class Node:
    """A fabric with what it has told."""

    def __init__(self, network: Network, name: str, **settings: Any) -> None:
        self.own, self.wire = network.wire("ward", name)
        self.fabric = DirectFabric(self.wire, ClusterSettings(name="ward", node=name, **settings), self.own)
        self.heard = Heard()

    @property
    def listener(self) -> DirectListener:
        assert self.fabric._listener is not None
        return self.fabric._listener

    @property
    def port(self) -> Address:
        found = address_of(self.listener.told)
        assert found is not None
        return found


@asynccontextmanager
async def nodes(network: Network, **settings: dict[str, Any]) -> AsyncIterator[list[Node]]:
    """Fabrics by name, each with settings of its own."""
    made = [Node(network, name, **each) for name, each in settings.items()]
    async with AsyncExitStack() as stack:
        for one in made:
            await one.fabric.open(one.heard)
            stack.push_async_callback(one.fabric.close)
        yield made


async def connected(*pair: Node) -> None:
    a, b = pair
    await until(lambda: a.fabric.is_direct(b.own) and b.fabric.is_direct(a.own))


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other without long pauses."""
    monkeypatch.setattr(limits, "CLUSTER_DIRECT_RETRY_LEAST_S", 0.1)


async def test_nodes_that_meet_connect_and_send_past_the_other_fabric() -> None:
    network = Network()
    async with nodes(network, n1={}, n2={}, n3={}) as made:
        for at, one in enumerate(made):
            for other in made[:at]:
                await connected(one, other)
        carried = network.carried
        for one in made:
            for other in made:
                if one is not other:
                    one.fabric.send(other.own, b"from " + one.own.name.encode())
        await until(lambda: all(len(one.heard.got) == 2 for one in made))
        assert sorted(made[0].heard.got) == [("n2", b"from n2"), ("n3", b"from n3")]
        assert network.carried == carried


async def test_without_a_connection_frames_go_by_the_other_fabric() -> None:
    network = Network()
    async with nodes(network, n1={"direct": "off"}, n2={}, n3={"direct": "off"}) as made:
        await until(lambda: all(len(one.heard.here) == 2 for one in made))
        for one in made:
            for other in made:
                if one is not other:
                    one.fabric.send(other.own, b"hello")
        await until(lambda: all(len(one.heard.got) == 2 for one in made))
        assert not any(one.fabric.is_direct(other.own) for one in made for other in made)
        assert not any(frame[:1] == ARRANGES for one in made for _, frame in one.heard.got)


async def test_a_node_that_says_no_is_not_asked_again(prompt: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    network = Network()
    async with nodes(network, n1={}, n2={"direct": "off"}):
        await until(lambda: "no direct connection to node n2" in caplog.text)
        carried = network.carried
        await asyncio.sleep(0.5)
        assert network.carried == carried
        assert "goes by Zenoh: its cluster.direct is off" in caplog.text


async def test_offers_that_are_lost_and_repeated_end_in_one_connection(prompt: None) -> None:
    network = Network(3, lose=0.5, repeat=0.5, delay_s=0.02)
    async with nodes(network, n1={}, n2={}) as (n1, n2):
        await connected(n1, n2)
        network.lose = 1  # from now on only the connection carries anything
        for one, other in ((n1, n2), (n2, n1)):
            await until(lambda one=one, other=other: _sent(one, other) and other.heard.got)  # type: ignore[misc]


def _sent(one: Node, other: Node) -> bool:
    """Send a frame: a connection that is just being replaced by another one may lose some."""
    one.fabric.send(other.own, b"hello")
    return True


async def test_a_node_that_cannot_be_reached_reaches_the_other_one(prompt: None) -> None:
    """The first offer leads nowhere; then the node that has made it asks, and connects itself."""
    network = Network()
    nowhere = {"direct_advertise": "127.0.0.1:1"}
    async with nodes(network, n1=nowhere, n2={}) as (n1, n2):
        await connected(n1, n2)
    async with nodes(network, n1={}, n2=nowhere) as (n1, n2):
        await connected(n1, n2)


async def test_a_node_that_vanishes_loses_its_connection_and_gets_another_when_it_is_back() -> None:
    network = Network()
    async with nodes(network, n1={}, n2={}) as (n1, n2):
        await connected(n1, n2)
        network.cut("n1", "n2")
        assert not n1.fabric.is_direct(n2.own)
        assert not n2.fabric.is_direct(n1.own)
        assert n1.heard.here == n2.heard.here == []
        n1.fabric.send(n2.own, b"nowhere to go")
        network.mend("n1", "n2")
        await connected(n1, n2)
        assert n2.heard.got == []


async def test_a_node_that_is_forgotten_has_no_connection() -> None:
    async with nodes(Network(), n1={}, n2={}) as (n1, n2):
        await connected(n1, n2)
        n1.fabric.forget(n2.own)
        assert not n1.fabric.is_direct(n2.own)
        await until(lambda: not n2.fabric.is_direct(n1.own))


async def test_what_was_sent_last_is_read_before_the_others_are_told_that_a_node_has_left() -> None:
    network = Network()
    async with nodes(network, n1={}) as (n1,):
        async with nodes(network, n2={}) as (n2,):
            await connected(n1, n2)
            for number in range(50):
                n2.fabric.send(n1.own, b"%d " % number + bytes(60_000))
        assert n1.heard.here == []
        assert [int(frame.split()[0]) for _, frame in n1.heard.got] == list(range(50))[: len(n1.heard.got)]
        assert len(n1.heard.got) > 10  # what fits into the buffer at once


async def test_a_wrong_ticket_is_refused_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A stranger knows the port and says that it is a node."""
    network = Network()
    async with nodes(network, n1={"password": "right"}, n2={"password": "wrong"}) as (n1, n2):
        await until(lambda: n1.fabric.refused)
        await until(lambda: "its ticket or password is wrong" in caplog.text)
        assert not n1.fabric.is_direct(n2.own)
        n1.fabric.send(n2.own, b"by the other fabric")
        await until(lambda: n2.heard.got)


async def test_garbage_on_the_port_and_about_it_disturbs_no_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    async with nodes(network, n1={}, n2={}) as (n1, n2):
        await connected(n1, n2)
        writers = []
        for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 1_000):
            _, writer = await asyncio.open_connection(n1.port.host, n1.port.port)
            writer.write(junk)
            writers.append(writer)
        await until(lambda: n1.fabric.refused == 2)
        for writer in writers:
            writer.transport.abort()
        n1.wire.send(n2.own, ARRANGES + b"\xff\xff")
        n1.wire.send(n2.own, encode(Offer("nowhere at all", b"")))
        network.carry(Sighting("ward", "n9", 9), n2.own, encode(Offer("127.0.0.1:1", b"")))
        await until(lambda: "about direct connections cannot be read" in caplog.text)
        n1.fabric.send(n2.own, b"still here")
        await until(lambda: n2.heard.got == [("n1", b"still here")])


async def test_a_frame_with_a_wrong_length_costs_the_connection_and_not_the_node(
    prompt: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with nodes(Network(), n1={}, n2={}) as (n1, n2):
        await connected(n1, n2)
        n1.fabric._up[n2.own]._transport.write(b"\xff\xff\xff\xffjunk")
        await until(lambda: "a frame of 4294967295 bytes" in caplog.text)
        await connected(n1, n2)


async def test_a_peer_that_stands_still_is_reached_by_the_other_fabric(
    prompt: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(limits, "CLUSTER_LEASE_S", 0.3)
    monkeypatch.setattr(limits, "CLUSTER_DIRECT_LOOK_S", 0.1)
    network = Network()
    async with relayed(network) as (n1, n2, between):
        await connected(n1, n2)
        between.flowing.clear()
        before = between.made
        sender, to = (n2, n1)  # the way stops what goes to the end that was connected to
        sender.fabric.send(to.own, b"into the buffer of the way")
        await until(lambda: "nothing has come for 0.3 s" in caplog.text)
        sender.fabric.send(to.own, b"past it")
        await until(lambda: ("n2", b"past it") in to.heard.got)
        between.flowing.set()
        await until(lambda: between.made > before)
        await connected(n1, n2)


@asynccontextmanager
async def relayed(network: Network) -> AsyncIterator[tuple[Node, Node, Way]]:
    """Two nodes whose direct connections go through a way."""
    async with way(0) as between, direct_ways(lambda _: between) as d1, direct_ways(lambda _: between) as d2:
        settings = {f"n{at}": {"direct_advertise": each.address} for at, each in enumerate((d1, d2), start=1)}
        made = [Node(network, name, **each) for name, each in settings.items()]
        for one, relay in zip(made, (d1, d2), strict=True):
            await one.listener.open()
            relay.to = one.listener._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
            one.listener.open = _nothing  # type: ignore[method-assign]  # it is open
        n1, n2 = made
        try:
            for one in made:
                await one.fabric.open(one.heard)
            yield n1, n2, between
        finally:
            for one in made:
                await one.fabric.close()


async def _nothing() -> None:
    pass


def tls(made: Certificates) -> dict[str, str]:
    return {
        "listen": "tls/127.0.0.1:7447",
        "certificate": str(made.server),
        "key": str(made.server_key),
        "ca": str(made.ca),
    }


async def test_certificates_are_asked_for_where_the_cluster_has_them(tmp_path: Path, prompt: None) -> None:
    folders = [tmp_path / "good", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    good, other = map(make, folders)
    network = Network()
    async with nodes(network, n1=tls(good), n2=tls(good), n3=tls(other), n4={}) as (n1, n2, n3, n4):
        await connected(n1, n2)
        assert n1.fabric._up[n2.own]._transport.get_extra_info("cipher")
        n1.fabric.send(n2.own, b"x" * 300_000)
        await until(lambda: n2.heard.got == [("n1", b"x" * 300_000)])
        await until(lambda: n1.fabric.refused and n3.fabric.refused)
        for outside in (n3, n4):
            assert not any(one.fabric.is_direct(outside.own) for one in (n1, n2))


@pytest.mark.slow
async def test_nothing_is_lost_or_comes_twice_while_connections_are_cut(prompt: None) -> None:
    """Whole nodes: messages of each QoS flow while the direct connection is cut again and again."""
    network = Network(5, delay_s=0.002)
    async with (
        member(network, "n1", connected=True) as n1,
        member(network, "n2", connected=True) as n2,
    ):
        await until(lambda: direct(n1) and direct(n2))
        phone, sensor = await n2.connect("phone"), await n1.connect("sensor")
        await phone.subscribe("a/#", qos=2)
        cuts = 0
        for number in range(0, 600, 3):
            sensor.publish0("a", b"%d" % number)
            await sensor.publish1("a", b"%d" % (number + 1))
            await sensor.publish2("a", b"%d" % (number + 2))
            if number % 20 == 0:
                cuts += cut(n1) + cut(n2)
        assert await phone.payloads(600) == [b"%d" % number for number in range(600)]
        assert cuts > 5
        assert n1.service.status().events.handed == n2.service.status().events.received == 600


def direct(one: Member) -> bool:
    return all(row.direct for row in one.service.status().links)


def cut(one: Member) -> int:
    """Break the connections of a node as a network does; returns how many there were."""
    fabric = one.service._fabric
    assert isinstance(fabric, DirectFabric)
    found = list(fabric._up.values())
    for connection in found:
        connection._transport.abort()
    return len(found)
