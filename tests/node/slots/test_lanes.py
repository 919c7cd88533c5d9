"""A receiver of flows on a slow link is metered: what is for it waits in the node, not in its sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.client import Client
from penstock.node.config.schema import Config, Listener, Queues
from penstock.node.config.slots import SlotSettings
from penstock.node.slots.lanes import SessionLanes
from penstock_lab.rigs.way import SlowLink
from tests.kit.peer import node

if TYPE_CHECKING:
    from penstock.node.broker.session import Session
    from tests.kit.peer import Running

CONFIG = Config(
    data="",
    listeners=(Listener(slots=True),),
    slots=SlotSettings(slot_s=0.02, capacity=20),
    queues=Queues(events=2_000),
)
BYTES_PER_S = 40_000
PERIOD_S = 0.05
WAIT_S = 120
MOST_OUTSIDE = 6_000
"""Bytes: the smallest send buffer of the kernel, and one message in the transport."""


class Playing:
    """A node, a receiver on a link, and publishers of a flow and of bulk."""

    def __init__(self, running: Running, sensor: Client, bulk: Client, session: Session) -> None:
        self.running = running
        self.session = session
        self._sensor = sensor
        self._bulk = bulk
        self.beats = 0

    async def step(self, bulk: int) -> None:
        """One message of the flow, some of bulk, one period."""
        said = {"penstock-period": f"{PERIOD_S:g}s"}
        self._sensor.publish_nowait("t/beat", b"%d" % self.beats, properties=said)
        self.beats += 1
        for _ in range(bulk):
            self._bulk.publish_nowait("t/bulk", bytes(480))
        await asyncio.sleep(PERIOD_S)

    @property
    def metered(self) -> bool:
        return self.session.delivery.metered is not None

    async def until_metered(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while not self.metered:
                await self.step(bulk=8)


async def playing(stack: AsyncExitStack, *, bytes_per_s: float) -> Playing:
    running = await stack.enter_async_context(node(CONFIG))
    link = await stack.enter_async_context(SlowLink(running.port, bytes_per_s=bytes_per_s))
    url = f"mqtt://127.0.0.1:{running.port}"
    sensor = await stack.enter_async_context(Client(url, client_id="sensor"))
    bulk = await stack.enter_async_context(Client(url, client_id="bulk"))
    phone = await stack.enter_async_context(Client(f"mqtt://127.0.0.1:{link.port}", client_id="phone"))
    await phone.subscribe("t/#")
    session = running.broker.sessions.get("phone")
    assert session is not None
    return Playing(running, sensor, bulk, session)


@pytest.mark.slow
async def test_on_a_slow_link_messages_wait_in_the_node_and_little_is_outside() -> None:
    async with AsyncExitStack() as stack:
        play = await playing(stack, bytes_per_s=BYTES_PER_S)
        await play.until_metered()
        seen = []
        for _ in range(60):
            await play.step(bulk=8)  # twice what the link carries
            link = play.session.link
            assert link is not None
            seen.append(link.output.progress()[1])
            assert not play.session.delivery.keeping_up
        assert play.metered
        assert max(seen[20:]) < MOST_OUTSIDE, "what was in the kernel before has gone out by now"
        assert sum(len(each.queue or ()) for each in play.session.held.values()) > 0
        assert play.running.account_holds()


async def test_a_link_that_keeps_up_is_not_metered() -> None:
    async with AsyncExitStack() as stack:
        play = await playing(stack, bytes_per_s=50_000_000)
        for _ in range(20):
            await play.step(bulk=2)
        assert not play.metered
        async with asyncio.timeout(WAIT_S):
            while not play.session.delivery.keeping_up:
                await asyncio.sleep(0.01)


async def test_a_receiver_is_not_metered_for_longer_than_flows_come() -> None:
    async with AsyncExitStack() as stack:
        play = await playing(stack, bytes_per_s=BYTES_PER_S)
        await play.until_metered()
        (lanes,) = [each for each in play.session.sources if isinstance(each, SessionLanes)]
        lanes._used_us -= limits.FLOW_REST_US  # nothing of a flow for ten seconds
        async with asyncio.timeout(WAIT_S):
            while play.metered:
                play._bulk.publish_nowait("t/bulk", b"")
                await asyncio.sleep(0.01)
        await play.until_metered()


async def test_a_lost_connection_is_not_metered_any_more() -> None:
    async with AsyncExitStack() as stack:
        play = await playing(stack, bytes_per_s=BYTES_PER_S)
        await play.until_metered()
        play.session.lose_link(now_us=play.running.broker.clock())
        assert not play.metered
