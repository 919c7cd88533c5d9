"""Runs of plain messages: they cross a link as the bytes they are, and are taken apart where they must be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock.core.cluster.frames import Carried, CarriedRun, decode_frame, decode_items, is_data
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.node.cluster.peer import ClusterPeer
from tests.kit.cluster import Network, members, settled, told
from tests.kit.waiting import until

if TYPE_CHECKING:
    from penstock.core.cluster.view import Sighting
    from penstock.node.broker.runs import Run
    from tests.kit.peer import Peer


class Listening(Network):
    """Counts how messages cross."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = 0
        self.in_runs: list[int] = []

    def carry(self, sender: Sighting, to: Sighting, frame: bytes) -> None:
        if is_data(frame):
            found = decode_frame(frame)
            for item in decode_items(getattr(found, "body", b"")):
                self.alone += isinstance(item, Carried)
                if isinstance(item, CarriedRun):
                    self.in_runs.append(item.count)
        super().carry(sender, to, frame)


def burst(sensor: Peer, topic: str, count: int, *, qos: int = 0, version: int = V5, first: int = 0) -> None:
    """Publish messages in one write."""
    packets = [
        Publish(f"{topic}/{number % 3}", b"%d" % number, qos=qos, packet_id=number + 1 if qos else 0)
        for number in range(first, first + count)
    ]
    sensor.raw(b"".join(encode(one, version) for one in packets))


@pytest.mark.parametrize("versions", [(V5, V5), (V4, V5), (V5, V4)])
@pytest.mark.parametrize("qos", [0, 1])
async def test_messages_that_come_together_cross_together(qos: int, versions: tuple[int, int]) -> None:
    network = Listening()
    async with members(network, "n1", "n2", "n3") as (n1, n2, n3):
        phones = [await at.connect(f"phone{at.service.own.name}", version=versions[1]) for at in (n1, n2, n3)]
        for phone in phones:
            await phone.subscribe("a/#", qos=1)
        sensor = await n1.connect("sensor", version=versions[0])
        burst(sensor, "a", 200, qos=qos, version=versions[0])
        wanted = [b"%d" % number for number in range(200)]
        for phone in phones:
            assert await phone.payloads(200) == wanted
        if qos:
            assert [(await sensor.answer(Puback)).packet_id for _ in range(200)] == list(range(1, 201))
        await settled(n1, n2, n3)
        assert n1.to("n2").link.account().handed == n2.to("n1").received == 200
        if versions[0] == versions[1] or not qos:
            assert network.alone == 0
            assert sum(network.in_runs) == 400, "to two nodes"
        for at in (n1, n2, n3):
            assert at.running.account_holds()


async def test_receivers_of_every_kind_get_what_is_theirs_of_a_run() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        plain = await n2.connect("plain")
        await plain.subscribe("a/#", qos=0)
        kept = await n2.connect("kept", session_expiry_s=60)
        await kept.subscribe("a/#", qos=1)
        some = await n2.connect("some")
        await some.subscribe("a/1", qos=1)
        numbered = await n2.connect("numbered")
        await numbered.subscribe("a/#", qos=1, number=7)
        sensor = await n1.connect("sensor")
        burst(sensor, "a", 30, qos=1)
        every = [b"%d" % number for number in range(30)]
        assert await plain.payloads(30) == await kept.payloads(30) == every
        assert await some.payloads(10) == [b"%d" % number for number in range(1, 30, 3)]
        found = [await numbered.message() for _ in range(30)]
        assert {(one.properties.subscription_ids, one.qos) for one in found} == {((7,), 1)}
        assert n2.running.account_holds()


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_link_that_is_behind_takes_runs_apart_and_counts_what_it_drops(qos: int) -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=50, wait_s=60) as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a/#", qos=1, user=(("digests", "on"),))
        sensor = await n1.connect("sensor")
        network.cut("n1", "n2")
        for first in range(0, 200, 40):
            burst(sensor, "a", 40, qos=qos, first=first)
        await until(lambda: n1.to("n2").link.backlog.accepted == 200)
        assert len(n1.to("n2").link.backlog) == 50
        network.mend("n1", "n2")
        await settled(n1, n2)
        payloads, dropped = await told(phone)
        assert payloads == [b"%d" % number for number in range(150, 200)]
        assert dropped == 150
        account = n1.to("n2").link.account()
        assert (account.handed, account.digested, account.balanced) == (50, 150, True)


async def test_a_run_that_a_stopping_node_has_not_taken_waits_for_its_next_start() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a/#", qos=1)
        sensor = await n1.connect("sensor")
        n2.service.stop()
        burst(sensor, "a", 40)
        link = n1.to("n2").link
        await until(lambda: link.account().in_flight == 40)
        link.received(n2.to("n1").link.farewell(), now_us=n1.service.now_us())
        assert (len(link.backlog), link.account().in_flight, link.account().balanced) == (40, 0, True)


async def test_qos_1_runs_are_answered_when_the_other_node_has_them() -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=60) as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a/#", qos=1)
        sensor = await n1.connect("sensor")
        network.freeze("n2")
        burst(sensor, "a", 20, qos=1)
        sensor.send(Publish("near", b"", qos=1, packet_id=100))
        await until(lambda: n1.to("n2").link.account().in_flight == 20)
        await asyncio.sleep(0.05)
        session = n1.broker.sessions.get("sensor")
        assert session is not None
        assert session.exchange.incoming.in_flight == 21, "none is answered"
        network.thaw("n2")
        answered = [(await sensor.answer(Puback)).packet_id for _ in range(21)]
        assert answered == [*range(1, 21), 100]
        assert len(await phone.payloads(20)) == 20


@pytest.mark.parametrize("version", [V4, V5])
async def test_a_lone_message_for_one_other_node_is_sent_at_once_and_arrives_like_any_other(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        here, there = await n1.connect("here", version=version), await n2.connect("there", version=version)
        sensor = await n1.connect("sensor", version=version)
        await there.subscribe("a/+")
        await sensor_first(sensor, there, "a/b")
        at_once: list[bool] = []
        deliver_run = ClusterPeer.deliver_run

        def watched(self: ClusterPeer, run: Run, *, now_us: int, alone: bool = False) -> None:
            deliver_run(self, run, now_us=now_us, alone=alone)
            at_once.append(alone and not self.link.pending and self.link.in_flight_bytes > 0)

        monkeypatch.setattr(ClusterPeer, "deliver_run", watched)
        for payload in (b"", b"x", b"z" * 1_900):
            await asyncio.sleep(0.002)
            sensor.publish0("a/b", payload)
            assert (await there.message()).payload == payload
        assert at_once == [True] * 3
        monkeypatch.undo()
        await here.subscribe("a/b")
        await sensor_first(sensor, there, "a/b")
        assert (await here.message()).payload == b"first"
        for number in range(300):  # some come alone, some together, and all in their order
            sensor.publish0("a/b", b"%d" % number)
            if number % 7 == 0:
                await asyncio.sleep(0.002)
        wanted = [b"%d" % number for number in range(300)]
        assert await here.payloads(300) == await there.payloads(300) == wanted
        await settled(n1, n2)
        assert n1.to("n2").link.account().handed == n2.to("n1").received == 305
        for at in (n1, n2):
            assert at.running.account_holds()


async def sensor_first(sensor: Peer, phone: Peer, topic: str) -> None:
    """The first message of a topic is looked up."""
    sensor.publish0(topic, b"first")
    assert (await phone.message()).payload == b"first"
