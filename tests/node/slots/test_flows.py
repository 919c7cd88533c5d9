"""Flows on a node: told, found out, refused and silent; what goes ahead of what, and that nothing is lost."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.core.slots.flows import Flow
from penstock.core.slots.lanes import Lane
from penstock.errors import ConfigError, SlotError
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Pingreq, Pingresp
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.node.broker.message import Message
from penstock.node.broker.output import Output
from penstock.node.broker.runs import QOS0
from penstock.node.config.schema import Config, Listener, Queues, Rule
from penstock.node.config.slots import LinkSettings, SlotSettings
from penstock.node.slots import publisher
from penstock.node.slots.declared import Declared, of_connect, of_publish, retry_of
from penstock.node.store.tables import STORE, Store
from penstock.pipeline.tables.control_tables import write_version
from tests.kit.configuration import read_config
from tests.kit.flows import lanes_of
from tests.kit.peer import Peer, Running, node, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.core.slots.statistics import FlowStatistics

pa = pytest.importorskip("pyarrow")

SLOTS = SlotSettings(slot_s=0.02, capacity=20, silent_least_s=0.0, lane_events=50)
FILLER = encode(Publish("filler", b"x" * 1_000), V5) * 100


def config(**slots: Any) -> Config:
    return Config(
        data="",
        listeners=(Listener(slots=True),),
        slots=msgspec.structs.replace(SLOTS, **slots),
        queues=Queues(events=500),
    )


def row(running: Running, topic: str) -> FlowStatistics:
    rows = running.flow_rows()
    assert rows is not None
    return next(one for one in rows if one.topic == topic)


class Steps:
    """A node whose clock is moved by hand, so that messages come exactly when they should."""

    def __init__(self, running: Running) -> None:
        self.now_us = running.broker.clock()
        self.running = running
        running.broker.clock = lambda: self.now_us
        flows = running.flows
        assert flows is not None
        flows._clock = lambda: self.now_us  # the one thing a test must hold in its hand

    async def publish(self, peer: Peer, topic: str, count: int, *, every_us: int, first: int = 0) -> None:
        for number in range(first, first + count):
            self.now_us += every_us
            peer.publish0(topic, b"%d" % number)
            await peer.settled()

    def served(self, topic: str) -> bool:
        return row(self.running, topic).state == "served"


async def behind(running: Running, *filters: str, version: int = V5) -> Peer:
    """A client that reads nothing until it is told to, and whose transport is full."""
    peer = await running.connect("slow", version=version)
    await peer.subscribe("filler", *filters)
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    sender = await running.connect("filler")
    await fill(running, "slow", sender)
    return peer


async def fill(running: Running, client_id: str, sender: Peer) -> None:
    """Publish until a client's transport takes no more."""
    session = running.broker.sessions.get(client_id)
    assert session is not None
    while session.link is None or not session.link.output.paused:
        sender.raw(FILLER)
        await sender.settled()


async def received(peer: Peer, until: Callable[[Publish], bool]) -> list[Publish]:
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    found: list[Publish] = []
    while not found or not until(found[-1]):
        packet = await peer.next()
        assert isinstance(packet, Publish), packet
        found.append(packet)
    return found


async def test_a_told_flow_is_served_and_goes_ahead_of_what_waits_longer() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms beat"),))
        slow = await behind(running, "beat", "other")
        await steps.publish(sensor, "beat", 20, every_us=100_000)
        assert steps.served("beat")
        sensor.publish0("other", b"before")
        await sensor.settled()
        await steps.publish(sensor, "beat", 5, every_us=100_000, first=20)
        sensor.publish0("other", b"last")
        await sensor.settled()
        assert running.account_holds()
        found = await received(slow, lambda one: one.payload == b"last")
        beats = [int(one.payload) for one in found if one.topic == "beat"]
        assert beats == list(range(25))
        topics = [one.topic for one in found]
        last_beat = len(topics) - 1 - topics[::-1].index("beat")
        assert topics.index("other") > last_beat
        assert topics[last_beat:].count("filler") > 50, "the queue of the others waited behind"
        assert running.account_holds()
        status = running.observed.status()
        assert status.flows is not None
        assert status.flows.served == 1
        assert status.flows.reserved >= 20


async def test_a_flow_that_nobody_told_is_found_out() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor")
        await steps.publish(sensor, "beat", 30, every_us=50_000)
        found = row(running, "beat")
        assert (found.state, found.told) == ("served", "detected")
        assert abs(found.period_us - 50_000) < 50
        assert found.on_time >= 10


