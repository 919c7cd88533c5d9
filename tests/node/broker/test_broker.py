"""The broker over real sockets: how messages reach their subscribers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.mqtt.codes import V4, V5, Reason
from penstock.mqtt.packets.connect import Connack, Disconnect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from penstock.node.config.schema import Bounds, Config, Rule
from tests.kit.peer import node

versions = pytest.mark.parametrize("version", [V4, V5])


@pytest.mark.parametrize("theirs", [V4, V5])
@versions
async def test_a_message_reaches_its_subscribers_in_any_version(version: int, theirs: int) -> None:
    async with node() as running:
        receiver = await running.connect("r", version=theirs)
        await receiver.subscribe("a/+", qos=2)
        sender = await running.connect("s", version=version)
        for number in range(50):
            sender.publish0("a/b", b"zero %d" % number)
        assert await receiver.payloads(50) == [b"zero %d" % number for number in range(50)]
        await sender.publish1("a/b", b"one")
        await sender.publish2("a/b", b"two")
        found = [await receiver.message() for _ in range(2)]
        assert [(each.payload, each.qos) for each in found] == [(b"one", 1), (b"two", 2)]
        assert await receiver.silent()
        assert running.account_holds()


async def test_qos_is_the_lower_of_both() -> None:
    async with node() as running:
        receiver = await running.connect("r")
        await receiver.subscribe("a", qos=1)
        sender = await running.connect("s")
        await sender.publish2("a", b"x")
        sender.publish0("a", b"y")
        assert [(await receiver.message()).qos for _ in range(2)] == [1, 0]


async def test_long_and_empty_payloads_and_topics_pass() -> None:
    async with node() as running:
        receiver = await running.connect("r")
        await receiver.subscribe("#")
        sender = await running.connect("s", version=V4)
        cases = [("t", b""), ("t", b"x" * 127), ("t" * 300, b"y" * 20_000), ("ä/ö", b"z" * 200_000)]
        for topic, payload in cases:
            sender.publish0(topic, payload)
        found = [await receiver.message() for _ in cases]
        assert [(each.topic, each.payload) for each in found] == cases


async def test_packets_cut_anywhere_arrive_whole() -> None:
    async with node() as running:
        receiver = await running.connect("r")
        await receiver.subscribe("a/b")
        sender = await running.connect("s")
        stream = b"\x30\x08\x00\x03a/b\x00hi" * 3 + b"\x32\x0a\x00\x03a/b\x00\x05\x00ho"
        for at in range(len(stream)):
            sender.raw(stream[at : at + 1])
            await asyncio.sleep(0)
        assert await receiver.payloads(4) == [b"hi", b"hi", b"hi", b"ho"]
        assert (await sender.expect(Puback)).packet_id == 5


async def test_what_comes_behind_the_connect_is_not_lost() -> None:
    async with node() as running:
        receiver = await running.connect("r")
        await receiver.subscribe("a/b")
        sender = await running.dial()
        connect = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00"
        publish = b"\x30\x08\x00\x03a/b\x00hi"
        sender.raw(connect + publish + publish[:5])
        await asyncio.sleep(0.01)
        sender.raw(publish[5:])
        assert await receiver.payloads(2) == [b"hi", b"hi"]


@pytest.mark.parametrize("rules", [(), (Rule(topic="#"),)])
async def test_who_gets_a_message_changes_within_what_comes_together(rules: tuple[Rule, ...]) -> None:
    async with node(Config(data="", acl=rules)) as running:
        client = await running.connect("c")
        wanted = encode(Subscribe(1, (Subscription("a"),)), V5)
        no_more = encode(Unsubscribe(2, ("a",)), V5)
        before, between, after = (encode(Publish("a", each), V5) for each in (b"1", b"2", b"3"))
        client.raw(before + wanted + between + no_more + after)
        await client.expect(Suback)
        assert (await client.expect(Publish)).payload == b"2"
        await client.expect(Unsuback)
        assert await client.silent()


async def test_options_of_a_subscription() -> None:
    async with node() as running:
        client = await running.connect("c")
        await client.subscribe("own", no_local=True)
        await client.subscribe("as-published", retain_as_published=True)
        await client.subscribe("plain", number=7)
        client.publish0("own", b"not for me")
        client.publish0("as-published", b"r", retain=True)
        client.publish0("plain", b"p", retain=True)
        first, second = await client.message(), await client.message()
        assert (first.topic, first.retain) == ("as-published", True)
        assert (second.topic, second.retain) == ("plain", False)
        assert second.properties.subscription_ids == (7,)
        assert await client.silent()


async def test_overlapping_subscriptions_get_one_copy_with_every_identifier() -> None:
    async with node() as running:
        client = await running.connect("c")
        await client.subscribe("a/#", number=1)
        await client.subscribe("a/b", qos=1, number=2)
        await client.publish1("a/b", b"x")
        found = await client.message()
        assert sorted(found.properties.subscription_ids) == [1, 2]
        assert found.qos == 1
        assert await client.silent()


async def test_subscribing_again_replaces_and_unsubscribing_ends() -> None:
    async with node() as running:
        client = await running.connect("c")
        await client.subscribe("a", qos=0)
        await client.subscribe("a", qos=1)
        await client.publish1("a", b"x")
        assert (await client.message()).qos == 1
        assert (await client.unsubscribe("a", "b")).reasons == (0, Reason.NO_SUBSCRIPTION_EXISTED)
        assert (await client.publish1("a", b"x")).reason == Reason.NO_MATCHING_SUBSCRIBERS
        assert await client.silent()
        assert running.account_holds()


async def test_retained_messages_and_their_handling() -> None:
    async with node() as running:
        sender = await running.connect("s")
        await sender.publish1("a/1", b"one", retain=True)
        await sender.publish1("a/2", b"two", retain=True)
        await sender.publish1("a/1", b"", retain=True)
        client = await running.connect("c")
        await client.subscribe("a/#", qos=1)
        found = await client.message()
        assert (found.topic, found.payload, found.retain, found.qos) == ("a/2", b"two", True, 1)
        await client.subscribe("a/#", qos=1, retain_handling=1)
        assert await client.silent()
        await client.subscribe("a/#", qos=1, retain_handling=2)
        assert await client.silent()
        await client.subscribe("a/#", qos=1, retain_handling=0)
        assert (await client.message()).payload == b"two"


async def test_many_retained_messages_all_arrive() -> None:
    async with node() as running:
        for number in range(5_000):
            running.broker.publish(f"r/{number}", b"x" * 50, retain=True)
        client = await running.connect("c")
        await client.subscribe("r/#")
        assert len({(await client.message()).topic for _ in range(5_000)}) == 5_000
        assert running.account_holds()


async def test_qos_2_is_delivered_once_though_its_publisher_repeats_it() -> None:
    async with node() as running:
        receiver = await running.connect("r")
        await receiver.subscribe("a", qos=2)
        sender = await running.connect("s", session_expiry_s=100)
        sender.send(Publish("a", b"x", qos=2, packet_id=9))
        await sender.expect(Pubrec)
        sender.abort()
        sender = await running.connect("s", clean=False, session_expiry_s=100)
        sender.send(Publish("a", b"x", qos=2, packet_id=9, dup=True))
        await sender.expect(Pubrec)
        sender.send(Pubrel(9))
        assert (await sender.expect(Pubcomp)).reason == 0
        assert (await receiver.message()).payload == b"x"
        assert await receiver.silent()


async def test_messages_expire_and_say_what_is_left() -> None:
    async with node() as running:
        client = await running.connect("c", session_expiry_s=100)
        await client.subscribe("a", qos=1)
        client.abort()
        sender = await running.connect("s")
        while running.broker.status().clients[0].state == "attached":
            await asyncio.sleep(0.01)
        await sender.publish1("a", b"short", message_expiry_s=1)
        await sender.publish1("a", b"long", message_expiry_s=100)
        await asyncio.sleep(1.2)
        client = await running.connect("c", clean=False, session_expiry_s=100)
        found = await client.message()
        assert found.payload == b"long"
        assert found.properties.message_expiry_s in (98, 99)
        assert await client.silent()
        assert running.broker.status().account.abandoned == 1
        assert running.account_holds()


async def test_aliases_both_ways() -> None:
    async with node() as running:
        receiver = await running.connect("r", topic_alias_maximum=1)
        await receiver.subscribe("#")
        sender = await running.connect("s")
        assert sender.connack.properties.topic_alias_maximum
        sender.publish0("long/topic", b"1", topic_alias=1)
        sender.publish0("", b"2", topic_alias=1)
        sender.publish0("other", b"3")
        found = [await receiver.message() for _ in range(3)]
        assert [(each.topic, each.properties.topic_alias) for each in found] == [
            ("long/topic", 1),
            ("", 1),
            ("other", None),
        ]
        sender.publish0("", b"x", topic_alias=2)
        assert (await sender.expect(Disconnect)).reason == Reason.PROTOCOL_ERROR


async def test_properties_of_a_message_are_passed_on() -> None:
    async with node() as running:
        receiver = await running.connect("r")
        await receiver.subscribe("ask")
        old = await running.connect("o", version=V4)
        await old.subscribe("ask")
        sender = await running.connect("s")
        given: dict[str, Any] = {
            "response_topic": "answer",
            "correlation_data": b"\x00\x01",
            "content_type": "application/json",
            "payload_format_indicator": 1,
            "user": (("k", "1"), ("k", "2")),
        }
        sender.publish0("ask", b"{}", **given)
        found = (await receiver.message()).properties
        assert {name: getattr(found, name) for name in given} == given
        assert (await old.message()).payload == b"{}"


async def test_taps_see_what_is_accepted() -> None:
    async with node() as running:
        seen: list[tuple[str, bytes, str, int]] = []
        tap = running.broker.tap(
            "a/#", lambda event: seen.append((event.topic, event.payload, event.sender, event.seq))
        )
        client = await running.connect("c")
        client.publish0("b", b"0")
        client.publish0("a/1", b"1")
        await client.publish1("a/2", b"2")
        tap.close()
        await client.publish1("a/3", b"3")
        assert seen == [("a/1", b"1", "c", 2), ("a/2", b"2", "c", 3)]
        assert running.broker.status().unrouted == 4


async def test_empty_client_ids_get_a_name() -> None:
    async with node() as running:
        first, second = await running.connect(""), await running.connect("")
        names = {each.connack.properties.assigned_client_id for each in (first, second)}
        assert len(names) == 2
        assert all(names)
        old = await running.dial()
        await old.hello("", version=V4)
        assert old.connack == Connack()


async def test_lone_messages_pass_like_any_other() -> None:
    """A lone message on an idle node takes a shorter path; its result must not differ."""
    async with node(Config(data="", bounds=Bounds(packet_bytes=2_000))) as running:
        for version in (V4, V5):
            receiver = await running.connect("r", version=version)
            await receiver.subscribe("a/+")
            sender = await running.connect("s", version=version)
            for payload in (b"", b"x", b"y" * 124, b"y" * 125, b"z" * 1_900):
                for _ in range(2):  # the first one has to look the topic up
                    await asyncio.sleep(0.002)
                    sender.publish0("a/b", payload)
                    assert (await receiver.message()).payload == payload
            status = {each.client_id: each for each in running.broker.status().clients}
            assert status["r"].subscriptions[0].account.delivered == 10
            assert status["s"].received == 10
            for bad in (
                b"\x30\x01\x00",
                b"\x30\x85\x00\x00\x03a/b",
                b"\x30\x05\x00\x03a/b"[: 7 - version % 2],
            ):
                rude = await running.connect("rude", version=version)
                await asyncio.sleep(0.002)
                rude.raw(bad)
                rude.raw(b"\xff\xff\xff\xff\xff\xff")
                assert await rude.closed()
            sender.publish0("a/b", b"z" * 2_000)
            assert await sender.closed()
        assert running.account_holds()
