"""A client on a way that breaks at random: by seed, whatever happens, everything is accounted for."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.model import Event
from tests.kit.breakable_link import apart
from tests.kit.waiting import until

if TYPE_CHECKING:
    from penstock.client import Client, Subscription
    from tests.kit.breakable_link import Way


async def trouble(found: Way, dice: Random) -> None:
    """Connections break, ways are closed for a while, bytes stand still."""
    found.cut()
    while True:
        await asyncio.sleep(dice.uniform(0, 0.05))
        match dice.randrange(3):
            case 0:
                found.cut()
            case 1:
                found.shut()
                await asyncio.sleep(dice.uniform(0, 0.08))
                found.open = True
            case 2:
                found.flowing.clear()
                await asyncio.sleep(dice.uniform(0, 0.05))
                found.flowing.set()


async def publish(client: Client, topic: str, count: int, dice: Random) -> None:
    """Numbers, some at a time."""
    number = 0
    while number < count:
        some = min(dice.randrange(1, 8), count - number)
        tasks = []
        for each in range(number, number + some):
            tasks.append(asyncio.create_task(client.publish(topic, str(each), qos=2)))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        number += some


async def receive(subscription: Subscription, count: int, dice: Random) -> list[int]:
    """All the numbers, at a pace of its own."""
    found: list[int] = []
    while len(set(found)) < count:
        item = await asyncio.wait_for(subscription.get(), 120)
        assert isinstance(item, Event)
        found.append(int(item.payload))
        if dice.random() < 0.2:
            await asyncio.sleep(dice.uniform(0, 0.02))
    return found


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_every_message_arrives(seed: int, qos: int) -> None:
    dice = Random(seed)
    count = 80
    async with apart(keep_alive_s=5) as (running, found, far, near):
        down = await far.subscribe("down", qos=qos)
        up = await near.subscribe("up", qos=2)
        rough = asyncio.create_task(trouble(found, dice))
        got_down, got_up, *_ = await asyncio.gather(
            receive(down, count, dice),
            receive(up, count, dice),
            publish(near, "down", count, dice),
            publish(far, "up", count, dice),
        )
        rough.cancel()
        found.open = True
        found.flowing.set()
        assert got_up == list(range(count))
        if qos == 2:
            assert got_down == list(range(count))
        else:
            firsts = list(Counter(got_down))
            assert firsts == list(range(count))

        def settled() -> bool:
            repeated = down.take()  # of QoS 1, whose acknowledgement the node never saw
            assert repeated is None or qos == 1
            return repeated is None and far.connected and far.statistics().unacknowledged == 0

        await until(settled)
        statistics = far.statistics()
        assert statistics.sent.conserved
        assert (statistics.sent.sent, statistics.sent.acknowledged) == (count, count)
        assert statistics.received.conserved
        assert statistics.connections > 1
        assert running.account_holds()