@pytest.mark.parametrize("qos", [0, 1])
async def test_messages_that_come_together_are_counted_by_topic_and_stay_together(
    qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(*_: Any, **__: Any) -> None:
        raise AssertionError("a message was taken out of its run")

    monkeypatch.setattr(publisher, "message_of", alone)
    monkeypatch.setattr(publisher.FlowPublisher, "frame", alone)

    def bytes_of(*topics: str) -> bytes:
        return b"".join(
            encode(Publish(topic, b"", qos=qos, packet_id=qos * number), V5)
            for number, topic in enumerate(topics, start=1)
        )

    async with node(config()) as running:
        steps = Steps(running)
        reader = await running.connect("reader")
        await reader.subscribe("a", "b", "bulk", qos=qos)
        sensor = await running.connect("sensor")

        async def together(*topics: str) -> None:
            steps.now_us += 50_000
            sensor.raw(bytes_of(*topics))
            for topic in topics:
                packet = await reader.expect(Publish)
                assert packet.topic == topic
                if qos:
                    reader.send(Puback(packet.packet_id))
            for _ in range(len(topics) * qos):
                await sensor.expect(Puback)
            await reader.settled()

        for _ in range(40):
            await together("a", "b")
        assert steps.served("a")
        assert steps.served("b")
        assert row(running, "a").arrivals == row(running, "b").arrivals == 39, "the first is only remembered"
        for _ in range(4):
            await together(*["bulk"] * 100)
        assert row(running, "bulk").arrivals == 300
        status = running.observed.status()
        assert status.flows is not None
        assert status.flows.best_effort + status.flows.reserved + status.flows.late == 480
        assert status.broker.messages_received == 480


@pytest.mark.parametrize("qos", [0, 1])
async def test_order_is_kept_when_a_flow_becomes_served_while_its_messages_wait(qos: int) -> None:
    async with node(config()) as running:
        steps = Steps(running)
        slow = await behind(running, "beat")
        sensor = await running.connect("sensor")
        for number in range(60):
            steps.now_us += 50_000
            if qos:
                await sensor.publish1("beat", b"%d" % number)
            else:
                sensor.publish0("beat", b"%d" % number)
                await sensor.settled()
        assert steps.served("beat")
        assert running.account_holds()
        found = await received(slow, lambda one: one.topic == "beat" and one.payload == b"59")
        assert [int(one.payload) for one in found if one.topic == "beat"] == list(range(60))
        assert [one.topic for one in found].count("filler") < 400, "it went ahead of most others"


async def test_each_message_of_a_chunk_waits_as_part_of_its_own_flow() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await behind(running, "x/#")
        for _ in range(5):
            steps.now_us += 100_000
            sensor.raw(encode(Publish("x/a", b""), V5) + encode(Publish("x/b", b""), V5))
            await sensor.settled()
        session = running.broker.sessions.get("slow")
        assert session is not None
        events = [entry.event for entry in lanes_of(session).clear() if isinstance(entry.event, Message)]
        assert [event.topic for event in events] == ["x/a", "x/a", "x/b", "x/b", *["x/a", "x/b"] * 3]
        flows = [event.flow for event in events if event.flow is not None]
        assert [isinstance(one.flow, Flow) and one.flow.topic for one in flows] == [
            one.topic for one in events
        ]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_comes_together_every_flow_stays_in_order_and_nothing_is_lost(seed: int) -> None:
    dice = Random(seed)
    topics = ["x/beat", "x/pulse", "x/bulk/1", "x/bulk/2"]
    sent: dict[str, int] = dict.fromkeys(topics, 0)
    ids = count(1)

    def message(topic: str) -> bytes:
        sent[topic] += 1
        qos = dice.choice([0, 0, 0, 1])
        payload = b"%d" % sent[topic] + b" " * dice.choice([0, 200])
        return encode(Publish(topic, payload, qos=qos, packet_id=qos * next(ids)), V5)

    settings = msgspec.structs.replace(
        config(lane_events=dice.choice([5, 500])), queues=Queues(events=50_000)
    )
    async with node(settings) as running:
        steps = Steps(running)
        reader = await running.connect("reader")
        await reader.subscribe("filler", *dice.choice([["x/#"], topics]), qos=dice.choice([0, 1]))
        sensor = await running.connect("sensor")
        filler = await running.connect("filler")
        for step in range(120):
            steps.now_us += 50_000 if dice.random() < 0.95 else 70_000
            if step % 40 == 20:
                reader.writer.transport.pause_reading()  # type: ignore[attr-defined]
                await fill(running, "reader", filler)
            together = [
                "x/beat",
                *["x/pulse"] * (step % 2),
                *dice.choices(topics[2:], k=dice.choice([0, 1, 30])),
            ]
            together += ["x/beat"] * (dice.random() < 0.02)
            dice.shuffle(together)
            frames = list(map(message, together))
            sensor.raw(b"".join(frames))
            for _ in range(sum(frame[0] != QOS0 for frame in frames)):
                await sensor.expect(Puback)
            await sensor.settled()
            if step % 40 == 39:
                reader.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert row(running, "x/beat").on_time > 30
        assert running.account_holds()
        found: dict[str, list[int]] = {topic: [] for topic in topics}
        while any(len(found[topic]) < sent[topic] for topic in topics):
            packet = await reader.expect(Publish)
            if packet.topic in found:
                found[packet.topic].append(int(packet.payload))
        assert found == {topic: list(range(1, sent[topic] + 1)) for topic in topics}
        assert running.account_holds()


async def test_late_messages_wait_behind_others_and_keep_their_order() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor")
        await steps.publish(sensor, "beat", 20, every_us=100_000)
        slow = await behind(running, "beat")
        await steps.publish(sensor, "beat", 1, every_us=150_000, first=20)
        assert row(running, "beat").late == 1
        session = running.broker.sessions.get("slow")
        assert session is not None
        assert (lanes_of(session).reserved, lanes_of(session).late) == (0, 1)
        await steps.publish(sensor, "beat", 1, every_us=50_000, first=21)
        assert (lanes_of(session).reserved, lanes_of(session).late) == (2, 0), "the next one takes it along"
        found = await received(slow, lambda one: one.payload == b"21")
        assert [int(one.payload) for one in found if one.topic == "beat"] == [20, 21]
        assert running.account_holds()


async def test_what_waits_in_lanes_survives_the_loss_of_the_connection_and_is_counted_when_dropped() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        slow = await running.connect("keeps", session_expiry_s=600)
        await slow.subscribe("filler", "beat", "more")
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await fill(running, "keeps", sensor)
        await steps.publish(sensor, "beat", 20, every_us=100_000)
        session = running.broker.sessions.get("keeps")
        assert session is not None
        assert lanes_of(session)
        slow.abort()
        while session.link is not None:
            await asyncio.sleep(0.01)
        assert not lanes_of(session)
        assert session.held["beat"].account().queued == 20
        assert running.account_holds()
        running.broker.unsubscribe(session, "beat")
        assert running.broker.status().account.balanced
        assert running.broker.sessions.departed.abandoned == 20


async def test_what_left_the_lanes_is_not_overtaken_by_its_flow() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await steps.publish(sensor, "beat", 5, every_us=100_000)
        slow = await behind(running, "beat", "more")
        await steps.publish(sensor, "beat", 3, every_us=100_000, first=5)
        session = running.broker.sessions.get("slow")
        assert session is not None
        assert lanes_of(session).reserved == 3
        running.broker.unsubscribe(session, "more")
        assert lanes_of(session).reserved == 0
        await steps.publish(sensor, "beat", 3, every_us=100_000, first=8)
        found = await received(slow, lambda one: one.payload == b"10")
        assert [int(one.payload) for one in found if one.topic == "beat"] == [5, 6, 7, 8, 9, 10]
        assert running.account_holds()


async def test_what_came_while_its_receiver_was_away_is_not_overtaken_by_its_flow() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await steps.publish(sensor, "beat", 5, every_us=100_000)
        reader = await running.connect("keeps", session_expiry_s=600)
        await reader.subscribe("beat", qos=1)
        reader.abort()
        session = running.broker.sessions.get("keeps")
        assert session is not None
        while session.link is not None:
            await asyncio.sleep(0.01)

        async def publish(*numbers: int) -> None:
            for number in numbers:
                steps.now_us += 100_000
                await sensor.publish1("beat", b"%d" % number)

        await publish(5, 6, 7)
        again = await running.connect("keeps", clean=False, session_expiry_s=600, receive_maximum=1)
        await publish(8, 9, 10)
        assert steps.served("beat")
        assert [int(payload) for payload in await again.payloads(6)] == [5, 6, 7, 8, 9, 10]
        assert running.account_holds()


async def test_a_second_copy_that_finds_the_transport_full_is_not_overtaken_by_its_flow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await steps.publish(sensor, "x/beat", 5, every_us=100_000)
        reader = await running.connect("reader")
        await reader.subscribe("x/#")
        await reader.subscribe("x/beat", user=(("policy", "levels: [{keep: {latest: 3}}]"),))
        session = running.broker.sessions.get("reader")
        assert session is not None
        link: Any = session.link
        write = Output.write

        def fills(output: Output, data: bytes) -> None:
            write(output, data)
            if output is link.output and not filled:
                filled.append(data)
                link.pause_writing()

        filled: list[bytes] = []
        monkeypatch.setattr(Output, "write", fills)
        steps.now_us += 100_000
        sensor.raw(encode(Publish("x/beat", b"5"), V5) + encode(Pingreq(), V5))
        await sensor.expect(Pingresp)
        assert len(session.delivery.waiting) == 1
        await steps.publish(sensor, "x/beat", 2, every_us=100_000, first=6)
        link.resume_writing()
        assert [int(payload) for payload in await reader.payloads(6)] == [5, 6, 5, 6, 7, 7]
        assert running.account_holds()


def test_what_waits_in_lanes_survives_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(config(), store=Store(tmp_path / STORE)) as running:
            steps = Steps(running)
            sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
            slow = await running.connect("keeps", session_expiry_s=600)
            await slow.subscribe("filler", "beat", qos=1)
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await fill(running, "keeps", sensor)
            for number in range(20):
                steps.now_us += 100_000
                await sensor.publish1("beat", b"%d" % number)
            session = running.broker.sessions.get("keeps")
            assert session is not None
            assert lanes_of(session).reserved > 15

    async def after() -> None:
        async with node(config(), store=Store(tmp_path / STORE)) as running:
            assert running.account_holds()
            again = await running.connect("keeps", clean=False, session_expiry_s=600)
            beats: list[int] = []
            while len(beats) < 20:
                packet = await again.next()
                assert isinstance(packet, Publish)
                if packet.qos:
                    again.send(Puback(packet.packet_id))
                if packet.topic == "beat":
                    beats.append(int(packet.payload))
            assert beats == list(range(20))

    run(before())
    run(after())


async def test_a_silent_flow_is_told_and_so_is_its_return() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        watcher = await running.connect("watcher")
        await watcher.subscribe("$flows/#")
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await steps.publish(sensor, "beat", 10, every_us=100_000)
        steps.now_us += 500_000
        alarm = await watcher.expect(Publish)
        assert alarm.topic == "$flows/silent"
        facts = json.loads(alarm.payload)
        assert (facts["client"], facts["topic"], facts["period_us"]) == ("sensor", "beat", 100_000)
        assert facts["silent_s"] == 0.5
        assert row(running, "beat").state == "silent"
        await steps.publish(sensor, "beat", 2, every_us=100_000)
        assert (await watcher.expect(Publish)).topic == "$flows/back"
        assert steps.served("beat")
        status = running.observed.status()
        assert status.flows is not None
        assert status.flows.alarms == 1


@pytest.mark.parametrize(
    ("period", "why"),
    [
        ("5ms", "period too short: 5 ms is less than a slot of 20 ms"),
        ("10min", "period beyond the window: 10 min"),
        ("often", "'often' is no duration; say it like 100ms"),
    ],
)
async def test_a_period_that_cannot_be_served_is_refused_with_the_reason(period: str, why: str) -> None:
    async with node(config()) as running:
        watcher = await running.connect("watcher")
        await watcher.subscribe("$flows/refused", "beat")
        sensor = await running.connect("sensor")
        ack = await sensor.publish1("beat", b"1", user=(("penstock-period", period),))
        assert ack.reason == 0, "the message itself is taken"
        assert why in (ack.properties.reason_string or "")
        assert ack.properties.user == (("penstock-flow", "refused"),)
        told = [await watcher.expect(Publish), await watcher.expect(Publish)]
        event = next(one for one in told if one.topic == "$flows/refused")
        assert why in json.loads(event.payload)["reason"]
        assert (await sensor.publish1("beat", b"2")).properties.reason_string is None
        status = running.observed.status()
        assert status.flows is not None
        assert status.flows.refused == {why.partition(":")[0] if ":" in why else "bad period": 1}


async def test_a_refusal_is_an_answer_each_time_and_news_once() -> None:
    async with node(config()) as running:
        watcher = await running.connect("watcher")
        await watcher.subscribe("$flows/refused")
        sensor = await running.connect("sensor")
        for _ in range(5):
            ack = await sensor.publish1("beat", b"1", user=(("penstock-period", "10min"),))
            assert (ack.properties.reason_string or "").startswith("period beyond the window")
        await sensor.publish1("other", b"1", user=(("penstock-period", "1ms"),))
        topics = [json.loads((await watcher.expect(Publish)).payload)["topic"] for _ in range(2)]
        assert topics == ["beat", "other"]
        found = row(running, "beat")
        assert (found.state, found.told, found.period_us) == ("refused", "client", 600_000_000)
        assert found.reason.startswith("period beyond the window")


async def test_each_connect_counts_and_what_a_message_says_counts_more() -> None:
    async with node(config(detect=False)) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor")
        await steps.publish(sensor, "beat", 3, every_us=100_000)
        assert not running.flow_rows(), "nobody told a period"
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await steps.publish(sensor, "beat", 3, every_us=100_000)
        assert (row(running, "beat").state, row(running, "beat").period_us) == ("served", 100_000)
        sensor = await running.connect("sensor", user=(("penstock-period", "200ms"),))
        await steps.publish(sensor, "beat", 3, every_us=200_000)
        assert (row(running, "beat").state, row(running, "beat").period_us) == ("served", 200_000)
        steps.now_us += 50_000
        ack = await sensor.publish1("pulse", b"1", user=(("penstock-period", "50ms"),))
        assert ack.properties.reason_string is None
        await steps.publish(sensor, "pulse", 3, every_us=50_000)
        assert row(running, "pulse").period_us == 50_000
        await sensor.publish1("pulse", b"1", user=(("penstock-period", "none"),))
        await steps.publish(sensor, "pulse", 3, every_us=50_000)
        assert row(running, "pulse").state == "learning"
        sensor = await running.connect("sensor", user=(("penstock-period", "10min late/#"),))
        ack = await sensor.publish1("late/1", b"1")
        assert (ack.properties.reason_string or "").startswith("period beyond the window")


async def test_what_comes_in_its_slot_never_waits_behind_best_effort() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms beat/#"),))
        await steps.publish(sensor, "beat/1", 3, every_us=100_000)
        slow = await behind(running, "beat/#", "other")
        session = running.broker.sessions.get("slow")
        assert session is not None
        for number in range(10):
            sensor.publish0("other", b"%d" % number)
        await steps.publish(sensor, "beat/1", 15, every_us=100_000)
        assert row(running, "beat/1").late == 0
        gone = session.delivery.sent  # these are in the hands of the system, before anything waited
        for number in range(10, 20):
            sensor.publish0("other", b"%d" % number)
        await steps.publish(sensor, "beat/1", 15, every_us=100_000, first=15)
        assert session.delivery.sent == gone, "the receiver reads nothing"
        assert lanes_of(session).reserved == 30
        found = await received(slow, lambda one: (one.topic, one.payload) == ("other", b"19"))
        assert [int(one.payload) for one in found[gone:] if one.topic == "beat/1"] == list(range(30))
        assert {one.topic for one in found[gone : gone + 30]} == {"beat/1"}


async def eight_flows(steps: Steps, sensor: Peer) -> list[str]:
    """Publish six messages of eight flows at once, and return what became of the flows."""
    for number in range(6):
        steps.now_us += 40_000
        for name in range(8):
            sensor.publish0(f"beat/{name}", b"%d" % number)
        await sensor.settled()
    return [row(steps.running, f"beat/{name}").state for name in range(8)]


async def test_a_full_link_refuses_the_flow_too_many() -> None:
    async with node(config(capacity=4, reserved_share=0.5)) as running:
        steps = Steps(running)
        watcher = await running.connect("watcher")
        await watcher.subscribe("$flows/refused", "beat/#")
        sensor = await running.connect("sensor", user=(("penstock-period", "40ms"),))
        states = await eight_flows(steps, sensor)
        assert "served" in states
        assert "refused" in states
        while (told := await watcher.expect(Publish)).topic != "$flows/refused":
            pass
        facts = json.loads(told.payload)
        assert facts["reason"].startswith(("slot full", "no capacity"))
        assert facts["retry_after_s"] >= 1


async def test_nobody_has_to_carry_what_nobody_reads() -> None:
    async with node(config(capacity=4, reserved_share=0.5)) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "40ms"),))
        assert await eight_flows(steps, sensor) == ["served"] * 8


