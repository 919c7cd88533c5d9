"""Flows of publishers at other nodes: their messages overtake what waits for the link, and keep a lane."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.node.config.schema import Config, Listener
from penstock.node.config.slots import SlotSettings
from tests.kit.cluster import Network, member, settled
from tests.kit.flows import lanes_of
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.node.broker.session import Session

SLOTS = Config(data="", listeners=(Listener(slots=True),), slots=SlotSettings(slot_s=0.02, capacity=20))
PERIOD_US = 50_000


class Playing:
    """A flow and bulk at one node, a receiver of both at another, and a clock of their own."""

    def __init__(self) -> None:
        self.network = Network()
        self.now_us = 0
        self.beats = 0

    @asynccontextmanager
    async def nodes(self) -> AsyncIterator[None]:
        network = self.network
        async with member(network, "n1", config=SLOTS) as n1, member(network, "n2", config=SLOTS) as n2:
            await settled(n1, n2)
            self.n1, self.n2 = n1, n2
            self.phone = await n2.connect("phone")
            await self.phone.subscribe("t/#", qos=1)
            self.sensor, self.others = await n1.connect("sensor"), await n1.connect("bulk")
            self.now_us = n1.broker.clock()
            for at in (n1, n2):
                at.broker.clock = lambda: self.now_us
                assert at.running.flows is not None
                at.running.flows._clock = at.broker.clock
            yield

    async def beat(self, count: int = 1, *, after_us: int = PERIOD_US) -> None:
        for _ in range(count):
            self.now_us += after_us
            said = (("penstock-period", "50ms"),)
            self.sensor.publish0("t/beat", b"beat %d" % self.beats, user=said)
            await self.sensor.settled()
            self.beats += 1

    async def bulk(self, count: int) -> None:
        for _ in range(count):
            self.others.publish0("t/bulk", b"bulk")
        await self.others.settled()

    def session(self) -> Session:
        found = self.n2.broker.sessions.get("phone")
        assert found is not None
        return found


def beats(first: int, last: int) -> list[bytes]:
    return [b"beat %d" % number for number in range(first, last)]


async def test_messages_of_a_flow_overtake_what_waits_for_the_link_and_are_a_flow_there() -> None:
    play = Playing()
    async with play.nodes():
        await play.beat(20)
        assert await play.phone.payloads(20) == beats(0, 20)
        rows = play.n2.running.flow_rows()
        assert rows is not None
        (row,) = rows
        assert (row.client_id, row.topic, row.state, row.on_time, row.links) == (
            *("sensor", "t/beat", "served"),
            *(19, 1),
        )
        play.network.cut("n1", "n2")
        for _ in range(5):
            await play.bulk(10)
            await play.beat()
        play.network.mend("n1", "n2")
        assert await play.phone.payloads(55) == [*beats(20, 25), *[b"bulk"] * 50]
        await settled(play.n1, play.n2)
        account = play.n1.to("n2").link.account()
        assert (account.accepted, account.handed) == (75, 75)
        assert play.n1.running.account_holds()


async def test_messages_of_a_flow_keep_their_order_behind_one_that_had_to_wait() -> None:
    play = Playing()
    async with play.nodes():
        await play.beat(10)
        play.network.cut("n1", "n2")
        await play.bulk(3)
        await play.beat(3, after_us=0)  # beyond its rate: late, and with the others
        await play.beat(3)
        assert play.n1.to("n2").link.backlog._shared > 3
        play.network.mend("n1", "n2")
        got = await play.phone.payloads(19)
        assert [one for one in got if one != b"bulk"] == beats(0, 16)


async def test_the_receiving_node_puts_a_message_of_a_flow_ahead_of_what_waits_for_its_receiver() -> None:
    play = Playing()
    async with play.nodes():
        await play.beat(10)
        assert await play.phone.payloads(10) == beats(0, 10)
        session = play.session()
        session.delivery.keeping_up = False  # as if its connection took nothing
        await play.bulk(5)
        await settled(play.n1, play.n2)
        await play.beat()
        await until(lambda: lanes_of(session).reserved == 1)
        session.drain(now_us=play.now_us)
        assert await play.phone.payloads(6) == [*beats(10, 11), *[b"bulk"] * 5]
        assert play.n2.running.account_holds()
