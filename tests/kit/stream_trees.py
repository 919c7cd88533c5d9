"""Nodes joined to a tree on loopback, all in one event loop, and a stranger who calls their doors."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from penstock.client import Client
from penstock.core.streams import handshake
from penstock.core.streams.handshake import VERSION, Hello, Sorry, Welcome
from penstock.model.event import Event
from penstock.node.streams.tree.links import read_frame
from tests.kit.stream_nodes import streams_node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from penstock.node.streams.status import NeighbourRow
    from penstock.node.streams.tree.links import Links
    from tests.kit.stream_nodes import WithStreams

LISTENS: dict[str, Any] = {"enabled": True, "port": 0}
ORDERS: list[dict[str, Any]] = [{"name": "orders", "topics": ["orders/#"]}]


def links(node: WithStreams) -> Links:
    found = node.streams.links
    assert found is not None
    return found


def door(node: WithStreams) -> int:
    assert node.streams.listener is not None
    return node.streams.listener.port


def row(node: WithStreams, name: str) -> NeighbourRow:
    return next(one for one in links(node).figures() if one.name == name)


def at(node: WithStreams, name: str, **more: Any) -> dict[str, Any]:
    """A neighbour that is called."""
    return {"name": name, "host": "127.0.0.1", "port": door(node), **more}


class Tree:
    """PB – IB – SB, or whatever is added."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.nodes: dict[str, WithStreams] = {}
        self.stacks: dict[str, AsyncExitStack] = {}
        self._stack = stack

    async def add(self, name: str, *, settings: dict[str, Any] | None = None, **streams: Any) -> WithStreams:
        """One more node."""
        stack = await self._stack.enter_async_context(AsyncExitStack())
        made = await stack.enter_async_context(streams_node({"node": name, **streams}, **(settings or {})))
        self.nodes[name], self.stacks[name] = made, stack
        return made

    async def stop(self, name: str) -> None:
        """End a node before the others."""
        await self.stacks[name].aclose()

    async def stranger(self, name: str) -> Stranger:
        """Somebody who calls a node's door."""
        found = Stranger(*await asyncio.open_connection("127.0.0.1", door(self.nodes[name])))
        self._stack.callback(found.leave)
        return found

    async def client(self, name: str, **how: Any) -> Client:
        """An MQTT client of a node."""
        url = f"mqtt://127.0.0.1:{self.nodes[name].port}"
        return await self._stack.enter_async_context(Client(url, **how))

    async def subscriber(self, name: str, filter_: str = "orders/#", **how: Any) -> list[bytes]:
        """Payloads as they come to a subscriber at a node."""
        client = await self.client(name)
        subscription = await client.subscribe(filter_, qos=1, **how)
        got: list[bytes] = []

        async def listen() -> None:
            async for item in subscription:
                assert isinstance(item, Event)
                got.append(item.payload)

        task = asyncio.create_task(listen())
        self._stack.callback(task.cancel)
        return got


@asynccontextmanager
async def tree() -> AsyncIterator[Tree]:
    async with AsyncExitStack() as stack:
        yield Tree(stack)


@asynccontextmanager
async def chain(**between: Any) -> AsyncIterator[Tree]:
    """PB, which hosts `orders`, IB and SB; `between` are settings of SB about IB."""
    async with tree() as made:
        pb = await made.add("PB", host=ORDERS, listen=LISTENS, neighbours=[{"name": "IB"}])
        ib = await made.add("IB", listen=LISTENS, neighbours=[at(pb, "PB"), {"name": "SB"}])
        sb = await made.add("SB", neighbours=[at(ib, "IB", **between)])
        await until(lambda: "orders" in sb.streams.directory.known)
        yield made


class Stranger:
    """Somebody who calls a door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def says(self, hello: Hello) -> Welcome | Sorry:
        self.writer.write(handshake.encode(hello))
        return handshake.decode_answer(await read_frame(self.reader))

    def leave(self) -> None:
        self.writer.transport.abort()

    async def gone(self) -> bool:
        """Whether the door closes the connection."""
        try:
            async with asyncio.timeout(120):
                while await self.reader.read(4096):
                    pass
        except ConnectionError:
            pass
        return True


def hello(name: str, **more: Any) -> Hello:
    return Hello(VERSION, "node", name, **more)
