"""A node that does not keep to the rules: it is named, others are undisturbed, nothing grows without end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.cluster.frames import Ack, Ask, CarriedRun, Wants, ack_frame, data_frame, encode_item
from penstock.mqtt.codes import V4
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock.node.cluster.receiving import SEEN_MOST
from tests.kit.cluster import Network, members
from tests.kit.waiting import until

if TYPE_CHECKING:
    import pytest

    from penstock.core.cluster.view import Sighting
    from tests.kit.cluster import Member

BRIEF_S = 0.1
"""Nobody waits longer for a hostile node, which answers and acknowledges nothing."""


class Hostile:
    """A member of the view that sends what it likes, and remembers what it gets."""

    def __init__(self, network: Network, name: str = "bad") -> None:
        self.own, self._wire = network.wire("ward", name)
        self.number = 0
        self.got = 0

    async def join(self) -> None:
        await self._wire.open(self)

    def appeared(self, seen: Sighting) -> None:
        pass

    def vanished(self, seen: Sighting) -> None:
        pass

    def received(self, sender: Sighting, frame: bytes) -> None:  # noqa: ARG002
        self.got += 1

    def send(self, to: Member, frame: bytes) -> None:
        self._wire.send(to.service.own, frame)

    def items(self, to: Member, *items: bytes) -> None:
        """Send a frame that is the next one."""
        self.number += 1
        self.send(to, data_frame(self.number, b"".join(items)))

    async def leave(self) -> None:
        await self._wire.close()


async def works(n1: Member, n2: Member) -> None:
    """Messages between two honest nodes arrive."""
    phone, sensor = await n2.connect("phone"), await n1.connect("sensor")
    await phone.subscribe("a", qos=1)
    await until(lambda: "a" in n1.to("n2").link.theirs.filters)
    await sensor.publish1("a", b"x")
    assert await phone.payloads(1) == [b"x"]


async def test_garbage_in_frames_is_counted_and_named_a_bounded_number_of_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=BRIEF_S, move_s=BRIEF_S) as (n1, n2):
        bad = Hostile(network)
        await bad.join()
        for number in range(1_000):
            bad.send(n1, b"\xff" * (number % 50))
            bad.send(n1, ack_frame(Ack(10**9, 0)))
            bad.send(n1, data_frame(10**12 + number, b"far ahead"))
        for _ in range(300):
            bad.items(n1, b"\x00\x00\x00\x05short")
        await until(lambda: n1.to("bad").damaged >= 1_000)
        assert caplog.text.count("cluster: from node bad") == SEEN_MOST
        await works(n1, n2)
        assert n1.to("bad").link.backlog.bytes == 0
        await bad.leave()


async def test_questions_without_end_are_not_answered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLUSTER_ASKS", 1_000)
    network = Network()
    async with members(network, "n1", "n2", wait_s=BRIEF_S, move_s=BRIEF_S) as (n1, n2):
        bad = Hostile(network)
        await bad.join()
        over = asyncio.Event()

        async def slow() -> bytes:
            await over.wait()
            return b""

        n1.service.questions.handlers["slow"] = lambda _peer, _body: slow()
        for number in range(limits.CLUSTER_ASKS * 3):
            bad.items(n1, encode_item(Ask(number, "slow")))
            bad.items(n1, encode_item(Ask(number, "nothing")))
        await until(lambda: n1.to("bad").damaged)
        await until(lambda: n1.to("bad").link.taken == bad.number)
        assert n1.to("bad").answering <= limits.CLUSTER_ASKS
        assert len(n1.to("bad").link._words) <= limits.CLUSTER_ASKS
        await works(n1, n2)
        over.set()
        await until(lambda: not n1.to("bad").answering)
        await bad.leave()


async def test_interest_beyond_the_bound_is_refused_and_what_was_before_stays(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=BRIEF_S, move_s=BRIEF_S) as (n1, n2):
        bad = Hostile(network)
        await bad.join()
        bad.items(n1, encode_item(Wants(1, True, ["kept"])))
        await until(lambda: n1.service.status().links[0].filters == 1)
        monkeypatch.setattr(limits, "CLUSTER_FILTERS", 1_000)
        bad.items(n1, encode_item(Wants(2, False, [f"f/{number}" for number in range(2_000)])))
        bad.items(n1, encode_item(Wants(2, False, ["a/#/b"])))
        await until(lambda: n1.to("bad").damaged == 2)
        assert n1.service.status().links[0].filters == 1
        assert "at most 1000" in caplog.text.replace(",", "")
        await works(n1, n2)
        await bad.leave()


async def test_frames_beyond_the_window_do_no_harm() -> None:
    """A node that never waits for acknowledgements: what it sends is taken in order or not at all."""
    network = Network()
    async with members(network, "n1", "n2", wait_s=BRIEF_S, move_s=BRIEF_S) as (n1, n2):
        bad = Hostile(network)
        await bad.join()
        big = encode_item(Ask(1, "x", b"y" * limits.CLUSTER_FRAME_BYTES))
        for _ in range(4 * limits.CLUSTER_WINDOW_BYTES // limits.CLUSTER_FRAME_BYTES):
            bad.items(n1, big)
        await until(lambda: n1.to("bad").link.taken == bad.number)
        await works(n1, n2)
        await bad.leave()


async def test_runs_that_are_none_are_named_and_what_can_be_read_of_them_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=BRIEF_S, move_s=BRIEF_S) as (n1, n2):
        bad = Hostile(network)
        await bad.join()
        phone = await n1.connect("phone")
        await phone.subscribe("#", qos=1)
        good = encode(Publish("a", b"good"), V4)
        for data, count in (
            (b"\xff" * 100, 1),
            (good + b"\x30\x7f", 2),
            (good, 1_000_000_000),
            (encode(Publish("$SYS/broker/version", b"forged"), V4), 1),
            (b"\x30\x05\x00\x03x/#", 1),
        ):
            bad.items(n1, encode_item(CarriedRun(1, count, data, V4, 0)))
        assert await phone.payloads(2) == [b"good", b"good"]
        peer = n1.to("bad")
        await until(lambda: peer.link.taken == 5)
        assert peer.damaged == 4
        assert "a run of 1000000000 messages of which 1 can be read" in caplog.text
        assert n1.broker.status().refused["topic of this node's own of another node"] == 1
        assert await phone.silent()
        await works(n1, n2)
        await bad.leave()
