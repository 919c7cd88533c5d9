"""Publishing into a stream by MQTT: logged once, acknowledged when durable, refused with a reason."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.core.streams.handshake import Offered
from penstock.mqtt.codes import V4, Reason
from penstock.mqtt.packets.connect import Will
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.node.config.schema import RecorderSettings, Rule
from penstock.node.observe.recorder import Recorder
from penstock.node.streams.log.records import message_from
from tests.kit.peer import run
from tests.kit.stream_nodes import ORDERS, streams_node
from tests.kit.stream_sessions import KEPT, hold_commits
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from penstock.model.event import Event
    from penstock.mqtt.packets.packet import Packet
    from tests.kit.peer import Peer


@pytest.mark.parametrize("version", [4, 5])
async def test_every_qos_is_logged_once_and_in_order(version: int) -> None:
    async with streams_node() as running:
        peer = await running.connect("p", version=version)
        peer.publish0("orders/a", b"0")
        assert (await peer.publish1("orders/a", b"1")).reason == Reason.SUCCESS
        await peer.publish2("orders/b", b"2")
        peer.publish0("other", b"-")
        await peer.settled()
        records = await running.records()
        assert [(one.topic, one.payload, one.qos, one.sender) for one in records] == [
            ("orders/a", b"0", 0, "p"),
            ("orders/a", b"1", 1, "p"),
            ("orders/b", b"2", 2, "p"),
        ]
        assert [one.seq for one in records] == [1, 2, 3]
        assert running.orders.pubend.published == 3
        status = running.broker.status()
        assert status.messages_received == 4
        assert status.unrouted == 1


async def test_a_window_of_messages_is_answered_in_order(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as running:
        peer = await running.connect("p")
        frames = [
            encode(Publish("orders/a", b"%d" % n, qos=1, packet_id=n), peer.version) for n in range(1, 901)
        ]
        peer.raw(b"".join(frames))
        answered = [(await peer.expect(Puback)).packet_id for _ in range(900)]
        assert answered == list(range(1, 901))
        assert await running.payloads() == [b"%d" % n for n in range(1, 901)]
        assert running.broker.sessions.get("p").exchange.incoming.in_flight == 0  # type: ignore[union-attr]
        assert not running.broker.sessions.get("p").unanswered  # type: ignore[union-attr]


async def test_properties_and_expiry_are_kept() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        said: dict[str, Any] = {
            "user": (("a", "b"), ("a", "c")),
            "content_type": "text/plain",
            "correlation_data": b"\0x",
            "message_expiry_s": 60,
        }
        await peer.publish1("orders/a", b"x", **said)
        (record,) = await running.records()
        event = message_from(record)
        assert event.mqtt == Properties(**said)
        assert event.expires_us == record.ts_us + 60_000_000


async def test_nothing_is_answered_before_it_is_durable() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        await peer.publish1("orders/a", b"0")
        go_on = hold_commits(running)
        for n in (1, 2, 3):
            peer.send(Publish("orders/a", b"%d" % n, qos=1, packet_id=10 + n))
        peer.send(Publish("orders/a", b"4", qos=2, packet_id=20))
        await peer.settled()
        assert running.broker.sessions.get("p").exchange.incoming.in_flight == 4  # type: ignore[union-attr]
        go_on()
        assert [(await peer.expect(Puback)).packet_id for _ in range(3)] == [11, 12, 13]
        assert (await peer.expect(Pubrec)).packet_id == 20


async def test_acknowledgements_are_held_back_to_the_rate() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        control: Any = running.orders.pubend.control
        control._rate = 100.0
        for n in range(1, 31):
            peer.send(Publish("orders/a", b"", qos=1, packet_id=n))
        await peer.expect(Puback)
        assert running.orders.pubend.held > 5
        answered = [(await peer.expect(Puback)).packet_id for _ in range(29)]
        assert answered == list(range(2, 31))


async def test_a_client_that_leaves_meanwhile_breaks_nothing() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        go_on = hold_commits(running)
        peer.send(Publish("orders/a", b"1", qos=1, packet_id=1))
        peer.send(Publish("orders/a", b"2", qos=2, packet_id=2))
        await peer.settled()
        peer.abort()
        await until(lambda: running.broker.sessions.get("p") is None)
        go_on()
        await until(lambda: running.orders.pubend.published == 2)
        assert await running.payloads() == [b"1", b"2"]
        assert running.orders.marks.clients() == {}


async def test_a_client_that_comes_back_meanwhile_is_answered_and_nothing_is_logged_twice() -> None:
    async with streams_node() as running:
        peer = await running.connect("p", **KEPT)
        go_on = hold_commits(running)
        first = Publish("orders/a", b"1", qos=1, packet_id=1)
        second = Publish("orders/a", b"2", qos=2, packet_id=2)
        lost = Publish("orders/a", b"3", qos=2, packet_id=3)
        for each in (first, second, lost):
            peer.send(each)
        await peer.settled()
        peer.abort()
        session = running.broker.sessions.get("p")
        assert session is not None
        await until(lambda: session.link is None)
        again = await running.connect("p", **KEPT)
        assert again.connack.session_present
        for each in (first, second):
            again.send(Publish(each.topic, each.payload, qos=each.qos, packet_id=each.packet_id, dup=True))
        await again.settled()
        go_on()
        assert (await again.expect(Puback)).packet_id == 1
        assert (await again.expect(Pubrec)).packet_id == 2
        again.send(Publish(lost.topic, lost.payload, qos=2, packet_id=3, dup=True))
        assert (await again.expect(Pubrec)).packet_id == 3
        for number in (2, 3):
            again.send(Pubrel(number))
            assert await again.expect(Pubcomp) == Pubcomp(number)
        assert await running.payloads() == [b"1", b"2", b"3"]
        assert running.orders.marks.clients() == {}


async def test_answers_are_given_in_the_order_of_messages() -> None:
    streams = {"host": [*ORDERS["host"], {"name": "bids", "topics": ["bids"]}]}
    async with streams_node(streams) as running:
        peer = await running.connect("p")
        go_on = hold_commits(running)
        for number, topic in enumerate(("orders/a", "other", "bids", "orders/b", "other"), start=1):
            peer.send(Publish(topic, b"", qos=1, packet_id=number))
        peer.send(Publish("other", b"", qos=2, packet_id=6))
        await until(lambda: running.streams.hosted["bids"].pubend.published == 1)
        assert await peer.silent()
        go_on()
        assert [(await peer.expect(Puback)).packet_id for _ in range(5)] == [1, 2, 3, 4, 5]
        assert (await peer.expect(Pubrec)).packet_id == 6


@pytest.mark.parametrize("topic", ["orders/a", "other"])
async def test_a_number_is_free_on_disk_before_the_client_may_use_it_again(
    tmp_path: Path, topic: str
) -> None:
    async with streams_node(data=tmp_path) as running:
        peer = await running.connect("p", **KEPT)
        peer.send(Publish(topic, b"", qos=2, packet_id=1, retain=True))
        await peer.expect(Pubrec)
        journal = running.broker.journal
        assert journal is not None
        state: Any = running.streams.state
        held: Any = journal._rows if topic == "other" else state._commits
        name = "_table" if topic == "other" else "_backlog"
        real = getattr(held, name)
        stuck = threading.Event()

        class Slow:
            def write(self, work: Any) -> None:
                stuck.wait(20)
                real.write(work)

            def __getattr__(self, attribute: str) -> Any:
                return getattr(real, attribute)

        setattr(held, name, Slow())
        peer.send(Pubrel(1))
        assert await peer.silent()
        stuck.set()
        assert await peer.expect(Pubcomp) == Pubcomp(1)


@pytest.mark.parametrize("topic", ["orders/a", "other"])
async def test_a_client_that_releases_before_it_is_answered_harms_nobody(tmp_path: Path, topic: str) -> None:
    async with streams_node(data=tmp_path) as running:
        hasty = await running.connect("hasty", **KEPT)
        other = await running.connect("other", **KEPT)
        frames: list[Packet] = [Publish(topic, b"h", qos=2, packet_id=5, retain=True), Pubrel(5)]
        hasty.raw(b"".join(encode(one, hasty.version) for one in frames))
        await other.publish2(topic, b"o")
        assert (await hasty.answer(Pubcomp)).packet_id == 5
        await hasty.publish2(topic, b"h")


@pytest.mark.parametrize("version", [4, 5])
def test_qos_2_is_known_again_after_a_restart(tmp_path: Path, version: int) -> None:
    how: dict[str, Any] = {"clean": False, "version": version}
    if version == 5:
        how["session_expiry_s"] = 1000

    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p", **how)
            for number in (1, 2, 3):
                peer.send(Publish("orders/a", b"%d" % number, qos=2, packet_id=number))
                assert (await peer.expect(Pubrec)).packet_id == number
            peer.send(Pubrel(1))
            assert await peer.expect(Pubcomp) == Pubcomp(1)
            peer.abort()

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p", **how)
            assert peer.connack.session_present
            peer.send(Publish("orders/a", b"2", qos=2, packet_id=2, dup=True))
            assert (await peer.expect(Pubrec)).packet_id == 2
            for number in (2, 3):
                peer.send(Pubrel(number))
                assert await peer.expect(Pubcomp) == Pubcomp(number)
            peer.send(Publish("orders/a", b"another", qos=2, packet_id=1))  # its number was free
            assert (await peer.expect(Pubrec)).packet_id == 1
            assert await running.payloads() == [b"1", b"2", b"3", b"another"]

    run(before())
    run(after())


def test_a_number_that_was_released_is_free_after_a_crash(tmp_path: Path) -> None:
    """The log still holds the message, and the client has got its PUBCOMP."""

    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p", **KEPT)
            await peer.publish2("orders/a", b"1")
            running.streams.driver.close()
            for hosted in running.streams.hosted.values():  # as after kill -9: no further checkpoint
                hosted.marks.committed = lambda until: None  # type: ignore[method-assign]  # noqa: ARG005

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p", **KEPT)
            assert peer.connack.session_present
            await peer.publish2("orders/a", b"2")
            assert await running.payloads() == [b"1", b"2"]

    run(before())
    run(after())


def test_another_session_of_the_same_client_has_its_own_numbers(tmp_path: Path) -> None:
    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p", **KEPT)
            peer.send(Publish("orders/a", b"1", qos=2, packet_id=1))
            await peer.expect(Pubrec)
            fresh = await running.connect("p", clean=True, session_expiry_s=1000)
            fresh.send(Publish("orders/a", b"2", qos=2, packet_id=1))
            await fresh.expect(Pubrec)

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p", clean=True)
            peer.send(Publish("orders/a", b"3", qos=2, packet_id=1))
            await peer.expect(Pubrec)
            assert await running.payloads() == [b"1", b"2", b"3"]
            assert [len(numbers) for numbers in running.orders.marks.clients().values()] == [1]

    run(before())
    run(after())


# -- refusals ------------------------------------------------------------------------------------------------

FULL = {"host": [{"name": "orders", "topics": ["orders/#"], "bytes": 100}]}


async def test_a_full_log_is_told() -> None:
    async with streams_node(FULL) as running:
        peer = await running.connect("p")
        assert (await peer.publish1("orders/a", bytes(200))).reason == Reason.SUCCESS
        refused = await peer.publish1("orders/a", b"more")
        assert refused.reason == Reason.QUOTA_EXCEEDED
        assert "the log of stream 'orders' is full" in (refused.properties.reason_string or "")
        peer.send(Publish("orders/a", b"more", qos=2, packet_id=77))
        pubrec = await peer.expect(Pubrec)
        assert pubrec.reason == Reason.QUOTA_EXCEEDED
        peer.publish0("orders/a", b"more")
        await peer.settled()
        assert len(await running.records()) == 1
        assert running.broker.status().refused["stream stopped"] == 3
        assert running.orders.refused == 3
        assert running.orders.marks.clients() == {}


async def test_an_mqtt_3_client_whose_message_is_refused_is_not_told_that_it_is_safe() -> None:
    async with streams_node(FULL) as running:
        peer = await running.connect("p", version=V4)
        await peer.publish1("orders/a", bytes(200))
        peer.send(Publish("orders/a", b"more", qos=1, packet_id=9))
        assert await peer.next() is None


async def test_too_many_held_acknowledgements_are_refused() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        options: Any = running.orders.pubend
        options._options = options._options.__class__(held_most=2)
        go_on = hold_commits(running)
        for number in (1, 2, 3):
            peer.send(Publish("orders/a", b"", qos=1, packet_id=number))
        refused = [await peer.expect(Puback)]
        while refused[-1].packet_id != 3:
            refused.append(await peer.expect(Puback))
        assert all(one.reason == Reason.QUOTA_EXCEEDED for one in refused)
        assert "holds back 2 acknowledgements" in (refused[0].properties.reason_string or "")
        go_on()


async def test_a_message_too_large_for_a_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.limits.STREAM_BODY_BYTES", 500)
    async with streams_node() as running:
        peer = await running.connect("p")
        refused = await peer.publish1("orders/a", bytes(600))
        assert refused.reason == Reason.QUOTA_EXCEEDED
        assert "too large for stream 'orders'" in (refused.properties.reason_string or "")


async def test_what_is_published_elsewhere_is_refused_here() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        core = running.streams.driver.core
        for name, topics in (("far", ("far/#",)), ("both", ("orders/#",))):
            core.follow(name, "beyond")
            running.streams.directory.learn([Offered(name, topics, "beyond")], "beyond")
        refused = await peer.publish1("far/a", b"x")
        assert refused.reason == Reason.IMPLEMENTATION_SPECIFIC
        assert "published only at node 'beyond'" in (refused.properties.reason_string or "")
        peer.publish0("far/a", b"x")
        await peer.settled()
        assert running.broker.status().refused["stream hosted elsewhere"] == 2
        assert (await peer.publish1("orders/a", b"1")).reason == Reason.SUCCESS
        assert await running.payloads() == [b"1"]


# -- what else is published ----------------------------------------------------------------------------------


async def test_wills_and_messages_of_the_node_are_logged() -> None:
    async with streams_node() as running:
        will = Will(topic="orders/will", payload=b"gone", qos=1, retain=True)
        peer = await running.connect("p", will=will)
        running.broker.publish("orders/node", b"n", qos=1)
        peer.abort()
        await until(lambda: running.orders.pubend.published == 2)
        found = [(one.topic, one.payload, one.sender) for one in await running.records()]
        assert found == [("orders/node", b"n", "$node"), ("orders/will", b"gone", "p")]
        retained = running.broker.retained.get("orders/will", now_us=0)
        assert retained is not None
        assert retained.payload == b"gone"


def test_retained_messages_are_kept_once_durable(tmp_path: Path) -> None:
    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p")
            go_on = hold_commits(running)
            peer.send(Publish("orders/a", b"r", qos=1, retain=True, packet_id=1))
            await peer.settled()
            assert running.broker.retained.get("orders/a", now_us=0) is None
            go_on()
            await peer.expect(Puback)
            assert running.broker.retained.get("orders/a", now_us=0) is not None

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p")
            kept = running.broker.retained.get("orders/a", now_us=0)
            assert kept is not None
            assert kept.payload == b"r"
            await peer.publish1("orders/a", b"", retain=True)
            assert running.broker.retained.get("orders/a", now_us=0) is None

    run(before())
    run(after())


def test_a_retained_message_that_only_the_log_has_is_there_after_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p")
            await peer.publish1("orders/a", b"old", retain=True)
            await peer.publish1("orders/gone", b"old", retain=True)
            journal = running.broker.journal
            assert journal is not None
            journal.retained = lambda event: None  # type: ignore[method-assign]  # noqa: ARG005  # killed before
            await peer.publish1("orders/a", b"new", retain=True)
            await peer.publish1("orders/gone", b"", retain=True)

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            kept = running.broker.retained.get("orders/a", now_us=0)
            assert kept is not None
            assert kept.payload == b"new"
            assert running.broker.retained.get("orders/gone", now_us=0) is None

    run(before())
    run(after())


async def test_who_publishes_without_waiting_is_slowed_to_the_pace_of_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.limits.STREAM_UNLOGGED", 100)
    async with streams_node() as running:
        peer = await running.connect("p", version=V4)
        go_on = hold_commits(running)
        for n in range(300):
            peer.send(Publish("orders/a", b"%d" % n))
        await until(lambda: running.orders.pubend.statistics().waiting > 100)
        session = running.broker.sessions.get("p")
        assert session is not None
        link: Any = session.link
        assert not link.reading
        go_on()
        await peer.settled()
        await until(lambda: link.reading)  # what came with the last bytes may have stopped it once more
        await until(lambda: running.orders.pubend.published == 300)
        assert await running.payloads() == [b"%d" % n for n in range(300)]


async def test_whoever_looks_on_sees_each_message_once_and_durable() -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        peer.publish0("orders/before", b"")
        await peer.settled()
        seen: list[Event] = []
        tap = running.broker.tap("#", seen.append)
        go_on = hold_commits(running)
        peer.send(Publish("orders/a", b"1", qos=1, packet_id=1))
        peer.publish0("orders/a", b"2")
        peer.publish0("other", b"3")
        await peer.settled()
        assert [one.payload for one in seen] == [b"3"]
        go_on()
        await until(lambda: len(seen) == 3)
        assert [one.payload for one in seen] == [b"3", b"1", b"2"]
        tap.close()
        await peer.publish1("orders/a", b"4")
        assert len(seen) == 3


async def test_a_stream_that_nobody_reads_is_kept_for_its_time_and_no_longer(tmp_path: Path) -> None:
    short = {"host": [{"name": "orders", "topics": ["orders/#"], "retain_s": 60}]}
    async with streams_node(short, data=tmp_path) as running:
        peer = await running.connect("p")
        await peer.publish1("orders/a", b"1")
        orders = running.orders
        now_us = running.broker.clock()

        def pass_time() -> None:
            nonlocal now_us
            now_us += 2_000_000
            orders.pubend.on_timer(now_us=now_us)
            running.streams.driver.changed("orders")

        for _ in range(20):
            pass_time()
            await asyncio.sleep(0.005)
        assert await running.payloads() == [b"1"]
        async with asyncio.timeout(120):
            while orders.log.figures().messages:
                pass_time()
                await asyncio.sleep(0.005)
        assert orders.begin <= orders.marks.checkpoint_tick


async def test_a_recorder_writes_messages_of_streams(tmp_path: Path) -> None:
    settings = RecorderSettings(topics=("orders/#",), folder=str(tmp_path / "recorded"))
    async with streams_node(data=tmp_path, recorder=settings) as running:
        peer: Peer = await running.connect("p")
        await peer.publish1("orders/a", b"1")
        recorder = running.observed.recorder
        assert isinstance(recorder, Recorder)
        await until(lambda: recorder.status().seen == 1)


async def test_a_log_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with streams_node() as running:
        peer = await running.connect("p")
        await peer.publish1("orders/a", b"1")
        with monkeypatch.context() as patched:
            patched.setattr(type(running.orders.log), "fault", "database or disk is full")
            refused = await peer.publish1("orders/a", b"2")
        assert refused.reason == Reason.QUOTA_EXCEEDED
        assert "database or disk is full" in (refused.properties.reason_string or "")
        assert (await peer.publish1("orders/a", b"3")).reason == Reason.SUCCESS
        assert await running.payloads() == [b"1", b"3"]


async def test_one_who_may_not_publish_on_a_topic_of_a_stream_is_refused() -> None:
    acl = (Rule(user="*", action="subscribe", topic="#"),)
    async with streams_node(acl=acl) as running:
        peer = await running.connect("p")
        assert (await peer.publish1("orders/a", b"1")).reason == Reason.NOT_AUTHORIZED
        peer.publish0("orders/a", b"2")
        await peer.settled()
        assert await running.payloads() == []


async def test_another_node_shows_and_retains_messages_once_too() -> None:
    shop = ORDERS | {
        "node": "shop",
        "listen": {"enabled": True, "port": 0},
        "neighbours": [{"name": "office"}],
    }
    async with streams_node(shop) as host:
        assert host.streams.listener is not None
        there = {"name": "shop", "host": "127.0.0.1", "port": host.streams.listener.port}
        async with streams_node({"node": "office", "neighbours": [there]}) as office:
            await until(lambda: "orders" in office.streams.directory.known)
            seen: list[bytes] = []
            office.broker.tap("orders/#", lambda event: seen.append(event.payload))
            peer = await host.connect("p")
            for number in range(5):
                await peer.publish1("orders/a", b"%d" % number, retain=number % 2 == 0)
            await until(lambda: len(seen) >= 5)
            retained = office.broker.retained.get("orders/a", now_us=0)
            assert retained is not None
            assert retained.payload == b"4"
            assert seen == [b"0", b"1", b"2", b"3", b"4"]
            refused = await (await office.connect("q")).publish1("orders/a", b"no")
            assert "published only at node 'shop'" in (refused.properties.reason_string or "")
            assert office.streams.status().streams[0].host == "shop"
