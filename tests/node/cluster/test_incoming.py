"""What holds for messages of other nodes as for those of this one: wills, access lists, $SYS, lanes."""

from __future__ import annotations

import asyncio

import pytest

from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Will
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock.node.config.schema import Config, Listener, Rule
from tests.kit.cluster import Network, member, members, settled
from tests.kit.waiting import until


async def test_a_will_published_at_one_node_reaches_subscribers_at_another() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        heir = await n2.connect("heir")
        await heir.subscribe("will/#", qos=1)
        dying = await n1.connect("dying", will=Will("will/dying", b"gone", qos=1, retain=True))
        dying.abort()
        found = await heir.message()
        assert (found.topic, found.payload) == ("will/dying", b"gone")
        await settled(n1, n2)
        kept = n2.broker.retained.get("will/dying", now_us=n2.broker.clock())
        assert kept is not None
        assert kept.payload == b"gone"


async def test_the_access_list_of_a_node_applies_to_what_comes_from_others() -> None:
    rules = (Rule(action="publish"), Rule(allow=False, topic="secret/#"), Rule())
    network = Network()
    async with (
        member(network, "n1") as n1,
        member(network, "n2", config=Config(data="", acl=rules)) as n2,
    ):
        await settled(n1, n2)
        phone = await n2.connect("phone")
        for filter_ in ("secret/#", "#"):
            assert (await phone.subscribe(filter_, qos=1)).reasons[0] >= 0x80, "wherever messages come from"
        await phone.subscribe("open/#", qos=1)
        sensor = await n1.connect("sensor")
        await sensor.publish1("secret/1", b"hidden")
        await sensor.publish1("open/1", b"seen")
        assert await phone.payloads(1) == [b"seen"]
        assert n2.service.status().events.received == 1, "what nobody may read does not come"


async def test_topics_of_a_node_stay_at_the_node() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        for filter_ in ("$SYS/#", "#"):
            await phone.subscribe(filter_, qos=1)
        n1.broker.publish("$SYS/broker/clients", b"of n1", retain=True)
        n2.broker.publish("$SYS/broker/clients", b"of n2", retain=True)
        sensor = await n1.connect("sensor")
        await sensor.publish1("a", b"last")
        assert await phone.payloads(2) == [b"of n2", b"last"]
        await settled(n1, n2)
        kept = n2.broker.retained.get("$SYS/broker/clients", now_us=n2.broker.clock())
        assert kept is not None
        assert kept.payload == b"of n2"
        assert n1.broker.router.find("$SYS/broker/clients").peers == ()


async def test_a_receiver_with_lanes_gets_what_comes_from_another_node() -> None:
    slots = Config(data="", listeners=(Listener(slots=True),))
    network = Network()
    async with member(network, "n1") as n1, member(network, "n2", config=slots) as n2:
        await settled(n1, n2)
        phone = await n2.connect("phone")
        await phone.subscribe("flow/#", qos=1)
        sensor = await n1.connect("sensor")
        local = await n2.connect("local")
        for number in range(20):
            await (sensor if number % 2 else local).publish1(f"flow/{number % 2}", b"%d" % number)
            await asyncio.sleep(0.001)
        got = await phone.payloads(20)
        assert sorted(map(int, got)) == list(range(20))
        for parity in (0, 1):
            assert [number for number in map(int, got) if number % 2 == parity] == list(range(parity, 20, 2))
        await until(lambda: n2.service.status().events.received == 10)
        assert n2.running.account_holds()


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_client_gets_from_another_node_no_packet_larger_than_it_takes(qos: int) -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        small = await n2.connect("small", maximum_packet_size=60)
        large = await n2.connect("large")
        for phone in (small, large):
            await phone.subscribe("a", qos=1, user=(("digests", "on"),))
        sensor = await n1.connect("sensor")
        payloads = [b"%d" % number + bytes(100 * (number % 2)) for number in range(10)]
        sensor.raw(
            b"".join(
                encode(Publish("a", payload, qos=qos, packet_id=number * qos), V5)
                for number, payload in enumerate(payloads, start=1)
            )
        )
        assert await large.payloads(10) == payloads
        assert await small.payloads(5) == payloads[::2]
        session = n2.broker.sessions.get("small")
        assert session is not None
        await until(lambda: session.held["a"].oversized == 5)
        assert n2.running.account_holds()


@pytest.mark.parametrize("qos", [0, 1])
async def test_content_filters_hold_for_what_comes_from_another_node(qos: int) -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1, user=(("filter", "keep: {ge: 5, attribute: n}"),))
        sensor = await n1.connect("sensor")
        payloads = [b'{"n": %d}' % number for number in range(10)]
        sensor.raw(
            b"".join(
                encode(Publish("a", payload, qos=qos, packet_id=number * qos), V5)
                for number, payload in enumerate(payloads, start=1)
            )
        )
        assert await phone.payloads(5) == payloads[5:]
        await settled(n1, n2)
        assert await phone.silent()
        assert n2.running.account_holds()