async def test_a_link_that_is_full_shuts_flows_out_and_others_carry_them() -> None:
    links = (LinkSettings(clients="narrow*", capacity=2),)
    async with node(config(capacity=40, links=links)) as running:
        steps = Steps(running)
        watcher = await running.connect("watcher")
        await watcher.subscribe("$flows/refused")
        wide, narrow = await running.connect("wide"), await running.connect("narrow-1")
        await wide.subscribe("beat/#")
        await narrow.subscribe("beat/#")
        sensor = await running.connect("sensor", user=(("penstock-period", "40ms"),))
        assert await eight_flows(steps, sensor) == ["served"] * 8
        rows = [row(running, f"beat/{name}") for name in range(8)]
        assert {(one.links, one.links_refused) for one in rows} == {(2, 0), (1, 1)}
        facts = json.loads((await watcher.expect(Publish)).payload)
        assert facts["reason"] == "no capacity: on the link to 'narrow-1'"
        assert (facts["links"], facts["links_refused"]) == (1, 1)
        status = running.observed.status().flows
        assert status is not None
        assert (status.links, status.refused["no capacity"]) == (2, sum(one.links_refused for one in rows))
        flows = running.flows
        assert flows is not None
        flows.reconfigure(msgspec.structs.replace(flows.settings, links=()))
        steps.now_us += 5_000_000
        await eight_flows(steps, sensor)
        assert {row(running, f"beat/{name}").links_refused for name in range(8)} == {0}


