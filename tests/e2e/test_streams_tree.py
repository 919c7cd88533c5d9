"""Three nodes in a row, real processes: the one in the middle is killed; nothing is lost or told twice."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from penstock.client import Client
from penstock.model.event import Event
from penstock_lab.rigs.local_node import local_node
from penstock_lab.rigs.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from penstock.client import Subscription
    from penstock_lab.rigs.local_node import LocalNode

pytestmark = pytest.mark.e2e

MESSAGES = 600
WINDOW = 20


def config(folder: Path, name: str, **streams: Any) -> dict[str, Any]:
    return {"data": str(folder / name), "streams": {"node": name, **streams}}


async def listen(subscription: Subscription, got: list[int]) -> None:
    async for item in subscription:
        assert isinstance(item, Event)
        got.append(int(item.payload))


async def publish(client: Client, acknowledged: list[int]) -> None:
    """All messages in order, a few in flight."""
    window = asyncio.Semaphore(WINDOW)

    async def one(number: int) -> None:
        await client.publish("orders/new", str(number), qos=1)
        acknowledged.append(number)
        window.release()

    async with asyncio.TaskGroup() as sending:
        for number in range(MESSAGES):
            await window.acquire()
            sending.create_task(one(number))
            await asyncio.sleep(0.005)


async def enough(numbers: list[int], count: int) -> None:
    async with asyncio.timeout(60):
        while len(numbers) < count:
            await asyncio.sleep(0.02)


def test_a_node_in_the_middle_is_killed(tmp_path: Path) -> None:
    port = free_port()
    middle = [{"name": "IB", "host": "127.0.0.1", "port": port}]
    hosted = [{"name": "orders", "topics": ["orders/#"]}]
    between = config(
        tmp_path,
        "IB",
        listen={"enabled": True, "port": port},
        neighbours=[{"name": "PB"}, {"name": "SB"}],
    )

    async def play(pb: LocalNode, sb: LocalNode, ib: LocalNode, again: ExitStack) -> list[int]:
        got: list[int] = []
        acknowledged: list[int] = []
        async with Client(pb.url) as publisher, Client(sb.url, client_id="reader") as reader:
            listening = asyncio.create_task(listen(await subscribed(reader), got))
            sending = asyncio.create_task(publish(publisher, acknowledged))
            await enough(got, MESSAGES // 4)
            os.kill(ib.pid, signal.SIGKILL)
            await enough(acknowledged, MESSAGES // 2)
            assert len(got) < MESSAGES // 2
            await asyncio.to_thread(again.enter_context, local_node(between))
            await sending
            await enough(got, MESSAGES)
            await asyncio.sleep(0.5)  # what is told twice would come now
            listening.cancel()
        assert sorted(acknowledged) == list(range(MESSAGES))
        return got

    async def subscribed(reader: Client) -> Subscription:
        """Once the stream is known there; a stream that nobody knows could not be refused at SB."""
        await asyncio.sleep(1)
        return await reader.subscribe("orders/#", qos=1)

    with ExitStack() as again, ExitStack() as stack:
        ib = stack.enter_context(local_node(between))
        pb = stack.enter_context(local_node(config(tmp_path, "PB", host=hosted, neighbours=middle)))
        sb = stack.enter_context(local_node(config(tmp_path, "SB", neighbours=middle)))
        assert asyncio.run(play(pb, sb, ib, again)) == list(range(MESSAGES))
