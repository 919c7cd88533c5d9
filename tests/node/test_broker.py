"""The broker over real sockets: what MQTT promises."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from argon2 import PasswordHasher

from penstock.mqtt.acks import Puback, Pubcomp, Pubrec, Pubrel
from penstock.mqtt.connect import Connack, Connect, Will
from penstock.mqtt.disconnect import Disconnect
from penstock.mqtt.kinds import V4, V5
from penstock.mqtt.properties import Properties
from penstock.mqtt.publish import Publish
from penstock.mqtt.reasons import Reason
from penstock.node.config import Bounds, Config, Queues, Rule, User
from tests.node.peer import Peer, node, run

if TYPE_CHECKING:
    from tests.node.peer import Running

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
USERS = (User("ann", CHEAP.hash("a")), User("bob", CHEAP.hash("b")))

versions = pytest.mark.parametrize("version", [V4, V5])


@pytest.mark.parametrize("theirs", [V4, V5])
@versions
def test_a_message_reaches_its_subscribers_in_any_version(version: int, theirs: int) -> None:
    async def test() -> None:
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

    run(test())


def test_qos_is_the_lower_of_both() -> None:
    async def test() -> None:
        async with node() as running:
            receiver = await running.connect("r")
            await receiver.subscribe("a", qos=1)
            sender = await running.connect("s")
            await sender.publish2("a", b"x")
            sender.publish0("a", b"y")
            assert [(await receiver.message()).qos for _ in range(2)] == [1, 0]

    run(test())


def test_long_and_empty_payloads_and_topics_pass() -> None:
    async def test() -> None:
        async with node() as running:
            receiver = await running.connect("r")
            await receiver.subscribe("#")
            sender = await running.connect("s", version=V4)
            cases = [("t", b""), ("t", b"x" * 127), ("t" * 300, b"y" * 20_000), ("ä/ö", b"z" * 200_000)]
            for topic, payload in cases:
                sender.publish0(topic, payload)
            found = [await receiver.message() for _ in cases]
            assert [(each.topic, each.payload) for each in found] == cases

    run(test())


def test_packets_cut_anywhere_arrive_whole() -> None:
    async def test() -> None:
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

    run(test())


def test_what_comes_behind_the_connect_is_not_lost() -> None:
    async def test() -> None:
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

    run(test())


def test_options_of_a_subscription() -> None:
    async def test() -> None:
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

    run(test())


def test_overlapping_subscriptions_get_one_copy_with_every_identifier() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c")
            await client.subscribe("a/#", number=1)
            await client.subscribe("a/b", qos=1, number=2)
            await client.publish1("a/b", b"x")
            found = await client.message()
            assert sorted(found.properties.subscription_ids) == [1, 2]
            assert found.qos == 1
            assert await client.silent()

    run(test())


def test_subscribing_again_replaces_and_unsubscribing_ends() -> None:
    async def test() -> None:
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

    run(test())


def test_retained_messages_and_their_handling() -> None:
    async def test() -> None:
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

    run(test())


def test_many_retained_messages_all_arrive() -> None:
    async def test() -> None:
        async with node() as running:
            for number in range(5_000):
                running.broker.publish(f"r/{number}", b"x" * 50, retain=True)
            client = await running.connect("c")
            await client.subscribe("r/#")
            assert len({(await client.message()).topic for _ in range(5_000)}) == 5_000
            assert running.account_holds()

    run(test())


def test_retained_messages_are_bounded() -> None:
    async def test() -> None:
        async with node(Config(data="", bounds=Bounds(retained=1))) as running:
            sender = await running.connect("s")
            assert (await sender.publish1("a", b"x", retain=True)).reason == 0x10
            assert (await sender.publish1("b", b"x", retain=True)).reason == Reason.QUOTA_EXCEEDED
            assert (await sender.publish1("a", b"y", retain=True)).reason == 0x10
            assert running.broker.status().retained == 1

    run(test())


def test_a_will_is_published_unless_the_client_says_goodbye() -> None:
    async def test() -> None:
        async with node() as running:
            watcher = await running.connect("w")
            await watcher.subscribe("will/#")
            polite = await running.connect("p", will=Will("will/p", b"gone"))
            polite.send(Disconnect())
            assert await polite.closed()
            insistent = await running.connect("i", will=Will("will/i", b"gone"))
            insistent.send(Disconnect(Reason.DISCONNECT_WITH_WILL))
            assert (await watcher.message()).topic == "will/i"
            rude = await running.connect("r", version=V4, will=Will("will/r", b"gone", qos=1))
            rude.abort()
            assert (await watcher.message()).topic == "will/r"

    run(test())


def test_a_will_waits_and_is_void_if_the_client_comes_back() -> None:
    async def test() -> None:
        async with node() as running:
            watcher = await running.connect("w")
            await watcher.subscribe("will")
            delayed = Will("will", b"late", properties=Properties(will_delay_s=1))
            client = await running.connect("c", clean=False, session_expiry_s=100, will=delayed)
            client.abort()
            await asyncio.sleep(0.05)
            client = await running.connect("c", clean=False, session_expiry_s=100, will=delayed)
            assert client.connack.session_present
            await asyncio.sleep(1.4)
            assert await watcher.silent()
            client.abort()
            found = await watcher.message()
            assert found.payload == b"late"
            assert found.properties.will_delay_s is None

    run(test())


def test_a_session_goes_on_with_what_waited() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", session_expiry_s=100)
            await client.subscribe("a", qos=1)
            client.abort()
            sender = await running.connect("s")
            for number in range(2_500):  # more than a queue with a policy holds
                sender.send(Publish("a", b"%d" % number, qos=1, packet_id=number + 1))
                await sender.expect(Puback)
            client = await running.connect("c", clean=False, session_expiry_s=100)
            assert client.connack.session_present
            assert await client.payloads(2_500) == [b"%d" % number for number in range(2_500)]
            assert running.account_holds()

    run(test())


def test_what_was_not_acknowledged_is_sent_again_in_order() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", session_expiry_s=100, receive_maximum=3)
            await client.subscribe("a", qos=2)
            sender = await running.connect("s")
            for number in range(6):
                await sender.publish1("a", b"%d" % number)
            await sender.publish2("a", b"last")
            first = [await client.expect(Publish) for _ in range(3)]
            assert [each.payload for each in first] == [b"0", b"1", b"2"]
            assert await client.silent()  # the window is full
            client.send(Puback(first[0].packet_id))
            assert (await client.expect(Publish)).payload == b"3"
            client.abort()
            client = await running.connect("c", clean=False, session_expiry_s=100, receive_maximum=3)
            again = [await client.expect(Publish) for _ in range(3)]
            assert [(each.payload, each.dup) for each in again] == [(b"1", True), (b"2", True), (b"3", True)]
            for each in again:
                client.send(Puback(each.packet_id))
            assert await client.payloads(3) == [b"4", b"5", b"last"]
            assert running.account_holds()

    run(test())


def test_qos_2_is_delivered_once_though_its_publisher_repeats_it() -> None:
    async def test() -> None:
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

    run(test())


def test_a_second_connection_takes_the_session_over() -> None:
    async def test() -> None:
        async with node() as running:
            first = await running.connect("c", session_expiry_s=10)
            await first.subscribe("a")
            second = await running.connect("c", clean=False, session_expiry_s=10)
            assert (await first.expect(Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert await first.closed()
            assert second.connack.session_present
            await second.publish1("a", b"x")
            assert (await second.message()).payload == b"x"
            clean = await running.connect("c")
            assert not clean.connack.session_present

    run(test())


def test_sessions_end_when_they_expire() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", session_expiry_s=1)
            await client.subscribe("a", qos=1)
            client.abort()
            sender = await running.connect("s")
            while running.broker.status().clients[0].state == "attached":
                await asyncio.sleep(0.01)
            await sender.publish1("a", b"x")
            assert running.broker.status().account.queued == 1
            while running.broker.status().sessions > 1:
                await asyncio.sleep(0.05)
            status = running.broker.status()
            assert (status.subscriptions, status.account.abandoned) == (0, 1)
            assert running.account_holds()
            client = await running.connect("c", clean=False)
            assert not client.connack.session_present

    run(test())


def test_messages_expire_and_say_what_is_left() -> None:
    async def test() -> None:
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

    run(test())


def test_aliases_both_ways() -> None:
    async def test() -> None:
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

    run(test())


def test_properties_of_a_message_are_passed_on() -> None:
    async def test() -> None:
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

    run(test())


def test_a_group_shares_what_matches() -> None:
    async def test() -> None:
        async with node() as running:
            members = [await running.connect(f"m{number}") for number in range(3)]
            for member in members:
                await member.subscribe("$share/g/job/#", qos=1)
            sender = await running.connect("s")
            for number in range(9):
                await sender.publish1("job/x", b"%d" % number)
            found = [await member.payloads(3) for member in members]
            assert sorted(payload for each in found for payload in each) == [b"%d" % n for n in range(9)]
            members[0].abort()
            while running.broker.status().sessions > 3:
                await asyncio.sleep(0.01)
            for number in range(4):
                await sender.publish1("job/x", b"%d" % number)
            assert [len(await member.payloads(2)) for member in members[1:]] == [2, 2]
            assert running.account_holds()

    run(test())


@pytest.mark.parametrize("goes", ["the connection", "the subscription"])
def test_what_a_member_of_a_group_leaves_goes_to_the_others(goes: str) -> None:
    async def test() -> None:
        async with node() as running:
            first = await running.connect("first", receive_maximum=3)
            await first.subscribe("$share/g/job/#", qos=2)
            sender = await running.connect("s")
            sender.send(Publish("job", b"twice", qos=2, packet_id=900))
            await sender.expect(Pubrec)
            for number in range(5):  # two in flight behind it, three wait
                await sender.publish1("job", b"%d" % number)
            assert [(await first.expect(Publish)).payload for _ in range(3)] == [b"twice", b"0", b"1"]
            second = await running.connect("second")
            await second.subscribe("$share/g/job/#", qos=1)
            if goes == "the connection":
                first.abort()
                assert await second.payloads(5) == [b"0", b"1", b"2", b"3", b"4"]
            else:
                await first.unsubscribe("$share/g/job/#")
                assert await second.payloads(3) == [b"2", b"3", b"4"]
            assert await second.silent()
            assert running.account_holds()
            assert running.broker.status().account.queued == 0

    run(test())


def test_a_member_of_a_group_gets_what_the_content_filters_of_others_refuse() -> None:
    async def test() -> None:
        async with node() as running:
            low, high = await running.connect("low"), await running.connect("high")
            await low.subscribe("$share/g/pulse", qos=1, user=(("filter", "drop: {gt: 100}"),))
            await high.subscribe("$share/g/pulse", qos=1, user=(("filter", "drop: {le: 100}"),))
            sender = await running.connect("s")
            for number in (80, 150, 160, 90, 170, 70):
                assert (await sender.publish1("pulse", b"%d" % number)).reason == 0
            assert await low.payloads(3) == [b"80", b"90", b"70"]
            assert await high.payloads(3) == [b"150", b"160", b"170"]

    run(test())


def test_what_the_last_member_of_a_group_leaves_is_abandoned() -> None:
    async def test() -> None:
        async with node() as running:
            only = await running.connect("only", receive_maximum=1)
            await only.subscribe("$share/g/job", qos=1)
            sender = await running.connect("s")
            for number in range(3):
                await sender.publish1("job", b"%d" % number)
            await only.unsubscribe("$share/g/job")
            assert running.broker.status().account.abandoned == 2
            assert running.account_holds()

    run(test())


def test_packets_larger_than_a_client_takes_are_not_sent() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", maximum_packet_size=64)
            await client.subscribe("a", qos=1)
            sender = await running.connect("s")
            await sender.publish1("a", b"x" * 100)
            await sender.publish1("a", b"small")
            assert (await client.message()).payload == b"small"
            assert running.broker.status().account.abandoned == 1
            assert running.account_holds()

    run(test())


def test_bounds_are_told_and_kept() -> None:
    async def test() -> None:
        bounds = Bounds(packet_bytes=1000, receive_maximum=2, keep_alive_s=30, subscriptions_per_client=1)
        async with node(Config(data="", bounds=bounds)) as running:
            client = await running.connect("c", keep_alive_s=0)
            said = client.connack.properties
            assert (said.maximum_packet_size, said.receive_maximum, said.server_keep_alive_s) == (1000, 2, 30)
            assert (await client.subscribe("a", "b")).reasons == (0, Reason.QUOTA_EXCEEDED)
            for number in (1, 2, 3):
                client.send(Publish("x", b"", qos=2, packet_id=number))
            assert [(await client.expect(Pubrec)).packet_id for _ in range(2)] == [1, 2]
            assert (await client.expect(Disconnect)).reason == Reason.RECEIVE_MAXIMUM_EXCEEDED
            other = await running.connect("o")
            other.publish0("a", b"x" * 1001)
            assert (await other.expect(Disconnect)).reason == Reason.PACKET_TOO_LARGE
            refused = running.broker.status().refused
            assert refused == {"receive maximum exceeded": 1, "packet too large": 1}

    run(test())


def test_silent_clients_are_let_go() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", keep_alive_s=1)
            assert (await client.expect(Disconnect)).reason == Reason.KEEP_ALIVE_TIMEOUT
            assert await client.closed()

    run(test())


def test_whoever_does_not_say_connect_is_let_go() -> None:
    async def test() -> None:
        async with node(Config(data="", bounds=Bounds(connect_s=1))) as running:
            mute, other = await running.dial(), await running.dial()
            other.raw(b"GET / HTTP/1.1\r\n\r\n")
            assert await mute.closed()
            assert await other.closed()
            assert running.broker.status().connections == 0

    run(test())


def test_malformed_packets_end_their_connection_only() -> None:
    async def test() -> None:
        async with node() as running:
            good = await running.connect("g")
            await good.subscribe("a")
            for bad in (b"\x36\x03\x00\x01a", b"\x30\x80\x80\x80\x80\x01", b"\xf0\x00", b"\x20\x02\x00\x00"):
                client = await running.connect("b")
                client.raw(bad)
                assert (await client.expect(Disconnect)).reason in (0x81, 0x82)
                assert await client.closed()
            await good.publish1("a", b"x")
            assert (await good.message()).payload == b"x"

    run(test())


def test_an_access_list_is_asked() -> None:
    async def test() -> None:
        rules = (
            Rule(client="s", topic="ok/#"),
            Rule(client="r", action="subscribe", topic="ok/#"),
        )
        async with node(Config(data="", acl=rules)) as running:
            receiver = await running.connect("r")
            assert (await receiver.subscribe("ok/#", "no")).reasons == (0, Reason.NOT_AUTHORIZED)
            sender = await running.connect("s")
            sender.publish0("no", b"zero")
            assert (await sender.publish1("no", b"one")).reason == Reason.NOT_AUTHORIZED
            for _ in range(3):
                sender.publish0("ok/1", b"x")
            assert (await receiver.publish1("ok/1", b"x")).reason == Reason.NOT_AUTHORIZED
            assert await receiver.payloads(3) == [b"x"] * 3
            assert running.broker.status().refused["publish not allowed"] == 3

    run(test())


def test_topics_of_the_node_are_not_for_clients() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c")
            await client.subscribe("$SYS/#", "#")
            client.publish0("$SYS/x", b"forged")
            assert (await client.publish1("$SYS/x", b"forged")).reason == Reason.NOT_AUTHORIZED
            running.broker.publish("$SYS/x", b"true")
            found = await client.message()
            assert (found.topic, found.payload) == ("$SYS/x", b"true")
            assert await client.silent()

    run(test())


def test_a_node_that_shuts_down_says_so() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c")
            await running.broker.close()
            assert (await client.expect(Disconnect)).reason == Reason.SERVER_SHUTTING_DOWN
            assert await client.closed()

    run(test())


def test_the_operator_can_disconnect_a_client() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c")
            assert running.broker.disconnect("c", reason=Reason.ADMINISTRATIVE_ACTION)
            assert (await client.expect(Disconnect)).reason == Reason.ADMINISTRATIVE_ACTION
            assert not running.broker.disconnect("nobody", reason=0x98)

    run(test())


def test_taps_see_what_is_accepted() -> None:
    async def test() -> None:
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

    run(test())


def test_a_client_above_its_rate_is_read_more_slowly() -> None:
    async def test() -> None:
        async with node(Config(data="", bounds=Bounds(messages_per_s=100.0))) as running:
            client = await running.connect("c")
            loop = asyncio.get_running_loop()
            begin = loop.time()
            for _ in range(3):
                client.raw(b"\x30\x04\x00\x01a\x00" * 100)
                await client.settled()
            assert loop.time() - begin > 0.9
            assert running.broker.status().messages_received == 300

    run(test())


def test_empty_client_ids_get_a_name() -> None:
    async def test() -> None:
        async with node() as running:
            first, second = await running.connect(""), await running.connect("")
            names = {each.connack.properties.assigned_client_id for each in (first, second)}
            assert len(names) == 2
            assert all(names)
            old = await running.dial()
            await old.hello("", version=V4)
            assert old.connack == Connack()

    run(test())


def test_subscribing_again_loses_nothing_that_waits() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", session_expiry_s=100, receive_maximum=1)
            await client.subscribe("a", qos=1)
            for number in range(5):
                await running_publish(running, b"%d" % number)
            held = await client.expect(Publish)
            for qos in (1, 0, 2):
                assert (await client.subscribe("a", qos=qos, number=qos + 1)).reasons == (qos,)
            client.send(Puback(held.packet_id))
            assert await client.payloads(4) == [b"1", b"2", b"3", b"4"]
            assert running.broker.status().subscriptions == 1
            assert running.account_holds()

    run(test())


async def running_publish(running: Running, payload: bytes) -> None:
    running.broker.publish("a", payload, qos=1)
    await asyncio.sleep(0)


def test_a_client_that_takes_no_connack_is_let_go() -> None:
    async def test() -> None:
        async with node() as running:
            tiny = await running.dial()
            tiny.send(Connect(client_id="t", properties=Properties(maximum_packet_size=5)))
            assert await tiny.closed()
            while running.broker.status().sessions:
                await asyncio.sleep(0.01)

    run(test())


@pytest.mark.parametrize(("clean", "delay_s", "sent"), [(False, 0, True), (False, 5, False), (True, 5, True)])
def test_a_will_when_another_connection_takes_over(clean: bool, delay_s: int, sent: bool) -> None:
    async def test() -> None:
        async with node() as running:
            watcher = await running.connect("w")
            await watcher.subscribe("will")
            will = Will("will", b"gone", properties=Properties(will_delay_s=delay_s))
            await running.connect("c", clean=False, session_expiry_s=100, will=will)
            await running.connect("c", clean=clean, session_expiry_s=100)
            if sent:
                assert (await watcher.message()).payload == b"gone"
            assert await watcher.silent()

    run(test())


def test_a_node_that_shuts_down_publishes_no_wills() -> None:
    async def test() -> None:
        async with node() as running:
            seen: list[bytes] = []
            running.broker.tap("#", lambda event: seen.append(event.payload))
            await running.connect("c", will=Will("will", b"gone"))
            await running.broker.close()
            assert seen == []

    run(test())


def test_another_users_session_is_not_handed_over() -> None:
    async def test() -> None:
        async with node(Config(data="", users=USERS)) as running:
            first = await running.connect(
                "c", clean=False, session_expiry_s=100, username="ann", password=b"a"
            )
            await first.subscribe("secret", qos=1)
            other = await running.connect(
                "c", clean=False, session_expiry_s=100, username="bob", password=b"b"
            )
            assert not other.connack.session_present
            assert running.broker.status().subscriptions == 0

    run(test())


def test_a_client_that_is_read_slowly_is_not_taken_for_silent() -> None:
    async def test() -> None:
        async with node(Config(data="", bounds=Bounds(messages_per_s=20.0))) as running:
            client = await running.connect("c", keep_alive_s=1)
            client.raw(b"\x30\x04\x00\x01a\x00" * 60)  # two seconds' worth beyond the first
            await client.settled()
            await asyncio.sleep(1.9)  # it would be taken for silent after 1.5
            assert await client.silent()

    run(test())


def test_properties_that_only_a_server_sends_are_refused() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c")
            client.raw(b"\x30\x07\x00\x01a\x02\x0b\x01x")
            assert (await client.expect(Disconnect)).reason == Reason.PROTOCOL_ERROR

    run(test())


def test_groups_pass_over_members_that_are_behind() -> None:
    async def test() -> None:
        async with node() as running:
            slow = await running.connect("slow", receive_maximum=1)
            await slow.subscribe("$share/g/a", qos=1)
            quick = await running.connect("quick")
            await quick.subscribe("$share/g/a", qos=1)
            sender = await running.connect("s")
            for number in range(20):
                await sender.publish1("a", b"%d" % number)
            counts = {
                c.client_id: c.subscriptions for c in running.broker.status().clients if c.subscriptions
            }
            assert counts["slow"][0].account.accepted == 2  # one in flight, one that showed it is behind
            assert counts["quick"][0].account.accepted == 18
            assert running.account_holds()

    run(test())


def test_a_smaller_window_on_return_is_kept_to() -> None:
    async def test() -> None:
        async with node() as running:
            client = await running.connect("c", session_expiry_s=100)
            await client.subscribe("a", qos=1)
            sender = await running.connect("s")
            for number in range(7):
                await sender.publish1("a", b"%d" % number)
            assert len([await client.expect(Publish) for _ in range(7)]) == 7
            client.abort()
            client = await running.connect("c", clean=False, session_expiry_s=100, receive_maximum=2)
            got = []
            for _ in range(7):
                found = await client.expect(Publish)
                got.append(found.payload)
                client.send(Puback(found.packet_id))
            assert got == [b"%d" % number for number in range(7)]
            await sender.publish1("a", b"new")
            assert (await client.message()).payload == b"new"

    run(test())


def test_properties_count_for_the_bytes_of_a_queue() -> None:
    async def test() -> None:
        async with node(Config(data="", queues=Queues(bytes=100_000))) as running:
            client = await running.connect("c", session_expiry_s=100)
            await client.subscribe("a")
            client.abort()
            sender = await running.connect("s")
            while running.broker.status().clients[0].state == "attached":
                await asyncio.sleep(0.01)
            for _ in range(20):
                sender.publish0("a", b"", user=(("k", "v" * 10_000),))
            await sender.settled()
            waiting = running.broker.status().clients[0].subscriptions[0]
            assert waiting.bytes <= 100_000
            assert waiting.items < 12
            assert running.account_holds()

    run(test())


def test_lone_messages_pass_like_any_other() -> None:
    """What comes alone while little goes on takes a shorter way; nobody may tell."""

    async def test() -> None:
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

    run(test())


def test_lone_messages_of_a_client_with_an_access_list_reach_who_subscribed_since() -> None:
    async def test() -> None:
        guarded = Config(data="", acl=(Rule(topic="t"),))
        async with node(guarded) as running:
            sender, first = await running.connect("sender"), await running.connect("first")
            await first.subscribe("t")

            async def lone(payload: bytes, *receivers: Peer) -> None:
                running.broker.flushed_us = 0  # long ago: such a message waits for no others
                sender.publish0("t", payload)
                for receiver in receivers:
                    assert (await receiver.expect(Publish)).payload == payload

            await lone(b"1", first)
            await lone(b"2", first)
            second = await running.connect("second")
            await second.subscribe("t")
            await lone(b"3", first, second)
            closed = Config(data="", acl=(Rule(topic="other"),))
            running.broker.gate.reconfigure(closed)
            running.broker.reconfigure(closed)
            await lone(b"4")
            await sender.settled()
            assert running.broker.messages_received == 4
            assert running.broker.status().refused == {"publish not allowed": 1}

    run(test())
