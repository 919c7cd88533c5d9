"""Sessions of a stream at a node that is killed, over connections that break: each message once, in order."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import TYPE_CHECKING, Self

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes

from penstock.client import Client
from penstock.model.event import Event
from penstock_lab.rigs.ports import free_port
from tests.e2e.real_clients import properties
from tests.kit.stream_service import configuration, service
from tests.kit.waiting import until

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    from penstock.client.subscription import Subscription

pytestmark = pytest.mark.e2e

COUNT = 600
LONG_S = 10_000
ODD = "keep: {eq: 1, attribute: odd}"


def number(payload: bytes) -> int:
    found: int = json.loads(payload)["n"]
    return found


class Cuttable:
    """Between clients and the node: connections can be cut, whoever is at their ends."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(back)
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        self._writers -= {writer, back}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 14):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()


@asynccontextmanager
async def cuttable(port: int) -> AsyncIterator[Cuttable]:
    made = Cuttable(port)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.cut()
        await asyncio.sleep(0.05)


class Paho:
    """A client that knows nothing of streams: QoS 2 and a session that is kept."""

    def __init__(self, port: int) -> None:
        self.heard: list[int] = []
        self.subscribed = False
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="paho", protocol=paho.MQTTv5)
        self._client.reconnect_delay_set(min_delay=1, max_delay=1)
        self._client.on_message = lambda _c, _u, message: self.heard.append(number(bytes(message.payload)))
        self._client.on_subscribe = self._on_subscribe
        self._client.connect(
            "127.0.0.1",
            port,
            clean_start=False,
            properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=LONG_S),
        )
        self._client.loop_start()
        self._client.subscribe("orders/#", qos=2)

    def _on_subscribe(self, *_: Any) -> None:
        self.subscribed = True

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


async def take(subscription: Subscription, into: list[int], *, pause_s: float = 0.0) -> None:
    async for item in subscription:
        assert isinstance(item, Event)
        assert item.stream == "orders"
        assert item.tick > 0
        into.append(number(item.payload))
        if pause_s:
            await asyncio.sleep(pause_s)


async def publish(port: int) -> None:
    """All numbers, one after the other, each until it is acknowledged; QoS 2, so each is there once."""
    async with Client(
        f"mqtt://127.0.0.1:{port}", client_id="publisher", session_expiry_s=LONG_S, reconnect_most_s=0.5
    ) as client:
        for one in range(COUNT):
            await client.publish("orders/a", b'{"n": %d, "odd": %d}' % (one, one % 2), qos=2)
            if one % 50 == 0:
                await asyncio.sleep(0.2)


class Killable:
    """A node that can be killed, and is there again at once."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.kills = 0
        self._config = configuration(folder, self.port)
        self._stack = AsyncExitStack()
        self._process: Process

    async def __aenter__(self) -> Self:
        self._process = await self._stack.enter_async_context(service(self._config))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        self.kills += 1
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        self._process = await self._stack.enter_async_context(service(self._config))


async def trouble(node: Killable, way: Cuttable, publishing: asyncio.Task[None], rng: Random) -> None:
    """Connections are cut and the node is killed while messages are published, and a little longer."""
    while not publishing.done() or node.kills < 2:
        await asyncio.sleep(rng.choice((0.1, 0.3, 0.6)))
        if rng.random() < 0.3 and node.kills < 3:
            await node.kill()
        else:
            way.cut()
    await publishing


async def test_each_message_once_and_in_order_whatever_breaks(
    tmp_path: Path,
) -> None:
    logging.getLogger("penstock.client").setLevel(logging.ERROR)
    one: list[int] = []
    slow: list[int] = []
    part: list[int] = []
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(Killable(tmp_path))
        way = await stack.enter_async_context(cuttable(node.port))
        plain = await asyncio.to_thread(Paho, way.port)
        stack.push_async_callback(asyncio.to_thread, plain.close)

        async def reader(name: str) -> Client:
            client = Client(
                f"mqtt://127.0.0.1:{way.port}",
                client_id=name,
                session_expiry_s=LONG_S,
                reconnect_most_s=0.5,
            )
            return await stack.enter_async_context(client)

        first, second, third = await reader("one"), await reader("slow"), await reader("part")
        taking = [
            take(await first.subscribe("orders/#", qos=1), one),
            take(await second.subscribe("orders/+", qos=1), slow, pause_s=0.002),
            take(await third.subscribe("orders/a", qos=1, filter=ODD), part),
        ]
        tasks = [asyncio.create_task(each) for each in taking]
        await until(lambda: plain.subscribed)
        publishing = asyncio.create_task(publish(node.port))
        await trouble(node, way, publishing, Random(7))
        with suppress(TimeoutError):
            await until(lambda: len(one) == len(slow) == len(plain.heard) == COUNT)
            await until(lambda: len(part) == COUNT // 2)
        everything = list(range(COUNT))
        assert one == everything
        assert slow == everything
        assert part == everything[1::2]
        assert plain.heard == everything
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
