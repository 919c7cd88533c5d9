"""The pace of a session: measured at a real connection, and only where a queue keeps time."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Client
from penstock.errors import PolicyError, SubscribeRefused
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.node.broker.pacing import Pacing
from penstock.node.config.schema import Config, Queues
from penstock_lab.rigs.way import SlowLink
from tests.kit.peer import node

if TYPE_CHECKING:
    from penstock.node.broker.link import Link

POLICY = "{attribute: pulse, urgent: {gt: 100}, levels: [{drop: {older: 0.2}}, {keep: {latest: 3}}]}"
LEVELS = "levels: [{keep: {latest: 3}}]"
BYTES_PER_S = 8_000


class FakeQueue:
    bytes = 400

    def __len__(self) -> int:
        return 4


class FakeSubscription:
    queue = FakeQueue()


class FakeSession:
    """A session, its connection and the output of that, whose progress the test sets."""

    def __init__(self) -> None:
        self.link: Link | None = self  # type: ignore[assignment]
        self.output = self
        self.waiting = [FakeSubscription()]
        self.in_flight = 0
        self.taken = self.outside = 0

    def progress(self) -> tuple[int, int]:
        return self.taken, self.outside


def test_what_is_taken_while_something_waits_is_the_pace() -> None:
    session = FakeSession()
    pacing = Pacing(session)  # type: ignore[arg-type]
    pacing.glance(10_000_000)
    for step in range(1, 101):
        session.taken, session.outside = step * 100, 500
        pacing.look(10_000_000 + step * 20_000)
    assert pacing.pace.per_s == pytest.approx(5_000)
    assert pacing.pace.outside == 500


def test_a_moment_without_a_queue_does_not_make_a_receiver_slower() -> None:
    """Bytes outside are still taken while the queues are empty; running dry says nothing of a pace."""
    session = FakeSession()
    pacing = Pacing(session)  # type: ignore[arg-type]
    now_us = 10_000_000
    pacing.glance(now_us)
    for _ in range(50):
        session.taken += 100
        now_us += 20_000
        pacing.look(now_us)
        pacing.drained(now_us)
        session.taken += 500  # as fast as before
        now_us += 100_000
        pacing.glance(now_us)
    assert pacing.pace.per_s == pytest.approx(5_000, rel=0.1)
    now_us += 1_000_000  # nothing to send
    pacing.drained(now_us - 1_000_000)
    pacing.glance(now_us)
    assert pacing.pace.per_s == pytest.approx(5_000, rel=0.1)


def test_messages_in_flight_are_not_taken() -> None:
    session = FakeSession()
    pacing = Pacing(session)  # type: ignore[arg-type]
    session.taken, session.outside, session.in_flight = 5_000, 0, 10
    pacing.look(1)
    assert pacing.pace.outside == 10 * 106


def test_a_lost_connection_is_forgotten() -> None:
    session = FakeSession()
    pacing = Pacing(session)  # type: ignore[arg-type]
    pacing.glance(1_000_000)
    session.taken = 10_000
    pacing.look(3_000_000)
    assert pacing.pace.per_s
    session.link = None
    pacing.lost()
    pacing.look(4_000_000)
    assert pacing.pace.per_s is None


@pytest.mark.slow
async def test_a_slow_client_gets_what_is_new_and_urgent_events_at_once() -> None:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(node(Config(queues=Queues(fresh_s=0.5))))
        link = await stack.enter_async_context(SlowLink(world.port, bytes_per_s=BYTES_PER_S))
        slow = await stack.enter_async_context(Client(f"mqtt://127.0.0.1:{link.port}", client_id="slow"))
        fast = await stack.enter_async_context(Client(f"mqtt://127.0.0.1:{world.port}", client_id="fast"))
        wanted = await slow.subscribe("t/#", policy=POLICY)
        got: list[tuple[float, Event | Digest]] = []

        async def listen() -> None:
            async for item in wanted:
                got.append((loop.time(), item))  # noqa: PERF401  # each has its own time

        loop = asyncio.get_running_loop()
        listening = asyncio.create_task(listen())
        sent = 0
        start_s = loop.time()
        while loop.time() - start_s < 3:
            for _ in range(5):
                pulse = 150 if sent % 100 == 0 else 70
                body = {"pulse": pulse, "seq": sent, "at": loop.time()}
                fast.publish_nowait("t/1", json.dumps(body).encode())
                sent += 1
            await asyncio.sleep(0.02)
        (client,) = [each for each in world.broker.status().clients if each.client_id == "slow"]
        (subscription,) = client.subscriptions
        assert subscription.fresh_us == 500_000
        assert subscription.packs_in_time > 0
        assert 0 < subscription.bytes_per_s < 4 * BYTES_PER_S
        while _told(got) < sent:
            await asyncio.sleep(0.05)
        listening.cancel()
    read = [(at_s, json.loads(item.payload)) for at_s, item in got if isinstance(item, Event)]
    assert len(read) < sent, "the link cannot carry everything"
    urgent = [(at_s - body["at"], body["seq"]) for at_s, body in read if body["pulse"] > 100]
    assert [seq for _, seq in urgent] == list(range(0, sent, 100)), "none is lost, and their order stays"
    others = [body["seq"] for _, body in read if body["pulse"] <= 100]
    assert others == sorted(others)


def _told(got: list[tuple[float, Event | Digest]]) -> int:
    return sum(item.count if isinstance(item, Digest) else 1 for _, item in got)


async def test_a_client_asks_for_its_own_time() -> None:
    async with node() as world, Client(f"mqtt://127.0.0.1:{world.port}", client_id="me") as client:
        await client.subscribe("a", policy=POLICY, fresh="250ms")
        await client.subscribe("b", policy=POLICY, fresh=2)
        await client.subscribe("c", policy=POLICY)
        found = {
            one.filter: one.fresh_us for each in world.broker.status().clients for one in each.subscriptions
        }
        assert found == {"a": 250_000, "b": 2_000_000, "c": 0}
        with pytest.raises(SubscribeRefused, match="expected a time like 500ms"):
            await client.subscribe("d", policy=POLICY, fresh="-1s")
        with pytest.raises(SubscribeRefused, match="without a policy has no levels"):
            await client.subscribe("e", fresh="1s")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"policy": POLICY, "fresh": "0"}, r"fresh: expected a time like 500ms.*; allowed: 1ms to 24h"),
        ({"policy": POLICY, "fresh": 0}, r"fresh: expected a time .*; allowed: 1ms to 24h"),
        ({"policy": f"fresh: -1s\n{LEVELS}"}, r"1:8 fresh: expected a time like .*; allowed: 1ms to 24h"),
        ({"policy": f"fresh: 0\n{LEVELS}"}, r"1:8 fresh: expected a time above 0 .*; allowed: 1ms to 24h"),
        ({"policy": f"urgent: {{latest: 3}}\n{LEVELS}"}, r"1:10 urgent: 'latest' .*; allowed: gt, ge, eq"),
        ({"policy": f"digest: {{share: 1.5}}\n{LEVELS}"}, r"1:17 digest.share: .* found 1.5; allowed: 0.1"),
    ],
)
async def test_a_wrong_time_is_refused_with_its_place(given: dict[str, Any], says: str) -> None:
    async with node() as world, Client(f"mqtt://127.0.0.1:{world.port}", client_id="me") as client:
        with pytest.raises((SubscribeRefused, PolicyError), match=says):
            await client.subscribe("d", **given)
        assert [each.subscriptions for each in world.broker.status().clients] == [()]
