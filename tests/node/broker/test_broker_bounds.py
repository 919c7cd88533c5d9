"""Refusals and bounds of the broker, over real sockets; disconnected clients are told why."""

from __future__ import annotations

import asyncio

import pytest

from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import Connect, Disconnect
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish, Pubrec
from penstock.node.config.schema import Bounds, Config, Queues, Rule
from tests.kit.peer import Peer, node


async def test_retained_messages_are_bounded() -> None:
    async with node(Config(data="", bounds=Bounds(retained=1))) as running:
        sender = await running.connect("s")
        assert (await sender.publish1("a", b"x", retain=True)).reason == 0x10
        assert (await sender.publish1("b", b"x", retain=True)).reason == Reason.QUOTA_EXCEEDED
        assert (await sender.publish1("a", b"y", retain=True)).reason == 0x10
        assert running.broker.status().retained == 1


async def test_packets_larger_than_a_client_takes_are_not_sent() -> None:
    async with node() as running:
        client = await running.connect("c", maximum_packet_size=64)
        await client.subscribe("a", qos=1)
        sender = await running.connect("s")
        await sender.publish1("a", b"x" * 100)
        await sender.publish1("a", b"small")
        assert (await client.message()).payload == b"small"
        account = running.broker.status().account
        assert (account.abandoned, account.counted, account.oversized) == (0, 1, 1)
        assert running.account_holds()


async def test_bounds_are_told_and_kept() -> None:
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


@pytest.mark.slow
async def test_silent_clients_are_let_go() -> None:
    async with node() as running:
        client = await running.connect("c", keep_alive_s=1)
        assert (await client.expect(Disconnect)).reason == Reason.KEEP_ALIVE_TIMEOUT
        assert await client.closed()


async def test_whoever_does_not_say_connect_is_let_go() -> None:
    async with node(Config(data="", bounds=Bounds(connect_s=1))) as running:
        mute, other = await running.dial(), await running.dial()
        other.raw(b"GET / HTTP/1.1\r\n\r\n")
        assert await mute.closed()
        assert await other.closed()
        assert running.broker.status().connections == 0


async def test_malformed_packets_end_their_connection_only() -> None:
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


async def test_an_access_list_is_asked() -> None:
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


async def test_topics_of_the_node_are_not_for_clients() -> None:
    async with node() as running:
        client = await running.connect("c")
        await client.subscribe("$SYS/#", "#")
        client.publish0("$SYS/x", b"forged")
        assert (await client.publish1("$SYS/x", b"forged")).reason == Reason.NOT_AUTHORIZED
        running.broker.publish("$SYS/x", b"true")
        found = await client.message()
        assert (found.topic, found.payload) == ("$SYS/x", b"true")
        assert await client.silent()


async def test_a_node_that_shuts_down_says_so() -> None:
    async with node() as running:
        client = await running.connect("c")
        await running.broker.close()
        assert (await client.expect(Disconnect)).reason == Reason.SERVER_SHUTTING_DOWN
        assert await client.closed()


async def test_the_operator_can_disconnect_a_client() -> None:
    async with node() as running:
        client = await running.connect("c")
        assert running.broker.disconnect("c", reason=Reason.ADMINISTRATIVE_ACTION)
        assert (await client.expect(Disconnect)).reason == Reason.ADMINISTRATIVE_ACTION
        assert not running.broker.disconnect("nobody", reason=0x98)


async def test_a_client_above_its_rate_is_read_more_slowly() -> None:
    async with node(Config(data="", bounds=Bounds(messages_per_s=100.0))) as running:
        client = await running.connect("c")
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for _ in range(3):
            client.raw(b"\x30\x04\x00\x01a\x00" * 100)
            await client.settled()
        assert loop.time() - begin > 0.9
        assert running.broker.status().messages_received == 300


async def test_a_client_that_takes_no_connack_is_let_go() -> None:
    async with node() as running:
        tiny = await running.dial()
        tiny.send(Connect(client_id="t", properties=Properties(maximum_packet_size=5)))
        assert await tiny.closed()
        while running.broker.status().sessions:
            await asyncio.sleep(0.01)


@pytest.mark.slow  # it waits for seconds
async def test_a_client_that_is_read_slowly_is_not_taken_for_silent() -> None:
    async with node(Config(data="", bounds=Bounds(messages_per_s=20.0))) as running:
        client = await running.connect("c", keep_alive_s=2)
        client.raw(b"\x30\x04\x00\x01a\x00" * 100)  # four seconds' worth beyond the first
        await client.settled()
        await asyncio.sleep(3.6)  # it would be taken for silent after 3
        assert await client.silent()


async def test_properties_that_only_a_server_sends_are_refused() -> None:
    async with node() as running:
        client = await running.connect("c")
        client.raw(b"\x30\x07\x00\x01a\x02\x0b\x01x")
        assert (await client.expect(Disconnect)).reason == Reason.PROTOCOL_ERROR


async def test_properties_count_for_the_bytes_of_a_queue() -> None:
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


async def test_lone_messages_of_a_client_with_an_access_list_reach_who_subscribed_since() -> None:
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
