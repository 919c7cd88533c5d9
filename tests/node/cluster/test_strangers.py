"""What nodes publish that the holder of a session has never met, while another node stands in for it."""

from __future__ import annotations

from penstock.node.cluster.strangers import Strangers
from tests.kit.cluster import Network, members, settled


async def test_events_of_nodes_that_came_later_are_counted_and_those_of_others_are_not() -> None:
    async with members(Network(), "n1", "n2", "n3") as nodes:
        n1, n2, n3 = nodes
        strangers = Strangers(n1.broker)
        known = n1.service.moves.marks()
        strangers.watch("phone", ["ward/+", "ward/#", "$SYS/#"], {"n2": known["n2"], "n3": (1, 0)})
        await settled(*nodes)
        for node in nodes:
            sensor = await node.connect(f"sensor-{node.service.own.name}")
            await sensor.publish1("ward/1", b"x")
            await sensor.publish1("other", b"x")
        await settled(*nodes)
        assert strangers.forget("phone") == 1
        assert strangers.forget("phone") == 0
        sensor = await n3.connect("sensor")
        await settled(*nodes)
        assert not n3.broker.router.find("ward/1").peers
        assert not n2.broker.router.find("ward/1").peers
