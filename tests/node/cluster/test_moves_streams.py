"""Clients that read a reliable stream and move between nodes of a cluster which both have it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Client
from penstock.model.event import Event
from penstock.mqtt.packets.publish import Publish
from penstock.node.config.cluster import ClusterSettings
from penstock_lab.rigs.ports import free_port
from tests.kit.stream_trees import LISTENS, ORDERS, Tree, at
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kit.stream_nodes import WithStreams


@asynccontextmanager
async def two_nodes(*, tree: bool = True) -> AsyncIterator[tuple[Tree, WithStreams, WithStreams]]:
    """A node that hosts a stream, and another one of its cluster, its neighbour in the tree or not."""
    async with AsyncExitStack() as stack:
        made, seed = Tree(stack), f"tcp/127.0.0.1:{free_port()}"
        first = ClusterSettings(name="ward", node="n1", listen=seed)
        second = ClusterSettings(name="ward", node="n2", listen="tcp/127.0.0.1:0", join=(seed,))
        neighbours = [{"name": "n2"}] if tree else []
        n1 = await made.add(
            "n1", settings={"cluster": first}, host=ORDERS, listen=LISTENS, neighbours=neighbours
        )
        n2 = await made.add("n2", settings={"cluster": second}, neighbours=[at(n1, "n1")] if tree else [])
        for one in (n1, n2):
            await until(lambda one=one: bool(list(one.node.cluster.peers())))  # type: ignore[misc]
        await until(lambda: not tree or "orders" in n2.streams.directory.known)
        yield made, n1, n2


def reader(node: WithStreams) -> Client:
    return Client(f"mqtt://127.0.0.1:{node.port}", client_id="phone", session_expiry_s=600, reconnect=False)


async def take(client: Client, count: int, qos: int, **how: Any) -> list[bytes]:
    """The next payloads of the stream."""
    subscription = await client.subscribe("orders/#", qos=qos, **how)
    got: list[bytes] = []
    async with asyncio.timeout(60):
        async for item in subscription:
            assert isinstance(item, Event)
            got.append(item.payload)
            if len(got) == count:
                break
    return got


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_session_goes_on_at_its_tick(qos: int) -> None:
    async with two_nodes() as (tree, n1, n2):
        sender = await tree.client("n1")

        async def publish(first: int) -> None:
            for number in range(first, first + 5):
                await sender.publish("orders/1", b"%d" % number, qos=1)

        first = reader(n1)
        await first.connect()
        await first.subscribe("orders/#", qos=qos)
        await first.close()
        got: list[bytes] = []
        for round_, node in enumerate((n2, n1, n2, n2)):
            await publish(5 * round_)
            async with reader(node) as client:
                got += await take(client, 5, qos)
        assert got == [b"%d" % number for number in range(20)]
        assert n2.node.cluster.moves.figures().came == 2  # type: ignore[union-attr]


async def test_what_was_not_acknowledged_comes_again_at_the_other_node() -> None:
    async with two_nodes() as (tree, n1, n2):
        phone = await n1.connect("phone", session_expiry_s=600)
        await phone.subscribe("orders/#", qos=2)
        sender = await tree.client("n1")
        for payload in (b"one", b"two"):
            await sender.publish("orders/1", payload, qos=2)
        sent = [await phone.expect(Publish) for _ in range(2)]
        phone.abort()
        again = await n2.connect("phone", clean=False, session_expiry_s=600)
        assert again.connack.session_present
        found = [await again.message() for _ in range(2)]
        assert [(each.payload, each.packet_id) for each in found] == [
            (each.payload, each.packet_id) for each in sent
        ]
        await sender.publish("orders/1", b"three", qos=2)
        assert (await again.message()).payload == b"three"


async def test_a_node_without_the_stream_says_so_and_takes_the_place_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with two_nodes(tree=False) as (tree, n1, n2):
        sender = await tree.client("n1")
        for node, said in ((n1, False), (n2, True), (n1, True)):
            async with reader(node) as client:
                await client.subscribe("orders/#", qos=1)
            await sender.publish("orders/1", node.node.config.streams.node.encode(), qos=1)
            assert ("reads reliable streams, which are off at this node" in caplog.text) is said
        async with reader(n1) as client:
            assert await take(client, 3, 1) == [b"n1", b"n2", b"n1"]
