"""Sessions and wills over real sockets: what goes on, what is sent again, what ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher

from penstock.mqtt.codes import V4, Reason
from penstock.mqtt.packets.connect import Disconnect, Will
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.node.config.schema import Config, User
from tests.kit.peer import node

if TYPE_CHECKING:
    from tests.kit.peer import Running

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
USERS = (User("ann", CHEAP.hash("a")), User("bob", CHEAP.hash("b")))


async def test_a_will_is_published_unless_the_client_says_goodbye() -> None:
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


@pytest.mark.slow  # it waits for seconds
async def test_a_will_waits_and_is_void_if_the_client_comes_back() -> None:
    async with node() as running:
        watcher = await running.connect("w")
        await watcher.subscribe("will")
        delayed = Will("will", b"late", properties=Properties(will_delay_s=3))
        client = await running.connect("c", clean=False, session_expiry_s=100, will=delayed)
        client.abort()
        await asyncio.sleep(0.05)
        client = await running.connect("c", clean=False, session_expiry_s=100, will=delayed)
        assert client.connack.session_present
        await asyncio.sleep(3.4)
        assert await watcher.silent()
        client.abort()
        found = await watcher.message()
        assert found.payload == b"late"
        assert found.properties.will_delay_s is None


async def test_a_session_goes_on_with_what_waited() -> None:
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


async def test_what_was_not_acknowledged_is_sent_again_in_order() -> None:
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


async def test_a_second_connection_takes_the_session_over() -> None:
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


async def test_sessions_end_when_they_expire() -> None:
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


async def test_subscribing_again_loses_nothing_that_waits() -> None:
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


async def running_publish(running: Running, payload: bytes) -> None:
    running.broker.publish("a", payload, qos=1)
    await asyncio.sleep(0)


@pytest.mark.parametrize(("clean", "delay_s", "sent"), [(False, 0, True), (False, 5, False), (True, 5, True)])
async def test_a_will_when_another_connection_takes_over(clean: bool, delay_s: int, sent: bool) -> None:
    async with node() as running:
        watcher = await running.connect("w")
        await watcher.subscribe("will")
        will = Will("will", b"gone", properties=Properties(will_delay_s=delay_s))
        await running.connect("c", clean=False, session_expiry_s=100, will=will)
        await running.connect("c", clean=clean, session_expiry_s=100)
        if sent:
            assert (await watcher.message()).payload == b"gone"
        assert await watcher.silent()


async def test_a_node_that_shuts_down_publishes_no_wills() -> None:
    async with node() as running:
        seen: list[bytes] = []
        running.broker.tap("#", lambda event: seen.append(event.payload))
        await running.connect("c", will=Will("will", b"gone"))
        await running.broker.close()
        assert seen == []


async def test_another_users_session_is_not_handed_over() -> None:
    async with node(Config(data="", users=USERS)) as running:
        first = await running.connect("c", clean=False, session_expiry_s=100, username="ann", password=b"a")
        await first.subscribe("secret", qos=1)
        other = await running.connect("c", clean=False, session_expiry_s=100, username="bob", password=b"b")
        assert not other.connack.session_present
        assert running.broker.status().subscriptions == 0


async def test_a_smaller_window_on_return_is_kept_to() -> None:
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
