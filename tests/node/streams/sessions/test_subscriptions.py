"""Subscribing to a stream by MQTT: each message once and in order, whatever happens to session and node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.streams.handshake import Offered
from penstock.core.streams.messages import Data
from penstock.core.streams.ticks import tick_at
from penstock.core.streams.wire import Record, encode_record
from penstock.model.digest import Cause, Digest
from penstock.model.digest_wire import COMPACT_MARK, JSON_MARK, from_message, to_compact
from penstock.model.event import stamp_of
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.node.streams.sessions.place import FIRST
from penstock.node.streams.sessions.session_readers import SessionReaders
from tests.kit.peer import run
from tests.kit.stream_nodes import streams_node
from tests.kit.stream_sessions import KEPT, numbers, publish
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.peer import Peer
    from tests.kit.stream_nodes import WithStreams


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_live_messages_come_once_with_stream_and_tick(qos: int) -> None:
    async with streams_node() as running:
        peer = await running.connect("s")
        await peer.subscribe("orders/#", qos=qos)
        await publish(running, *numbers(0, 5), qos=2)
        found = [await peer.message() for _ in range(5)]
        assert [one.payload for one in found] == numbers(0, 5)
        assert {one.qos for one in found} == {qos}
        stamps = [stamp_of(one.properties.user) for one in found]
        assert all(stamp is not None and stamp[0] == "orders" for stamp in stamps)
        ticks = [stamp[1] for stamp in stamps if stamp is not None]
        assert ticks == sorted(set(ticks))
        await peer.settled()
        assert running.account_holds()


@pytest.mark.parametrize(("version", "form"), [(4, ""), (5, ""), (5, "json")])
@pytest.mark.parametrize("qos", [0, 2])
async def test_a_publishers_digest_comes_in_a_form_that_the_receiver_reads(
    version: int, form: str, qos: int
) -> None:
    digest = Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),))
    async with streams_node() as running:
        peer = await running.connect("s", version=version)
        await peer.subscribe("orders/#", qos=qos, user=(("digests", form),) if form else ())
        publisher = await running.connect("publisher")
        await publisher.publish1("orders/a", to_compact(digest), user=(COMPACT_MARK,))
        found = await peer.message()
        assert from_message(found.payload)[0] == digest
        assert found.payload.startswith(b"{") is (version == 4 or form == "json")
        if version == 5:
            assert (JSON_MARK if form else COMPACT_MARK) in found.properties.user
            assert stamp_of(found.properties.user) is not None


async def test_old_versions_get_the_same_without_properties() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", version=4)
        await peer.subscribe("orders/+", qos=1)
        await publish(running, b"1", b"2")
        assert await peer.payloads(2) == [b"1", b"2"]


async def test_overlapping_subscriptions_give_one_copy_with_all_identifiers() -> None:
    async with streams_node() as running:
        peer = await running.connect("s")
        await peer.subscribe("orders/#", qos=1, number=1)
        await peer.subscribe("orders/a", qos=0, number=2)
        keep = (("filter", "keep: {gt: 10, attribute: $size}"),)
        await peer.subscribe("#", qos=2, number=3, user=keep)
        await publish(running, b"1", b"a long message")
        first, second = await peer.message(), await peer.message()
        assert (first.qos, first.properties.subscription_ids) == (1, (1, 2))
        assert second.properties.subscription_ids == (3, 1, 2)
        await peer.settled()


async def test_a_content_filter_and_no_local_choose_messages() -> None:
    async with streams_node() as running:
        filtered = await running.connect("f")
        await filtered.subscribe("orders/#", qos=1, user=(("filter", "keep: {gt: 3, attribute: n}"),))
        own = await running.connect("own")
        await own.subscribe("orders/#", qos=1, no_local=True)
        for number in range(6):
            await own.publish1("orders/a", b'{"n": %d}' % number)
        await publish(running, b'{"n": 9}')
        assert await filtered.payloads(3) == [b'{"n": %d}' % number for number in (4, 5, 9)]
        assert await own.payloads(1) == [b'{"n": 9}']
        await own.settled()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_window_that_is_full_makes_a_reader_wait_and_catch_up(qos: int) -> None:
    async with streams_node() as running:
        peer = await running.connect("s", receive_maximum=3, **KEPT)
        await peer.subscribe("orders/#", qos=qos)
        await publish(running, *numbers(0, 150), qos=2 if qos == 2 else 1)
        assert running.streams.status().streams[0].readers.catching_up == 1
        assert await peer.payloads(150) == numbers(0, 150)
        await peer.settled()
        assert running.streams.status().streams[0].readers.live == 1
        assert running.account_holds()


async def test_a_window_without_end_has_one_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_FLIGHT", 4)
    async with streams_node() as running:
        peer = await running.connect("s", version=4)  # which cannot say how much it takes
        await peer.subscribe("orders/#", qos=1)
        await publish(running, *numbers(0, 10))
        first = [await peer.expect(Publish) for _ in range(4)]
        assert await peer.silent()
        for one in first:
            peer.send(Puback(one.packet_id))
        assert await peer.payloads(6) == numbers(4, 10)


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_session_that_was_away_gets_what_it_missed(qos: int) -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=qos)
        await publish(running, b"0", qos=2)
        assert await peer.payloads(1) == [b"0"]
        peer.abort()
        await until(lambda: running.streams.status().streams[0].readers.away == 1)
        await publish(running, *numbers(1, 60), qos=2)
        peer = await running.connect("s", **KEPT)
        assert peer.connack.session_present
        assert await peer.payloads(59) == numbers(1, 60)
        await publish(running, b"60", qos=2)
        assert await peer.payloads(1) == [b"60"]


async def test_what_was_in_flight_is_sent_again_with_its_identifier() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=2)
        await publish(running, b"1", b"2", qos=2)
        first, second = await peer.expect(Publish), await peer.expect(Publish)
        peer.send(Pubrec(first.packet_id))
        await peer.expect(Pubrel)
        peer.abort()
        peer = await running.connect("s", **KEPT)
        assert (await peer.expect(Pubrel)).packet_id == first.packet_id
        again = await peer.expect(Publish)
        assert (again.packet_id, again.payload, again.dup) == (second.packet_id, b"2", True)
        peer.send(Pubcomp(first.packet_id))
        peer.send(Pubrec(second.packet_id))
        assert (await peer.expect(Pubrel)).packet_id == second.packet_id
        peer.send(Pubcomp(second.packet_id))
        await peer.settled()


async def test_a_session_that_has_ended_keeps_no_readers() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=1)
        session = running.broker.sessions.get("s")
        assert session is not None
        assert len(session.sources) == 1
        await running.connect("s", clean=True)
        assert running.broker.sessions.get("s") is not session
        assert session.sources == []


async def test_a_late_write_of_a_session_that_has_ended_releases_nothing_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.node.streams.sessions.subscriptions.SAVE_POLLS", 1_000_000)
    async with streams_node() as running:
        held: list[Callable[[], None]] = []

        async def received(peer: Peer) -> int:
            """The client gets a QoS 2 message and says so; the disk is slow to learn it."""
            await peer.subscribe("orders/#", qos=2)
            await publish(running, b"1", qos=2)
            packet_id = (await peer.expect(Publish)).packet_id
            with monkeypatch.context() as patched:
                patched.setattr(running.streams.state, "when_durable", held.append)
                before = len(held)
                peer.send(Pubrec(packet_id))
                await until(lambda: len(held) > before)
            return packet_id

        first = await received(await running.connect("s", **KEPT))
        late = held.copy()
        peer = await running.connect("s", clean=True, session_expiry_s=1000)
        assert await received(peer) == first
        for callback in late:
            callback()
        assert await peer.silent()
        for callback in held[len(late) :]:
            callback()
        assert (await peer.expect(Pubrel)).packet_id == first


# -- where a subscription begins -----------------------------------------------------------------------------


async def test_a_subscription_begins_now_or_where_it_says() -> None:
    async with streams_node() as running:
        await publish(running, *numbers(0, 5))
        now = await running.connect("now")
        await now.subscribe("orders/#", qos=1)
        await now.settled()
        early = await running.connect("early")
        await early.subscribe("orders/#", qos=1, user=(("start", "earliest"),))
        found = [await early.message() for _ in range(5)]
        assert [one.payload for one in found] == numbers(0, 5)
        stamp = stamp_of(found[3].properties.user)
        assert stamp is not None
        middle = await running.connect("middle")
        await middle.subscribe("orders/#", qos=1, user=(("start", str(stamp[1])),))
        assert await middle.payloads(2) == [b"3", b"4"]
        await publish(running, b"5")
        for peer in (now, early, middle):
            assert await peer.payloads(1) == [b"5"]
            await peer.settled()


async def test_a_start_that_is_none_and_a_shared_subscription_are_refused_with_a_reason() -> None:
    async with streams_node() as running:
        peer = await running.connect("s")
        answer = await peer.subscribe("orders/#", qos=1, user=(("start", "yesterday"),))
        assert answer.reasons == (Reason.IMPLEMENTATION_SPECIFIC,)
        assert "earliest" in (answer.properties.reason_string or "")
        answer = await peer.subscribe("$share/g/orders/#", qos=1)
        assert answer.reasons == (Reason.IMPLEMENTATION_SPECIFIC,)
        assert "orders" in (answer.properties.reason_string or "")
        answer = await peer.subscribe("$share/g/other/#", qos=1)
        assert answer.reasons == (1,)


async def test_another_subscription_of_the_session_may_begin_earlier() -> None:
    async with streams_node() as running:
        await publish(running, *numbers(0, 3), topic="orders/a")
        await publish(running, *numbers(3, 5), topic="orders/b")
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/a", qos=1)
        await publish(running, b"5", topic="orders/a")
        waiting = await peer.expect(Publish)  # in flight: the other one has to wait for its answer
        await peer.subscribe("orders/+", qos=1, user=(("start", "earliest"),))
        assert await peer.silent()
        peer.send(Puback(waiting.packet_id))
        assert await peer.payloads(6) == numbers(0, 6)
        await publish(running, b"6", topic="orders/a")
        assert await peer.payloads(1) == [b"6"]
        await peer.settled()


async def test_a_retained_message_comes_once() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        await peer.publish1("orders/a", b"kept", retain=True)
        await peer.publish1("orders/b", b"too", retain=True)
        late = await running.connect("late")
        await late.subscribe("orders/#", qos=1)
        found = [await late.message(), await late.message()]
        assert sorted(one.payload for one in found) == [b"kept", b"too"]
        assert all(one.retain and not one.properties.user for one in found)
        await late.settled()
        early = await running.connect("early")
        await early.subscribe("orders/#", qos=1, user=(("start", "earliest"),))
        assert await early.payloads(2) == [b"kept", b"too"]
        await early.settled()


async def test_a_publisher_cannot_pretend_to_be_a_stream() -> None:
    async with streams_node() as running:
        peer = await running.connect("s")
        await peer.subscribe("other/#", "orders/#", qos=1)
        forged = (("stream", "orders"), ("tick", "99"))
        publisher = await running.connect("p")
        await publisher.publish1("other/a", b"x", user=(("a", "b"), *forged))
        assert (await peer.message()).properties.user == (("a", "b"),)
        await publisher.publish1("orders/a", b"y", user=forged)
        found = (await peer.message()).properties.user
        assert len(found) == 2
        assert found[1] != ("tick", "99")


async def test_a_stream_that_comes_to_be_known_is_read_by_those_who_subscribed_before() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("+/late", qos=1)
        streams, session = running.streams, running.broker.sessions.get("s")
        assert session is not None
        (source,) = session.sources
        assert isinstance(source, SessionReaders)
        assert list(source.readers) == ["orders"]
        streams.driver.core.follow("other", "there")
        streams.directory.learn([Offered("other", ("far/#",), "there")], "there")
        assert list(source.readers) == ["orders", "other"]
        place = source.readers["other"].place
        assert (place.live, place.position, place.needs) == (True, FIRST, FIRST)
        tick = tick_at(running.broker.clock())
        for number, topic in enumerate(("far/early", "far/late", "far/late")):
            body = encode_record(Record(topic, b"%d" % number))
            since = tick + number if number else tick - 100
            streams.driver.receive(Data("other", since, tick + number, body), peer="there")
        assert await peer.payloads(2) == [b"1", b"2"]
        assert place.position == tick + 3
        streams.directory.learn([Offered("other", ("far/#", "near/#"), "there")], "there")
        await peer.subscribe("near/#", qos=1)
        assert list(place.starts) == ["+/late", "near/#"]


# -- restarts ------------------------------------------------------------------------------------------------


def test_a_node_that_restarts_goes_on_where_sessions_were(tmp_path: Path) -> None:
    async def first() -> tuple[Publish, Publish]:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("two", **KEPT)
            await peer.subscribe("orders/#", qos=2)
            one = await running.connect("one", **KEPT)
            await one.subscribe("orders/#", qos=1)
            await publish(running, *numbers(0, 4), qos=2)
            assert await one.payloads(2) == numbers(0, 2)
            assert await peer.payloads(1) == numbers(0, 1)
            found = await peer.expect(Publish), await peer.expect(Publish)
            peer.send(Pubrec(found[0].packet_id))
            await peer.answer(Pubrel)
            return found

    async def second(found: tuple[Publish, Publish]) -> None:
        async with streams_node(data=tmp_path) as running:
            await publish(running, b"4", qos=2)
            peer = await running.connect("two", **KEPT)
            assert peer.connack.session_present
            assert (await peer.expect(Pubrel)).packet_id == found[0].packet_id
            peer.send(Pubcomp(found[0].packet_id))
            again = await peer.expect(Publish)
            assert (again.packet_id, again.payload, again.dup) == (found[1].packet_id, b"2", True)
            peer.send(Pubrec(again.packet_id))
            fourth = await peer.expect(Publish)
            assert (fourth.payload, fourth.dup) == (b"3", True)
            fifth = await peer.expect(Publish)
            assert (fifth.payload, fifth.dup) == (b"4", False)
            one = await running.connect("one", **KEPT)
            assert await one.payloads(3) == numbers(2, 5)

    run(second(run(first())))


@pytest.mark.slow
async def test_a_stream_is_kept_for_a_session_that_is_away_and_not_longer(tmp_path: Path) -> None:
    def held(running: WithStreams) -> int:
        return running.streams.driver.core.relay("orders")._holds.get("sessions", 1 << 60)

    async with streams_node(data=tmp_path) as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=1)
        peer.abort()
        await until(lambda: running.streams.status().streams[0].readers.away == 1)
        await publish(running, *numbers(0, 10))
    async with streams_node(data=tmp_path) as running:
        first = (await running.orders.log.fetch(0, running.orders.end, 1))[0][0]
        assert held(running) <= first
        peer = await running.connect("s", **KEPT)
        assert await peer.payloads(10) == numbers(0, 10)
        await until(lambda: held(running) == running.streams.subscriptions._streams["orders"].at)  # type: ignore[union-attr]
        await peer.unsubscribe("orders/#")
        await until(lambda: held(running) == 1 << 60)


async def test_a_subscription_that_goes_back_survives_a_restart(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as running:
        await publish(running, *numbers(0, 3), topic="orders/b")
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/a", qos=1)
        await publish(running, b"3", topic="orders/a")
        assert (await peer.expect(Publish)).payload == b"3"  # and it is not acknowledged
        await peer.subscribe("orders/+", qos=1, user=(("start", "earliest"),))
        await peer.settled()
    async with streams_node(data=tmp_path) as running:
        peer = await running.connect("s", **KEPT)
        assert await peer.payloads(4) == numbers(0, 4)
        await publish(running, b"4", topic="orders/a")
        assert await peer.payloads(1) == [b"4"]
        await peer.settled()


async def test_a_subscription_that_goes_back_may_be_asked_for_again() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", receive_maximum=1, **KEPT)
        await peer.subscribe("orders/#", qos=2)
        await publish(running, *numbers(0, 4), qos=2)
        first = await peer.expect(Publish)
        tick = stamp_of(first.properties.user)
        assert tick is not None
        # It goes back as soon as nothing is in flight; the client, started anew, does not know that.
        await peer.subscribe("orders/#", qos=2, user=(("start", str(tick[1])),))
        await peer.subscribe("orders/#", qos=2)
        peer.send(Pubrec(first.packet_id))
        await peer.expect(Pubrel)
        peer.send(Pubcomp(first.packet_id))
        found: list[bytes] = []
        while len(found) < 4:
            message = await peer.expect(Publish)
            found.append(message.payload)
            peer.send(Pubrec(message.packet_id))
            await peer.expect(Pubrel)
            peer.send(Pubcomp(message.packet_id))
        assert found == numbers(0, 4)


async def test_what_the_log_has_let_go_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with streams_node() as running:
        peer = await running.connect("s", **KEPT)
        await peer.subscribe("orders/#", qos=1)
        peer.abort()
        await until(lambda: running.streams.status().streams[0].readers.away == 1)
        await publish(running, *numbers(0, 10))
        hosted = running.orders
        ticks = [tick for tick, _ in await hosted.log.fetch(0, hosted.end, 100)]
        hosted.log.trim(ticks[6])
        peer = await running.connect("s", **KEPT)
        assert await peer.payloads(4) == numbers(6, 10)
        assert running.streams.status().streams[0].readers.missed == 1
        assert "client 's' misses" in caplog.text


async def test_a_session_that_ends_leaves_nothing_behind() -> None:
    async with streams_node() as running:
        peer = await running.connect("s", session_expiry_s=1000, clean=False)
        await peer.subscribe("orders/#", qos=2)
        await until(lambda: running.streams.state.load("cursors"))
        again = await running.connect("s", clean=True)
        assert not again.connack.session_present
        await until(lambda: not running.streams.state.load("cursors"))
        figures = running.streams.status().streams[0].readers
        assert (figures.live, figures.away) == (0, 0)
