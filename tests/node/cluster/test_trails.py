"""Events that come too late for sessions that have left a node."""

from __future__ import annotations

from penstock.core.cluster.seen import Seen
from tests.kit.cluster import Network, members, settled
from tests.kit.waiting import until


async def test_a_session_that_is_back_gets_late_events_or_they_are_counted() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        phone = await n1.connect("phone", session_expiry_s=3600)
        await phone.subscribe("a")
        await settled(n1, n2)
        network.cut("n1", "n2")
        sensor = await n2.connect("sensor")
        for number in range(1, 5):
            sensor.publish0("a", b"%d" % number)
        await sensor.settled()
        moves = n1.service.moves
        moves.trails.begin("phone", ["a"])
        incarnation = n2.service.own.incarnation
        # Two of them are below its mark, of which one is in a gap.
        seen = Seen({"n2": (incarnation, 2)}, {"n2": (incarnation, 1, 2)}, since={}, fenced=())
        n1.service._incoming.sieves["phone"] = seen
        network.mend("n1", "n2")
        assert await phone.payloads(2) == [b"3", b"4"]
        assert (moves.counts["abandoned"], moves.figures().abandoned) == (1, 2)
        await until(lambda: n1.service._incoming.late is None)
        sensor.publish0("a", b"5")
        assert await phone.payloads(1) == [b"5"]


async def test_late_events_are_counted_if_the_session_is_continued_here_for_another_node_only() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        phone = await n1.connect("phone", session_expiry_s=3600)
        await phone.subscribe("a")
        await settled(n1, n2)
        network.cut("n1", "n2")
        sensor = await n2.connect("sensor")
        sensor.publish0("a", b"1")
        await sensor.settled()
        n1.service.moves.trails.begin("phone", ["a"])
        n1.service.moves.roots.standby["phone"] = "n3"
        network.mend("n1", "n2")
        await phone.payloads(1)
        assert n1.service.moves.counts["abandoned"] == 1


async def test_events_of_a_session_that_subscribes_to_them_no_more_are_late() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        phone = await n1.connect("phone", session_expiry_s=3600)
        await phone.subscribe("a")
        await settled(n1, n2)
        network.cut("n1", "n2")
        sensor = await n2.connect("sensor")
        sensor.publish0("a", b"1")
        await sensor.settled()
        n1.service.moves.trails.begin("phone", ["a"])
        await phone.unsubscribe("a")
        network.mend("n1", "n2")
        await until(lambda: n1.service.moves.counts["abandoned"] == 1)
        assert await phone.silent()
