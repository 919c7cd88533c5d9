"""Trees of a cluster, live: messages are passed on by other nodes, and reach everybody whoever fails."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.cluster.relay import PASSED
from penstock.mqtt.codes import Reason
from tests.kit.cluster import Network, member, members, settled
from tests.kit.waiting import until

if TYPE_CHECKING:
    import pytest

    from tests.kit.cluster import Member
    from tests.kit.peer import Peer

NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")


async def _subscribed(nodes: list[Member]) -> list[Peer]:
    phones = [await node.connect(f"phone-{node.service.own.name}") for node in nodes[1:]]
    for phone in phones:
        await phone.subscribe("a", qos=1)
    await settled(*nodes)
    return phones


def _forwarder(node: Member) -> tuple[str, str]:
    """A node that passes on, and one behind it."""
    return next((row.via[0], row.name) for row in node.service.status().links if row.via)


async def _sensor(nodes: list[Member]) -> Peer:
    """A client that publishes, at the first node, when no link has anything to send.

    A link on which something is keeps its way, which may be a direct one: the roots have to be told of the
    client first.
    """
    found = await nodes[0].connect("sensor")

    def told(node: Member) -> bool:
        telling = node.service.moves.roots._telling
        return telling is None or telling.done()

    await until(lambda: all(told(node) and node.quiet() for node in nodes))
    return found


async def test_messages_are_passed_on_and_acknowledged_when_everybody_has_them() -> None:
    async with members(Network(), *NAMES, fan_out=2) as nodes:
        phones = await _subscribed(nodes)
        sensor = await _sensor(nodes)
        for number in range(5):
            assert (await sensor.publish1("a", b"%d" % number)).reason == Reason.SUCCESS
            assert all(nodes[0].to(name).link.account().handed == number + 1 for name in NAMES[1:])
        for number in range(5, 200):
            sensor.publish0("a", b"%d" % number)
        for phone in phones:
            assert await phone.payloads(200) == [b"%d" % number for number in range(200)]
            assert await phone.silent()
        await settled(*nodes)
        status = nodes[0].service.status()
        assert status.balanced
        assert sorted(len(row.via) for row in status.links) == [0, 0, 1, 1, 1]
        assert sum(row.forwarded for node in nodes[1:] for row in node.service.status().links) >= 3
        assert all(node.running.account_holds() for node in nodes)


async def test_a_frozen_forwarder_holds_nobody_up_for_long() -> None:
    network = Network()
    async with members(network, *NAMES, fan_out=2, wait_s=60) as nodes:
        phones = await _subscribed(nodes)
        by, behind = _forwarder(nodes[0])
        sensor = await _sensor(nodes)
        network.freeze(by)
        waiting = asyncio.ensure_future(sensor.publish1("a", b"x"))
        phone = phones[NAMES.index(behind) - 1]
        assert (await phone.message()).payload == b"x"
        await until(lambda: nodes[0].to(behind).link.idle)
        assert nodes[0].service.status().repaired > 0
        assert not waiting.done(), "the frozen node does not have it"
        network.thaw(by)
        assert (await waiting).reason == Reason.SUCCESS
        for number, phone in enumerate(phones):
            if NAMES[number + 1] != behind:
                assert (await phone.message()).payload == b"x"
            assert await phone.silent()


async def test_a_forwarder_that_does_not_reach_a_node_says_so() -> None:
    network = Network()
    async with members(network, *NAMES, fan_out=2) as nodes:
        phones = await _subscribed(nodes)
        by, behind = _forwarder(nodes[0])
        sensor = await _sensor(nodes)
        network.cut(by, behind)
        for number in range(3):
            assert (await sensor.publish1("a", b"%d" % number)).reason == Reason.SUCCESS
        for phone in phones:
            assert await phone.payloads(3) == [b"0", b"1", b"2"]
            assert await phone.silent()
        assert nodes[0].to(behind).link.resent > 0
        network.mend(by, behind)


async def test_what_was_on_its_way_through_a_node_that_vanishes_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else a busy machine sends it again, and directly, before it is looked at.
    monkeypatch.setattr(limits, "CLUSTER_RETRY_LEAST_US", 60_000_000)
    network = Network()
    async with members(network, *NAMES, fan_out=2) as nodes:
        phones = await _subscribed(nodes)
        by, behind = _forwarder(nodes[0])
        sensor = await _sensor(nodes)
        network.freeze(by)
        for number in range(20):
            sensor.publish0("a", b"%d" % number)
        await until(lambda: nodes[0].to(behind).link.account().in_flight > 0)
        gone = next(node for node in nodes if node.service.own.name == by)
        for node in nodes:
            if node is not gone:
                node.service.vanished(gone.service.own)
        for name, phone in zip(NAMES[1:], phones, strict=True):
            if name != by:
                assert await phone.payloads(20) == [b"%d" % number for number in range(20)]
                assert await phone.silent()
        assert all(by not in row.via for row in nodes[0].service.status().links)
        network.thaw(by)


async def test_a_message_enters_a_zone_once() -> None:
    network = Network()
    carried: list[tuple[str, str]] = []
    carry = network.carry

    def watched(sender: object, to: object, frame: bytes) -> None:
        if b"once" in frame:
            carried.append((sender.name, to.name))  # type: ignore[attr-defined]
        carry(sender, to, frame)  # type: ignore[arg-type]

    zones = {name: "west" if name in NAMES[3:] else "east" for name in NAMES}
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(member(network, name, zone=zone)) for name, zone in zones.items()
        ]
        await settled(*nodes)
        phones = await _subscribed(nodes)
        network.carry = watched  # type: ignore[method-assign]
        sensor = await _sensor(nodes)
        await sensor.publish1("a", b"once")
        assert [(await phone.message()).payload for phone in phones] == [b"once"] * 5
        assert sum(zones[sender] != zones[to] for sender, to in carried) == 1
        assert len(carried) == 5


async def test_a_damaged_relay_is_refused_and_counted() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        n1.service.received(n2.service.own, PASSED + b"garbage")
        assert n1.to("n2").damaged == 1
        phone = await n1.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n2.connect("sensor")
        await sensor.publish1("a", b"x")
        assert (await phone.message()).payload == b"x"