async def test_a_flow_is_best_effort_at_a_link_that_shuts_it_out() -> None:
    async with node(config(links=(LinkSettings(clients="slow", capacity=2),))) as running:
        steps = Steps(running)
        slow = await behind(running, "beat/#")
        wide = await running.connect("wide")
        await wide.subscribe("beat/#")
        sensor = await running.connect("sensor", user=(("penstock-period", "40ms"),))
        assert await eight_flows(steps, sensor) == ["served"] * 8
        session = running.broker.sessions.get("slow")
        assert session is not None
        carried = {name for name in range(8) if row(running, f"beat/{name}").links == 2}
        assert 0 < len(carried) < 8
        waiting = lanes_of(session)
        assert {entry.event.topic for entry in waiting._reserved} == {f"beat/{name}" for name in carried}
        assert running.account_holds()
        sensor.publish0("beat/end", b"last")
        await sensor.settled()
        found = await received(slow, lambda one: one.payload == b"last")
        for name in range(8):
            beats = [int(one.payload) for one in found if one.topic == f"beat/{name}"]
            assert beats == sorted(beats)


async def test_a_flow_without_an_entry_in_the_table_is_served_by_the_filters() -> None:
    async with node(config(flows=1, lane_events=500)) as running:
        steps = Steps(running)
        slow = await behind(running, "beat", "other")
        sensor = await running.connect("sensor")
        await steps.publish(sensor, "first", 3, every_us=100_000)
        await steps.publish(sensor, "beat", 30, every_us=100_000)
        status = running.observed.status().flows
        assert status is not None
        assert (status.known, status.served) == (1, 0)
        assert status.unlisted > 20
        assert status.reserved > 20
        sensor.publish0("other", b"last")
        await sensor.settled()
        assert running.account_holds()
        found = await received(slow, lambda one: one.payload == b"last")
        assert [int(one.payload) for one in found if one.topic == "beat"] == list(range(30))
        last_beat = max(place for place, one in enumerate(found) if one.topic == "beat")
        assert [one.topic for one in found[last_beat:]].count("filler") > 50, "others waited behind"


