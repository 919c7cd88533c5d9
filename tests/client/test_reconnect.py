"""When the way to the node is lost: sessions go on, messages wait, nothing is lost or doubled unaccounted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

import pytest

from penstock import Client
from penstock.client import reconnect
from penstock.errors import BufferFull, ConnectionLost, PublishRefused
from penstock.model import Digest, Event
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import Connack
from penstock.mqtt.packets.packet import encode
from penstock.node.access.gate import Gate
from penstock.node.config.schema import Config, User
from tests.kit.breakable_link import apart, attached, away, back, way
from tests.kit.passwords import cheap
from tests.kit.peer import node
from tests.kit.vitals import VITALS, accounted, events, pulse, url
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

    from tests.kit.peer import Running


def in_flight(running: Running) -> int:
    return next(each.in_flight for each in running.broker.status().clients if each.client_id == "far")


# -- receiving -----------------------------------------------------------------------------------------------


async def test_a_session_goes_on_where_it_was() -> None:
    async with apart() as (running, found, far, near):
        subscription = await far.subscribe("a", qos=1)
        await near.publish("a", "0", qos=1)
        for turn in range(3):
            await away(running, found, far)
            for number in range(5):
                await near.publish("a", f"{turn}{number}", qos=1)
            await back(found, far)
        got = await events(subscription, 16)
        expected = [b"0", *(b"%d%d" % (turn, number) for turn in range(3) for number in range(5))]
        assert [event.payload for event in got] == expected
        statistics = far.statistics()
        assert (statistics.connections, statistics.resumed) == (4, 3)
        assert statistics.received.conserved


async def test_what_was_not_taken_is_neither_lost_nor_handed_out_twice() -> None:
    async with apart() as (running, found, far, near):
        subscription = await far.subscribe("a", qos=2)
        for number in range(10):
            await near.publish("a", str(number), qos=1 + number % 2)
        await until(lambda: subscription.statistics().events == 10)
        first = await events(subscription, 3)
        assert far.statistics().unacknowledged == 7
        await until(lambda: in_flight(running) == 7)  # what the node did not hear would come again
        await away(running, found, far)
        first += await events(subscription, 3)  # taken while nobody can be told
        await back(found, far)
        await near.publish("a", "10", qos=1)
        rest = await events(subscription, 5)
        assert [event.payload for event in first + rest] == [b"%d" % number for number in range(11)]
        await until(lambda: far.statistics().unacknowledged == 0)
        await until(lambda: in_flight(running) == 0)
        assert subscription.take() is None


async def test_a_client_subscribes_again_where_the_node_has_forgotten_it() -> None:
    async with apart(session_expiry_s=0) as (running, found, far, near):
        subscription = await far.subscribe("a", policy=VITALS, qos=1)
        await near.publish("a", pulse(1), qos=1)
        await until(lambda: subscription.statistics().events == 1)
        found.cut()
        await until(lambda: far.statistics().connections == 2)
        await until(lambda: [each for each in running.broker.status().clients if each.subscriptions])
        await near.publish("a", pulse(2), qos=1)
        assert [event.payload for event in await events(subscription, 2)] == [pulse(1), pulse(2)]
        far_status = next(each for each in running.broker.status().clients if each.client_id == "far")
        assert far_status.subscriptions[0].policy == "vitals"
        assert far.statistics().resumed == 0


async def test_requests_made_while_away_are_answered_later() -> None:
    async with apart() as (running, found, far, near):
        old = await far.subscribe("old")
        await away(running, found, far)
        asking = asyncio.create_task(far.subscribe("new", qos=1))
        leaving = asyncio.create_task(old.close())
        await asyncio.sleep(0.05)
        assert not asking.done()
        await back(found, far)
        subscription = await asking
        await leaving
        await near.publish("new", "1", qos=1)
        await events(subscription, 1)
        assert (await near.publish("old", qos=1)).reason == Reason.NO_MATCHING_SUBSCRIBERS


async def test_a_session_is_taken_up_by_the_next_program() -> None:
    async with node() as running, Client(url(running)) as near:
        how: dict[str, Any] = {"client_id": "p", "session_expiry_s": 600}
        async with Client(url(running), **how) as client:
            await client.subscribe("a/+", qos=1)
            await client.subscribe("b", qos=1)
        for number in range(4):
            await near.publish("ab"[number % 2] + "/x" * (1 - number % 2), str(number), qos=1)
        async with Client(url(running), **how) as client:
            await until(lambda: client.statistics().unclaimed == 4)
            a = await client.subscribe("a/+", qos=1)
            b = await client.subscribe("b", qos=1)
            assert [event.payload for event in await events(a, 2)] == [b"0", b"2"]
            assert [event.payload for event in await events(b, 2)] == [b"1", b"3"]
            assert client.statistics().unclaimed == client.statistics().unacknowledged == 0


# -- sending -------------------------------------------------------------------------------------------------


async def test_messages_wait_for_the_connection_in_order() -> None:
    async with apart() as (running, found, far, near):
        subscription = await near.subscribe("a", qos=2)
        await away(running, found, far)
        answers = [asyncio.create_task(far.publish("a", str(number), qos=number % 3)) for number in range(30)]
        await until(lambda: far.statistics().sent.waiting == 30)
        await back(found, far)
        await asyncio.gather(*answers)
        got = await events(subscription, 30)
        assert [event.payload for event in got] == [b"%d" % number for number in range(30)]
        sent = far.statistics().sent
        assert sent.conserved
        assert (sent.sent, sent.acknowledged, sent.in_flight) == (30, 20, 0)


async def test_unacknowledged_messages_are_sent_again() -> None:
    async with apart() as (running, found, far, near):
        subscription = await near.subscribe("a", qos=2)
        found.flowing.clear()
        answers = [
            asyncio.create_task(far.publish("a", str(number), qos=1 + number % 2)) for number in range(20)
        ]
        await until(lambda: far.statistics().sent.in_flight == 20)
        await away(running, found, far)
        found.flowing.set()
        await back(found, far)
        await asyncio.gather(*answers)
        got = await events(subscription, 20)
        assert [event.payload for event in got] == [b"%d" % number for number in range(20)]
        assert far.statistics().sent.acknowledged == 20


async def test_without_a_policy_nothing_is_dropped() -> None:
    async with apart(send_events=10) as (running, found, far, near):
        subscription = await near.subscribe("a", qos=1)
        await away(running, found, far)
        for number in range(10):
            far.publish_nowait("a", str(number), qos=1)
        with pytest.raises(BufferFull, match="10 messages wait to be sent and there is no connection"):
            far.publish_nowait("a", "no")
        late = [asyncio.create_task(far.publish("a", str(number), qos=1)) for number in range(10, 14)]
        await asyncio.sleep(0.05)
        assert far.statistics().sent.published == 10
        await back(found, far)
        await asyncio.gather(*late)
        got = await events(subscription, 14)
        assert [event.payload for event in got] == [b"%d" % number for number in range(14)]


@pytest.mark.parametrize("qos", [0, 1])
async def test_with_a_policy_digests_are_sent_for_what_was_dropped(qos: int) -> None:
    async with apart(send_events=10, send_policy=VITALS) as (running, found, far, near):
        subscription = await near.subscribe("ward/+", qos=1)
        await away(running, found, far)
        answers = []
        for number in range(100):
            value = 150 if number == 50 else 60 + number % 30
            answers.append(asyncio.create_task(far.publish(f"ward/{number % 2}", pulse(value), qos=qos)))
            await asyncio.sleep(0)
        await back(found, far)
        items = await accounted(subscription, 100)
        assert any(isinstance(item, Event) and b"150" in item.payload for item in items)
        digests = [item for item in items if isinstance(item, Digest)]
        assert {each.topic for each in digests} == {"ward/*"}  # type: ignore[attr-defined]
        digested = [one for one in await asyncio.gather(*answers) if one.digested]
        sent = far.statistics().sent
        assert sent.conserved
        assert sent.digested == sum(each.count for each in digests)
        if qos:
            assert len(digested) == sent.digested
            await until(lambda: far.statistics().sent.in_flight == 0)


async def test_a_message_that_expires_while_it_waits_is_not_sent() -> None:
    async with apart() as (running, found, far, near):
        subscription = await near.subscribe("a")
        await away(running, found, far)
        short = asyncio.create_task(far.publish("a", "short", qos=1, expiry_s=0))
        long = asyncio.create_task(far.publish("a", "long", qos=1, expiry_s=100))
        await asyncio.sleep(0.05)
        await back(found, far)
        with pytest.raises(PublishRefused, match="expired before it could be sent"):
            await short
        await long
        (event,) = await events(subscription, 1)
        assert event.payload == b"long"
        sent = far.statistics().sent
        assert (sent.expired, sent.sent) == (1, 1)
        assert sent.conserved


async def test_a_client_that_closes_while_away_counts_what_it_gives_up() -> None:
    async with apart() as (running, found, far, _):
        await away(running, found, far)
        far.publish_nowait("a", "1")
        waiting = asyncio.create_task(far.publish("a", "2", qos=1))
        await asyncio.sleep(0)
        await far.close()
        with pytest.raises(ConnectionLost, match="this client is closed"):
            await waiting
        sent = far.statistics().sent
        assert (sent.published, sent.abandoned) == (2, 2)
        assert sent.conserved


# -- giving up -----------------------------------------------------------------------------------------------


async def test_a_client_whose_place_was_taken_does_not_fight_for_it() -> None:
    async with node() as running, Client(url(running), client_id="c") as first:
        subscription = await first.subscribe("a")
        await first.publish("a", "1")
        await until(lambda: subscription.statistics().events == 1)
        async with Client(url(running), client_id="c", clean_start=True):
            await until(lambda: not first.connected)
            await events(subscription, 1)  # what was there can still be taken
            with pytest.raises(ConnectionLost, match="session taken over") as error:
                await subscription.get()
            assert error.value.reason == Reason.SESSION_TAKEN_OVER
            with pytest.raises(ConnectionLost, match="session taken over"):
                await first.publish("a")
            assert attached(running) == ["c"]


async def test_a_password_that_is_not_right_any_more_ends_it() -> None:
    def users(password: str) -> Config:
        return Config(data="", users=(User("ann", cheap(password)),), anonymous="never")

    async with (
        node(users("right")) as running,
        way(running.port) as found,
        Client(found.url, user="ann", password="right") as client,  # noqa: S106
    ):
        subscription = await client.subscribe("a")
        running.broker.gate = Gate(users("other"))
        found.cut()
        with pytest.raises(ConnectionLost, match="bad user name or password"):
            await asyncio.wait_for(subscription.get(), 120)
        with pytest.raises(ConnectionLost, match="bad user name or password"):
            await client.subscribe("b")


async def test_a_client_that_does_not_reconnect_says_so_to_everyone() -> None:
    async with apart(reconnect=False) as (_, found, far, _near):
        subscription = await far.subscribe("a")
        found.flowing.clear()
        publishing = asyncio.create_task(far.publish("a", qos=1))
        asking = asyncio.create_task(far.subscribe("b"))
        await asyncio.sleep(0.05)
        found.cut()
        for waiting in (subscription.get(), publishing, asking):
            with pytest.raises(ConnectionLost, match="the connection broke"):
                await asyncio.wait_for(waiting, 120)


async def test_a_node_that_lets_it_in_but_not_for_long_is_asked_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = []

    def pauses(_: object, **__: float) -> Iterator[float]:
        begun.append(True)
        return repeat(0.01)

    monkeypatch.setattr(reconnect, "pauses_s", pauses)
    async with apart() as (_, found, far, _near):
        for connections in range(2, 6):
            found.cut()
            await until(lambda wanted=connections: far.statistics().connections == wanted)  # type: ignore[misc]
        assert len(begun) == 2  # one for each client: it is the same row of pauses that goes on
        monkeypatch.setattr(far._keeper, "_way", replace(far._keeper._way, pause_most_s=0.0))
        found.cut()
        await until(lambda: far.statistics().connections == 6)
        assert len(begun) == 3


async def test_nobody_waits_for_ever_because_of_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    async with apart() as (_, found, far, _near):
        subscription = await far.subscribe("a")
        monkeypatch.setattr(reconnect, "pauses_s", lambda _, **__: iter(["soon"]))  # no number
        monkeypatch.setattr(far._keeper, "_way", replace(far._keeper._way, pause_most_s=-1.0))
        found.cut()
        with pytest.raises(ConnectionLost, match="a bug in Penstock: "):
            await asyncio.wait_for(subscription.get(), 120)


# -- peers that misbehave ------------------------------------------------------------------------------------


@asynccontextmanager
async def peer(said: bytes, *, then: bytes = b"") -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that says something whatever it hears, then something else, and nothing more."""
    heard: list[bytes] = []
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        heard.append(await reader.read(1 << 14))
        writer.write(said)
        await asyncio.sleep(0.02)
        writer.write(then)
        while chunk := await reader.read(1 << 14):
            heard.append(chunk)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        await asyncio.sleep(0)


