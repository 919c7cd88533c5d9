"""Places of sessions in streams where it is narrow: at the join, on the way back, what is kept for them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.streams.wire import Record, encode_record
from penstock.model.event import stamp_of
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Suback, Subscribe
from penstock.mqtt.packets.subscribe import Subscription as Options
from penstock.node.streams.sessions.feeds import LogFeed
from penstock.node.streams.sessions.place import Cursor, open_cursors
from tests.kit.peer import run
from tests.kit.stream_nodes import streams_node
from tests.kit.stream_sessions import KEPT, numbers, publish
from tests.kit.waiting import until
from tests.node.streams.sessions.world import STREAM, Wants, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.stream_nodes import WithStreams


def held(running: WithStreams) -> int | None:
    """From where on the stream is kept for sessions."""
    return running.streams.driver.core.relay("orders")._holds.get("sessions")


def test_a_feed_may_be_ahead_of_live_messages() -> None:
    world = World(random.Random(1), remote=True, full=0.0)
    world.loop.run(2.0)
    client = world.client("one", Wants("orders/#", 1))
    client.disconnect()
    world.publish(20)
    world.loop.run(1.0)
    stream = world.node.subscriptions._streams[STREAM]
    assert stream._main is not None
    # The end that feeds all others falls back: it recovers, and asks for less at a time than the feed.
    stream._main.pause()
    client.connect()
    world.publish(20)
    world.loop.run(1.0)
    reader = stream.readers[client.session]  # type: ignore[index]
    assert reader.place.live
    assert stream.at < reader.place.position
    stream._main.resume(reader.place.position, now_us=world.loop.now_us)
    world.node.driver.changed(STREAM)
    world.loop.run(5.0)
    assert stream.at >= reader.place.behind_at
    world.publish(5)
    world.rest(10.0)
    world.check()
    assert client.repeated == 0


async def test_what_was_sent_before_is_sent_again_before_anything_else() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=1)
        await publish(running, *numbers(0, 4))
        assert [(await peer.expect(Publish)).payload for _ in range(4)] == numbers(0, 4)
        peer.abort()
        await until(lambda: running.streams.status().streams[0].readers.away == 1)
        await publish(running, b"4", qos=0)
        peer = await running.connect("s", receive_maximum=2, **KEPT)
        first = [await peer.expect(Publish) for _ in range(2)]
        assert await peer.silent()  # the window is full, and what follows does not overtake the rest
        await publish(running, b"5", qos=0)
        assert await peer.silent()
        for one in first:
            peer.send(Puback(one.packet_id))
        assert await peer.payloads(4) == numbers(2, 6)


async def test_a_packet_identifier_is_free_when_the_disk_has_forgotten_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=2)
        await publish(running, b"1", qos=2)
        number = (await peer.expect(Publish)).packet_id
        peer.send(Pubrec(number))
        await peer.expect(Pubrel)
        session = running.broker.sessions.get("s")
        assert session is not None
        durable: list[Callable[[], None]] = []
        monkeypatch.setattr(running.streams.state, "when_durable", durable.append)
        peer.send(Pubcomp(number))
        await until(lambda: durable)
        # A restart now would take the next message with this identifier for the one before.
        assert number in session.exchange.ids._used
        for callback in durable:
            callback()
        assert number not in session.exchange.ids._used


async def test_the_stream_is_kept_for_a_subscription_that_goes_back_at_once() -> None:
    async with streams_node() as running:
        away = await running.connect("away", **KEPT)
        await away.subscribe("orders/#", qos=1)
        away.abort()
        peer = await running.connect("s", receive_maximum=1, **KEPT)
        await peer.subscribe("orders/#", qos=1)
        await publish(running, *numbers(0, 10))
        assert await peer.payloads(10) == numbers(0, 10)
        subscriptions, session = running.streams.subscriptions, running.broker.sessions.get("s")
        assert subscriptions is not None
        assert session is not None
        stream = subscriptions._streams["orders"]
        reader = stream.readers[session]
        await until(lambda: reader.place.needs == stream.at)
        subscriptions.subscribed(session.held["orders/#"], 1)
        first = max(1, running.orders.begin)
        assert reader.place.needs == first < stream.at
        stream.hold()  # as it may be at any moment
        assert held(running) == first


def test_nothing_is_kept_for_subscriptions_that_ended_in_a_crash(tmp_path: Path) -> None:
    async def first() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", **KEPT)
            await peer.subscribe("orders/#", qos=1)
            await peer.unsubscribe("orders/#")
            await until(lambda: not running.streams.state.load("cursors"))
            session = running.broker.sessions.get("s")
            assert session is not None
            # As if the node had been killed before this was on disk.
            cursors = open_cursors(running.streams.state)
            cursors.put(("s", "orders"), Cursor(session.born_us, 5, {"orders/#": 5}))

    async def second() -> None:
        async with streams_node(data=tmp_path) as running:
            await until(lambda: not running.streams.state.load("cursors"))
            assert held(running) is None

    run(first())
    run(second())


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("topic", ["orders/a", "ordinary"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_what_a_client_takes_no_more_is_not_sent_again(
    qos: int, topic: str, restarted: bool, tmp_path: Path
) -> None:
    async def first(running: WithStreams) -> None:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("#", qos=qos)
        await publish(running, bytes(1_000), topic=topic, qos=qos)
        assert len((await peer.expect(Publish)).payload) == 1_000
        peer.abort()

    async def second(running: WithStreams) -> None:
        peer = await running.connect("s", maximum_packet_size=500, receive_maximum=1, **KEPT)
        assert peer.connack.session_present
        await publish(running, b"small", topic=topic, qos=qos)
        assert await peer.payloads(1) == [b"small"]
        session = running.broker.sessions.get("s")
        assert session is not None
        await until(lambda: not session.exchange.ids._used)
        assert running.streams.subscriptions is not None
        reader = running.streams.subscriptions._streams["orders"].readers[session]
        assert reader.place.acked == reader.place.position

    async with streams_node(data=tmp_path) as running:
        await first(running)
        if not restarted:
            await second(running)
    if restarted:
        async with streams_node(data=tmp_path) as running:
            await second(running)


async def test_a_topic_alias_is_not_used_before_the_client_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with streams_node() as running:
        peer = await running.connect("s", topic_alias_maximum=5, **KEPT)
        await peer.subscribe("orders/#", qos=2)
        durable: list[Callable[[], None]] = []
        monkeypatch.setattr(running.streams.state, "when_durable", durable.append)
        publisher = await running.connect("p")
        publisher.send(Publish("orders/a", b"1", qos=2, retain=True, packet_id=1))
        await publisher.expect(Pubrec)
        await until(lambda: durable)  # the message waits for the disk, a retained one does not
        peer.send(Subscribe(9, (Options("orders/a"),)))
        retained = await peer.expect(Publish)
        assert (retained.topic, retained.retain) == ("orders/a", True)
        for callback in durable[:]:
            callback()
        assert (await peer.answer(Suback)).packet_id == 9
        assert (await peer.expect(Publish)).topic == "orders/a"


def test_a_message_sent_with_less_than_qos_2_is_not_taken_for_completed_later(tmp_path: Path) -> None:
    async def first() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", **KEPT)
            await peer.subscribe("orders/#", qos=1)
            await publish(running, b"1", b"2", qos=2)
            assert [(await peer.expect(Publish)).qos for _ in range(2)] == [1, 1]
            await peer.subscribe("orders/#", qos=2)
            await publish(running, b"3", qos=2)
            assert await peer.payloads(1) == [b"3"]

    async def second() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", **KEPT)
            assert await peer.payloads(2) == [b"1", b"2"]
            await publish(running, b"4", qos=2)
            assert await peer.payloads(1) == [b"4"]

    run(first())
    run(second())


def test_a_subscription_gets_what_others_had_before_a_restart(tmp_path: Path) -> None:
    async def first() -> int:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", **KEPT)
            await peer.subscribe("orders/a", qos=2)
            await publish(running, *numbers(0, 4), qos=2)
            in_flight = [await peer.expect(Publish) for _ in range(4)]
            for one in in_flight[1:]:  # all but the first are completed
                peer.send(Pubrec(one.packet_id))
                await peer.expect(Pubrel)
                peer.send(Pubcomp(one.packet_id))
            await peer.settled()
            stamp = stamp_of(in_flight[2].properties.user)
            assert stamp is not None
            return stamp[1]

    async def second(start: int) -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", receive_maximum=1, **KEPT)
            await peer.subscribe("orders/#", qos=2, user=(("start", str(start)),))
            assert await peer.payloads(3) == [b"0", b"2", b"3"]
            await publish(running, b"4", qos=2)
            assert await peer.payloads(1) == [b"4"]

    run(second(run(first())))


async def test_helpings_out_of_a_log_are_as_large_as_the_messages_let_them_be() -> None:
    async def helpings(size: int, count: int) -> list[int]:
        async with streams_node() as running:
            hosted = running.orders
            body = encode_record(Record("orders/a", bytes(size), 0))
            first = hosted.publish_many([body] * count).start
            await until(lambda: hosted.end >= first + count)
            feed, at, found = LogFeed(hosted), first, []
            while at < hosted.end:
                batch = feed.take(at, hosted.end)
                assert batch is not None
                found.append(len(batch.messages))
                at = batch.until
            assert sum(found) == count
            return found

    assert max(await helpings(100_000, 40)) == 11
    assert max(await helpings(10, 1_000)) == limits.STREAM_READ


def test_silence_that_the_log_has_let_go_is_missed_by_nobody(tmp_path: Path) -> None:
    async def first() -> None:
        async with streams_node(data=tmp_path) as running:
            await publish(running, *numbers(0, 3))
            hosted = running.orders
            hosted.log.trim(hosted.end + 5)  # nobody reads it
            silent = await running.connect("silent", **KEPT)
            await silent.subscribe("orders/#", qos=1)
            early = await running.connect("early", **KEPT)
            await early.subscribe("orders/#", qos=1, user=(("start", "earliest"),))

    async def second() -> None:
        async with streams_node(data=tmp_path) as running:
            await publish(running, b"3")
            for name in ("silent", "early"):
                peer = await running.connect(name, **KEPT)
                assert await peer.payloads(1) == [b"3"]
            assert running.streams.status().streams[0].readers.missed == 0

    run(first())
    run(second())


def test_a_client_may_say_that_it_has_a_message_before_it_is_sent_again(tmp_path: Path) -> None:
    async def first() -> list[int]:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", **KEPT)
            await peer.subscribe("orders/#", qos=2)
            await publish(running, b"1", b"2", qos=2)
            return [(await peer.expect(Publish)).packet_id for _ in range(2)]

    async def second(one: int, other: int) -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("s", receive_maximum=1, **KEPT)
            assert (await peer.expect(Publish)).packet_id == one
            peer.send(Pubrec(other))
            assert await peer.expect(Pubrel) == Pubrel(other)
            peer.send(Pubcomp(other))
            peer.send(Pubrec(one))
            assert await peer.expect(Pubrel) == Pubrel(one)
            peer.send(Pubcomp(one))
            await publish(running, b"3", qos=2)
            assert await peer.payloads(1) == [b"3"]

    run(second(*run(first())))