async def test_retries_that_nobody_declared_are_recognised() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor")
        for gap_us in (0, 20_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000):
            steps.now_us += gap_us
            sensor.publish0("ask", b"?")
            await sensor.settled()
        found = row(running, "ask")
        assert (found.pattern, found.retried) == ("retries", 2)
        assert found.period_us == pytest.approx(20_000, rel=0.1)
        status = running.observed.status().flows
        assert status is not None
        assert (status.retried, status.reserved) == (2, 1), (
            "a place was kept for the one after it was recognised"
        )


async def test_a_flow_that_sends_more_than_it_declared_loses_its_slots() -> None:
    async with node(config()) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await steps.publish(sensor, "beat", 5, every_us=100_000)
        assert steps.served("beat")
        await steps.publish(sensor, "beat", 50, every_us=30_000)
        found = row(running, "beat")
        assert found.state == "refused"
        assert found.told != "client", "what it told is not believed any more"
        assert found.excess > 5
        status = running.observed.status()
        assert status.flows is not None
        assert status.flows.refused == {"sends more than it declared": 1}


async def test_a_request_takes_a_place_comes_again_or_is_rejected_at_once() -> None:
    asks = (("penstock-retry", "100ms"),)
    async with node(config(capacity=10, request_share=0.1, window=8)) as running:
        steps = Steps(running)
        reader = await running.connect("reader")
        await reader.subscribe("ask/#", qos=1)
        clients = [await running.connect(f"client-{number}") for number in range(5)]

        async def ask(number: int) -> tuple[int, str]:
            ack = await clients[number].publish1(f"ask/{number}", b"", user=asks)
            user = dict(ack.properties.user)
            assert bool(ack.properties.reason_string) == bool(user)
            return ack.reason, user.get("penstock-retry", "")

        assert await ask(0) == (0, "")
        kept = [await ask(number) for number in range(1, 5)]
        assert kept == [(0x97, "100ms"), (0x97, "100ms"), (0x97, "rejected"), (0x97, "rejected")]
        steps.now_us += 100_000
        assert await ask(3) == (0x97, "100ms"), "this slot is kept for others"
        assert [await ask(number) for number in (1, 2)] == [(0, ""), (0, "")], "those kept are still there"
        sent = [await reader.expect(Publish) for _ in range(3)]
        assert [one.topic for one in sent] == ["ask/0", "ask/1", "ask/2"], "others were not taken"
        status = running.observed.status()
        assert status.flows is not None
        assert status.flows.requests == {"accepted": 3, "again": 3, "rejected": 2}
        assert status.broker.refused == {"no place in a slot": 5}
        clients[4].send(Publish("ask/4", b"", properties=Properties(user=asks)))
        assert (await reader.expect(Publish)).topic == "ask/4", "QoS 0 has no answer, and is as ever"
        ack = await clients[4].publish1("ask/4", b"", user=(("penstock-retry", "soon"),))
        assert (ack.reason, ack.properties.user) == (0, (("penstock-flow", "refused"),))
        assert "'soon' is no duration" in (ack.properties.reason_string or "")