CONNACK = encode(Connack(), 5)


@pytest.mark.slow
async def test_a_silent_node_is_left_after_its_keep_alive() -> None:
    async with peer(CONNACK) as (address, heard):
        async with Client(address, keep_alive_s=1, reconnect=False) as client:
            with pytest.raises(ConnectionLost, match=r"no PINGRESP for 0\.75 s"):
                await asyncio.wait_for(client.subscribe("a"), 120)
        assert b"\xc0\x00" in b"".join(heard)


@pytest.mark.parametrize(
    ("bytes_", "problem"),
    [
        (b"\x36\x05\x00\x01aZZ", "QoS 3"),
        (b"\x20\x03\x00\x00\x00", "a second CONNACK"),
        (b"\x10\x00", "only a client sends this"),
        (b"\x30\xff\xff\xff\x7f", "at most 1048576"),
        (b"\x90\x04\x00\x09\x00\x00", "no request has the packet identifier 9"),
        (b"\xe0\x02\x8b\x00", "the node ended it: 0x8B server shutting down"),
    ],
)
async def test_a_node_that_breaks_the_rules_is_left(bytes_: bytes, problem: str) -> None:
    async with peer(CONNACK, then=bytes_) as (address, _), Client(address, reconnect=False) as client:
        with pytest.raises(ConnectionLost, match=problem):
            await asyncio.wait_for(client.subscribe("a"), 120)


@pytest.mark.slow
async def test_a_client_that_does_not_read_still_says_that_it_lives() -> None:
    flood = b"".join(b"\x30\x05\x00\x01a\x00" + b"%d" % (number % 10) for number in range(50))
    suback = b"\x90\x04\x00\x01\x00\x00"
    async with (
        peer(CONNACK, then=suback + flood) as (address, heard),
        Client(address, keep_alive_s=1, reconnect=False) as client,
    ):
        subscription = await client.subscribe("a", buffer_events=8)
        await until(lambda: not client.statistics().reading)
        await until(lambda: b"".join(heard).count(b"\xc0\x00") >= 2)
        assert client.connected
        assert len(await events(subscription, 50)) == 50
