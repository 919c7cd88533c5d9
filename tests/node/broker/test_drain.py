"""Digests that are gathered, as a receiver behind a real socket meets them: none is lost."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from penstock.model.digest import Cause, Digest
from penstock.model.digest_wire import COMPACT_MARK, to_compact
from penstock.node.config.schema import Config, Queues
from penstock.node.store.tables import STORE, Store
from tests.kit.digests_received import away, body, is_digest
from tests.kit.peer import node
from tests.kit.vitals import pulse

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.mqtt.packets.publish import Publish
    from tests.kit.peer import Peer, Running

SMALL = Config(data="", queues=Queues(events=10))
KEPT: dict[str, Any] = {"clean": False, "session_expiry_s": 100}
VALUES = [70, 150, 71, 72, 30, 73, 74, 75, 160, 76, 77, 78, 79, 170, 80, 81]
"""Pulses: four are kept by the policy, and gaps of normal ones stand between them."""


def policy(digest: str) -> str:
    return f"attribute: pulse\ndigest: {digest}\nlevels: [drop: {{within: [50, 100]}}]"


async def behind(running: Running, digest: str, *, qos: int = 1) -> Peer:
    """A receiver for which more waited than its queue holds; it is away."""
    phone = await running.connect("phone", **KEPT)
    await phone.subscribe("ward/pulse", qos=qos, user=(("policy", policy(digest)),))
    await away(running, phone, "phone")
    sensor = await running.connect("sensor")
    for value in VALUES:
        await sensor.publish1("ward/pulse", pulse(value))
    return sensor


def counted(found: list[Publish]) -> int:
    return sum(body(each)["count"] if is_digest(each) else 1 for each in found)


async def until_told(phone: Peer, count: int = len(VALUES)) -> list[Publish]:
    """All messages until they stand for so many events."""
    found: list[Publish] = []
    while counted(found) < count:
        found.append(await phone.message())
    return found


async def all_but_the_digest(running: Running) -> tuple[Peer, list[Publish]]:
    """The receiver is back and has got the events; digests are gathered."""
    session = running.broker.sessions.get("phone")
    assert session is not None
    queue = session.held["ward/pulse"].queue
    assert queue is not None
    events = queue.statistics().queued
    phone = await running.connect("phone", **KEPT)
    got = [await phone.message() for _ in range(events)]
    assert not any(map(is_digest, got))
    await phone.settled()  # the node has the acknowledgements
    return phone, got


def waiting(running: Running) -> int:
    return running.broker.status().account.queued


@pytest.mark.parametrize("qos", [0, 1])
async def test_digests_come_as_one_when_their_time_is_over(qos: int) -> None:
    async with node(SMALL) as running:
        await behind(running, "{every: 300ms, pulse: [mean]}", qos=qos)
        start_s = asyncio.get_running_loop().time()
        phone = await running.connect("phone", **KEPT)
        found = await until_told(phone)
        assert asyncio.get_running_loop().time() - start_s >= 0.29
        assert [is_digest(each) for each in found] == [False] * (len(found) - 1) + [True]
        assert [body(each)["pulse"] for each in found[:3]] == [150, 30, 160]
        assert body(found[-1])["attributes"]["pulse"]["mean"] == pytest.approx(75, abs=5)
        assert await phone.silent()
        assert running.account_holds()
        assert not waiting(running)


async def test_by_default_a_digest_stands_where_its_events_were() -> None:
    async with node(SMALL) as running:
        await behind(running, "{pulse: [mean]}")
        found = await until_told(await running.connect("phone", **KEPT))
        assert sum(map(is_digest, found)) >= 3
        assert is_digest(found[0])


async def test_meanwhile_the_session_keeps_up() -> None:
    """An event that comes while nothing but a digest waits goes out at once."""
    async with node(SMALL) as running:
        sensor = await behind(running, "{every: 1min}")
        phone, _ = await all_but_the_digest(running)
        await sensor.publish1("ward/pulse", pulse(99))
        assert body(await phone.message())["pulse"] == 99
        session = running.broker.sessions.get("phone")
        assert session is not None
        assert session.delivery.keeping_up
        assert waiting(running) > 0
        assert running.account_holds()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["detached", "taken over", "restarted", "other policy", "subscribed again"])
async def test_a_gathered_digest_outlives(tmp_path: Path, how: str) -> None:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(node(SMALL, store=Store(tmp_path / STORE)))
        sensor = await behind(running, "{every: 1s}")
        phone, got = await all_but_the_digest(running)
        if how == "detached":
            await away(running, phone, "phone")
        elif how == "restarted":
            await stack.aclose()
            running = await stack.enter_async_context(node(SMALL, store=Store(tmp_path / STORE)))
            sensor = await running.connect("sensor")
        elif how == "other policy":
            running.broker.install_policy("phone", "ward/pulse", policy("{every: 2s}"))
        elif how == "subscribed again":
            await phone.subscribe("ward/pulse", qos=1, user=(("policy", policy("{every: 2s}")),))
        if how not in ("other policy", "subscribed again"):
            phone = await running.connect("phone", **KEPT)
        await sensor.publish1("ward/pulse", pulse(98))
        got += await until_told(phone, len(VALUES) + 1 - counted(got))
        assert counted(got) == len(VALUES) + 1
        assert await phone.silent()
        assert running.account_holds()


async def test_digests_gathered_from_disk_are_not_told_twice(tmp_path: Path) -> None:
    """The rows of digests that were merged give way to that of the result, and go with it."""
    digest = Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),))
    store = tmp_path / STORE
    got: list[Publish] = []
    async with node(SMALL, store=Store(store)) as running:
        phone = await running.connect("phone", **KEPT)
        await phone.subscribe("ward/pulse", qos=1, user=(("policy", policy("{every: 300ms}")),))
        await away(running, phone, "phone")
        sensor = await running.connect("sensor")
        for value in (1, 2, 3):
            await sensor.publish1("ward/pulse", to_compact(digest), user=(COMPACT_MARK,))
            await sensor.publish1("ward/pulse", pulse(value))
        phone = await running.connect("phone", **KEPT)
        got += [await phone.message() for _ in range(3)]
        assert not any(map(is_digest, got))
        got.append(await phone.message())
        assert body(got[-1])["count"] == 15
        await phone.settled()
    async with node(SMALL, store=Store(store)) as running:
        phone = await running.connect("phone", **KEPT)
        assert await phone.silent()
        assert not waiting(running)


async def test_a_crash_finds_every_gathered_event_on_disk(tmp_path: Path) -> None:
    """A crash is simulated by a copy of the files, taken while digests are gathered."""
    async with node(SMALL, store=Store(tmp_path / STORE)) as running:
        await behind(running, "{every: 1min}")
        _, got = await all_but_the_digest(running)
        journal = running.broker.journal
        assert journal is not None
        while journal.behind:
            await asyncio.sleep(0.01)
        left = tmp_path / "left"
        left.mkdir()
        for path in tmp_path.glob(f"{STORE}*"):
            (left / path.name).write_bytes(path.read_bytes())
        told = waiting(running)
        assert told + counted(got) == len(VALUES)
    async with node(SMALL, store=Store(left / STORE)) as running:
        assert waiting(running) == told


async def test_several_subscriptions_gather_each_for_itself() -> None:
    async with node(SMALL) as running:
        phone = await running.connect("phone", **KEPT)
        for bed in "abc":
            every = {"a": "{every: 200ms}", "b": "{every: 1h}", "c": "{}"}[bed]
            await phone.subscribe(f"ward/{bed}", qos=1, user=(("policy", policy(every)),))
        await away(running, phone, "phone")
        sensor = await running.connect("sensor")
        for value in VALUES:
            for bed in "abc":
                await sensor.publish1(f"ward/{bed}", pulse(value))
        phone = await running.connect("phone", **KEPT)
        found: dict[str, list[Publish]] = {f"ward/{bed}": [] for bed in "abc"}
        while counted(found["ward/a"]) < len(VALUES) or counted(found["ward/c"]) < len(VALUES):
            message = await phone.message()
            found[message.topic].append(message)
        assert sum(map(is_digest, found["ward/a"])) == 1
        assert sum(map(is_digest, found["ward/b"])) == 0
        assert sum(map(is_digest, found["ward/c"])) >= 3
        assert waiting(running) == len(VALUES) - counted(found["ward/b"])
        assert running.account_holds()