@pytest.mark.parametrize(("after", "said"), [("1200s", "1200000ms"), ("1200.0005s", "1200000.5ms")])
async def test_when_to_come_again_is_said_as_it_can_be_asked_for(after: str, said: str) -> None:
    async with node(config(slot_s=60.0, capacity=10)) as running:
        Steps(running)
        client = await running.connect("client")
        user = (("penstock-retry", after),)
        assert (await client.publish1("a", b"", user=user)).reason != 0x97
        again = (await client.publish1("a", b"", user=user)).properties.user
        assert again == (("penstock-retry", said),)
        assert retry_of(again) == retry_of(user)


async def test_requests_displace_no_flow_and_go_ahead_of_what_waits() -> None:
    async with node(config(capacity=10, reserved_share=0.5)) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor", user=(("penstock-period", "40ms beat"),))
        slow = await behind(running, "beat", "ask")
        client = await running.connect("client")
        for number in range(20):
            await steps.publish(sensor, "beat", 1, every_us=40_000, first=number)
            for _ in range(30):
                await client.publish1("ask", b"%d" % number, user=(("penstock-retry", "20ms"),))
        assert steps.served("beat")
        assert row(running, "beat").late == 0
        assert running.account_holds()
        found = await received(slow, lambda one: (one.topic, one.payload) == ("beat", b"19"))
        asked = [int(one.payload) for one in found if one.topic == "ask"]
        assert asked == list(range(len(asked))), "one in each slot that came"
        assert len(asked) > 15
        assert [one.topic for one in found].count("filler") < 400


