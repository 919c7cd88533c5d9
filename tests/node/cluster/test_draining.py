"""A node that sends its clients away: where they go, who is let in meanwhile, and how it leaves."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Client
from penstock.errors import ClusterError
from penstock.mqtt.codes import V4, Reason
from penstock.mqtt.packets.connect import Connack, Disconnect, Will
from penstock.node.cluster.draining import DrainOrder, place_of, reached_at
from penstock.node.config.cluster import ClusterSettings
from penstock.node.config.schema import Listener
from tests.kit.cluster import Network, member, members, settled
from tests.kit.waiting import until

if TYPE_CHECKING:
    from tests.kit.cluster import Member


def load(node: Member) -> int:
    return sum(session.link is not None for session in node.broker.sessions)


def url(node: Member) -> str:
    return f"mqtt://127.0.0.1:{node.running.port}"


async def fast(node: Member, name: str = "", **how: Any) -> tuple[str, int]:
    """Tell a node, by way of another one, to send its clients away."""
    order = {"undo": False, "rate": 1_000, "leave": False} | how
    return await node.service.drain(name, **order)


async def known(*nodes: Member) -> None:
    """Wait until each node has heard of all others."""
    for node in nodes:
        await until(
            lambda node=node: (
                len(node.service.status().members) == len(nodes) - 1  # type: ignore[misc]
                and all(row.state == "here" for row in node.service.status().members)
            )
        )


async def test_clients_go_to_the_other_nodes_and_new_ones_are_sent_there() -> None:
    async with members(Network(), "n1", "n2", "n3") as (n1, n2, n3), AsyncExitStack() as stack:
        await known(n1, n2, n3)
        clients = [
            await stack.enter_async_context(Client(url(n1), client_id=f"c{number}")) for number in range(6)
        ]
        assert await fast(n3, "n1") == ("n1", 6)
        await until(lambda: load(n2) + load(n3) == 6 and load(n1) == 0)
        assert {load(n2), load(n3)} == {3}, "those that were sent there since a node told its load count"
        assert n1.service.status().draining
        assert n1.service.status().sent_away == 6
        await until(lambda: n2.service.status().members[0].state == "draining")
        async with Client(url(n1)) as late:
            assert late.address in (url(n2), url(n3))
        assert await fast(n1, undo=True) == ("n1", 0)
        async with Client(url(n1)) as back:
            assert back.address == url(n1)
        await until(lambda: n2.service.status().members[0].state == "here")
        assert all(client.statistics().connections == 2 for client in clients)


async def test_what_a_client_of_either_version_is_told() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        await known(n1, n2)
        five = await n1.connect("five")
        four = await n1.connect("four", version=V4)
        await fast(n1)
        said = await five.expect(Disconnect)
        assert said.reason == Reason.USE_ANOTHER_SERVER
        assert said.properties.server_reference == f"127.0.0.1:{n2.running.port}"
        assert await four.closed()
        for version, reason in ((5, Reason.USE_ANOTHER_SERVER), (V4, Reason.SERVER_UNAVAILABLE)):
            late = await n1.running.dial()
            await late.hello(f"late-{version}", version=version)
            assert isinstance(late.connack, Connack)
            assert late.connack.reason == reason
        assert not n1.broker.status().refused, "a client that is sent away is not a client that is refused"


async def test_wills_stay_in_the_drawer() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        await known(n1, n2)
        heir = await n2.connect("heir")
        await heir.subscribe("will")
        await settled(n1, n2)
        async with Client(url(n1), client_id="c", will=Will("will", b"dead")) as client:
            await fast(n1)
            await until(lambda: client.address == url(n2) and client.connected)
            await client.publish("will", "alive", qos=1)
        assert (await heir.message()).payload == b"alive"


async def test_the_own_zone_comes_first_and_the_least_loaded_node_in_it() -> None:
    network = Network()
    async with (
        member(network, "n1", zone="east") as n1,
        member(network, "n2", zone="west") as n2,
        member(network, "n3", zone="east") as n3,
        member(network, "n4", zone="east") as n4,
    ):
        await n3.connect("there")
        n3.service.say()
        await known(n1, n2, n3, n4)
        await until(lambda: n1.service.status().members[1].load == 1)
        n1.service.draining.obey(DrainOrder())
        ports = {n2.running.port: "n2", n3.running.port: "n3", n4.running.port: "n4"}
        went = [ports[int(n1.service.draining._reference("mqtt").rpartition(":")[2])] for _ in range(6)]
        assert went == ["n4", "n3", "n4", "n3", "n4", "n3"]
        assert n1.service.draining._reference("mqtts") == "", "no node has such a listener"


async def test_an_order_that_cannot_be_obeyed_says_why() -> None:
    network = Network()
    async with member(network, "n1") as n1:
        with pytest.raises(ClusterError, match="no other node to send its clients to"):
            await fast(n1)
        async with member(network, "n2") as n2:
            await known(n1, n2)
            with pytest.raises(ClusterError, match="no node named 'n9' in this cluster; there are: n1, n2"):
                await fast(n1, "n9")
            with pytest.raises(ClusterError, match="node n2: an order to drain that cannot be read"):
                await n1.service.questions.ask(n1.to("n2"), "drain", b"\xc1", wait_us=60_000_000)
            await fast(n2)
            await until(lambda: n1.service.status().members[0].state == "draining")
            with pytest.raises(ClusterError, match="no other node"):
                await fast(n1)


async def test_without_another_node_clients_are_let_in_whatever_was_ordered() -> None:
    network = Network()
    async with member(network, "n1") as n1:
        async with member(network, "n2") as n2:
            await known(n1, n2)
            await fast(n1)
        async with Client(url(n1)) as client:
            assert client.address == url(n1)


async def test_a_node_that_leaves_is_forgotten_at_once() -> None:
    network = Network()
    stopped = asyncio.Event()
    async with member(network, "n1") as n1:
        async with member(network, "n2") as n2:
            n2.service._stop_node = stopped.set
            await known(n1, n2)
            async with Client(url(n2)) as client:
                await fast(n1, "n2", leave=True)
                await until(lambda: client.address == url(n1) and client.connected)
                await asyncio.wait_for(stopped.wait(), 120)
        assert not n1.service.status().members
        assert n1.service.status().balanced


async def test_a_node_that_nobody_can_stop_leaves_and_goes_on_alone() -> None:
    network = Network()
    async with member(network, "n1") as n1, member(network, "n2") as n2:
        await known(n1, n2)
        await fast(n2, leave=True)
        await until(lambda: not n1.service.status().members and not n2.service.status().members)
        await until(lambda: not n2.service.status().draining)
        async with Client(url(n2)) as client:
            assert client.address == url(n2)


def test_places_of_nodes() -> None:
    known = ("mqtt://0.0.0.0:1", "ws://a:2/mqtt", "mqtt://[::1]:3", "mqtt://b:4")
    assert place_of(known, "mqtt") == "[::1]:3"
    assert place_of(known, "ws") == "a:2"
    assert place_of(known, "wss") == ""


def test_where_clients_reach_a_node() -> None:
    everywhere = (Listener(host="0.0.0.0", port=1), Listener(kind="websockets", host="::", port=2))  # noqa: S104
    beyond = ClusterSettings(listen="tcp/10.0.0.1:7447")
    assert reached_at(everywhere, beyond) == ("mqtt://10.0.0.1:1", "wss://10.0.0.1:2/mqtt")
    here = reached_at((*everywhere, Listener(port=3)), ClusterSettings())
    assert not any("0.0.0.0" in one or "::" in one for one in here)  # noqa: S104
    assert here[-1] == "mqtt://127.0.0.1:3"
    assert reached_at(everywhere, ClusterSettings(advertise=("mqtt://proxy:9",))) == ("mqtt://proxy:9",)