async def test_a_period_can_be_taken_back_and_versions_without_properties_are_found_out() -> None:
    async with node(config(detect=False)) as running:
        steps = Steps(running)
        sensor = await running.connect("sensor")
        await sensor.publish1("beat", b"", user=(("penstock-period", "100ms"), ("penstock-jitter", "2ms")))
        await steps.publish(sensor, "beat", 5, every_us=100_000)
        assert steps.served("beat")
        await sensor.publish1("beat", b"", user=(("penstock-period", "none"),))
        assert row(running, "beat").state == "learning"
        old = await running.connect("old", version=V4)
        await steps.publish(old, "beat4", 20, every_us=100_000)
        assert all(one.topic != "beat4" for one in running.flow_rows() or ())


async def test_a_listener_without_slots_knows_no_flows() -> None:
    async with node() as running:
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        await sensor.publish1("beat", b"")
        assert running.flow_rows() is None
        assert running.observed.status().flows is None
        session = running.broker.sessions.get("sensor")
        assert session is not None
        assert not session.sources


async def test_the_control_table_tells_periods_and_a_broken_version_changes_nothing(tmp_path: Path) -> None:
    def table(*periods: tuple[str, int]) -> None:
        write_version(
            pa.table(
                {
                    "client": ["sensor"] * len(periods),
                    "topic": [topic for topic, _ in periods],
                    "period_us": pa.array([period for _, period in periods], pa.int64()),
                    "jitter_us": pa.array([1_000] * len(periods), pa.int64()),
                }
            ),
            tmp_path,
            name="reservations",
        )

    async with node(config(detect=False, reservations=str(tmp_path))) as running:
        steps = Steps(running)
        flows = running.flows
        assert flows is not None
        assert flows.follower is not None
        table(("beat", 100_000), ("other", 200_000))
        await flows.follower.look()
        sensor = await running.connect("sensor")
        await steps.publish(sensor, "beat", 5, every_us=100_000)
        assert steps.served("beat")
        assert row(running, "beat").told == "table"
        table(("beat", 0))
        await flows.follower.look()
        status = flows.status()
        assert status.table_version == 1
        assert "row 0" in status.table_fault
        assert steps.served("beat")
        table(("beat", 100_100))
        await flows.follower.look()
        assert flows.status().table_version == 3
        assert steps.served("beat"), "nearly the same period interrupts nothing"
        assert row(running, "other").told == ""
        steps.now_us += 10_000_000
        flows.control.on_timer(now_us=steps.now_us)
        table(("beat", 100_000))
        await flows.follower.look()
        assert row(running, "beat").state == "silent", "a new table does not hide an alarm"
        newer = await running.connect("sensor", user=(("penstock-period", "50ms"),))
        await steps.publish(newer, "beat", 3, every_us=50_000)
        assert (row(running, "beat").told, row(running, "beat").period_us) == ("client", 50_000)


async def test_a_folder_of_tables_that_is_not_there_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(config(reservations=str(tmp_path / "tables"))):
        assert "tables' yet; a table in it is used once it is written" in caplog.text


async def test_what_may_not_be_published_is_no_flow() -> None:
    closed = msgspec.structs.replace(config(), acl=(Rule(topic="open/#"),))
    async with node(closed) as running:
        sensor = await running.connect("sensor", user=(("penstock-period", "100ms"),))
        sensor.raw(encode(Publish("shut/a", b""), V5) * 30)
        await sensor.publish1("shut/b", b"", user=(("penstock-period", "100ms"),))
        await sensor.publish1("open/c", b"", user=(("penstock-period", "100ms"),))
        assert [one.topic for one in running.flow_rows() or ()] == ["open/c"]


def test_what_clients_declare_is_read() -> None:
    assert of_publish((("a", "b"),)) is None
    assert of_publish((("penstock-period", "none"),)) == Declared(0)
    assert of_publish((("penstock-jitter", "5ms"), ("penstock-period", "1.5s"))) == Declared(1_500_000, 5_000)
    found, problems = of_connect(
        (
            ("penstock-period", "100ms ward/+/pulse"),
            ("penstock-period", "1s bad/#/filter"),
            ("penstock-period", "soon"),
            ("penstock-period", "0s ward/#"),
            ("penstock-jitter", "1ms"),
        )
    )
    assert found == [Declared(100_000, 1_000, "ward/+/pulse")]
    assert found[0].covers("ward/7/pulse")
    assert not found[0].covers("ward/7")
    assert len(problems) == 3
    with pytest.raises(SlotError, match="'0ms' is no period; it must be above 0, or 'none'"):
        of_publish((("penstock-period", "0ms"),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slots: {slot_s: 0s}", "slots.slot_s"),
        ("slots: {slot_s: 0.5ms}", "slots.slot_s"),
        ("slots: {request_share: 0}", "slots.request_share"),
        ("slots: {window: 65}", "slots.window"),
        ("slots: {capacity: 0}", "slots.capacity"),
        ("slots: {capacity: 1, reserved_share: 0.5}", "slots.capacity: found 1, of which a share of 0.5"),
        ("slots: {links: [{clients: a, capacity: 1}]}", r"slots.links\[0\].capacity: .*allowed: 2 or more"),
        ("slots: {links: [{clients: '', capacity: 9}]}", r"slots.links\[0\].clients"),
        ("slots: {links: [{capacity: 9}]}", r"slots.links\[0\].clients: is missing"),
        ("slots: {longer: [16, 31]}", r"slots.longer\[1\]: found 31; allowed: 32 or more, twice the length"),
        ("slots: {longer: [2, 4, 8, 16]}", r"slots.longer\[3\]: is one length too many; allowed: up to 3"),
        ("slots: {filter: {groups: 7}}", "slots.filter.groups: found 7, .*'8'.*allowed: 1, 2, 4, 8, "),
        ("slots: {filter: {groups: 64, spare: false}}", "slots.filter.groups: .*allowed: 1, 2, 4, 8, 16, 32"),
        ("slots: {filter: {group: 8}}", "slots.filter.group: unknown setting.*'groups'"),
        ("slots: {decisions: {in_slot: reservd}}", "slots.decisions.in_slot: .*'reserved'"),
        ("slots: {decisions: {in_slot: as_it_is}}", "slots.decisions.in_slot"),
        ("slots: {flows: 0}", "slots.flows"),
    ],
)
def test_settings_that_cannot_be_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_config(text)


def test_lanes_are_named_in_their_order() -> None:
    assert sorted(Lane) == [Lane.RESERVED, Lane.BEST_EFFORT, Lane.LATE]
