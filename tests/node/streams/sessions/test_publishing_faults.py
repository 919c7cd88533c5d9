"""Messages for streams that are refused, sent again, large, or come while a node starts."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.core.streams import StreamOptions
from penstock.core.streams.log import MemoryLog
from penstock.core.streams.messages import Data
from penstock.mqtt.codes import V4
from penstock.mqtt.packets.connect import Will
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Pubcomp, Publish, Pubrec, Pubrel
from penstock.node.streams.tree.driver import CoreDriver
from tests.kit.peer import run
from tests.kit.stream_nodes import streams_node
from tests.kit.stream_sessions import KEPT, hold_commits
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from penstock.core.streams.messages import Message


@pytest.mark.parametrize("version", [4, 5])
async def test_a_qos_2_message_that_was_refused_is_taken_when_it_comes_again(version: int) -> None:
    how: dict[str, Any] = {"clean": False, "version": version}
    if version == 5:
        how["session_expiry_s"] = 1000
    async with streams_node() as running:
        peer = await running.connect("p", **how)
        fault: Any = running.orders.log
        fault._damage = "no disk"
        peer.send(Publish("orders/a", b"1", qos=2, packet_id=7))
        if version == V4:
            assert await peer.next() is None
            peer = await running.connect("p", **how)
            assert peer.connack.session_present
        else:
            assert (await peer.expect(Pubrec)).reason >= 0x80
        fault._damage = ""
        peer.send(Publish("orders/a", b"1", qos=2, packet_id=7, dup=version == V4))
        assert (await peer.expect(Pubrec)).reason == 0
        peer.send(Pubrel(7))
        assert await peer.expect(Pubcomp) == Pubcomp(7)
        assert await running.payloads() == [b"1"]


@pytest.mark.parametrize(
    "message",
    [
        Publish("orders/a", b"x" * 20_000),
        Publish("orders/a", b"x", properties=Properties(content_type="text/plain")),
        Publish("orders/a", b"x", retain=True),
    ],
    ids=["large", "with properties", "retained"],
)
async def test_who_publishes_any_qos_0_message_without_waiting_is_slowed(
    monkeypatch: pytest.MonkeyPatch, message: Publish
) -> None:
    monkeypatch.setattr("penstock.limits.STREAM_UNLOGGED", 50)
    async with streams_node() as running:
        peer = await running.connect("p")
        go_on = hold_commits(running)
        for _ in range(100):
            peer.raw(encode(message, peer.version))
        await until(lambda: running.orders.pubend.statistics().waiting > 50)
        session = running.broker.sessions.get("p")
        assert session is not None
        link: Any = session.link
        await until(lambda: not link.reading)
        go_on()
        await peer.settled()
        await until(lambda: running.orders.pubend.published == 100)
        assert link.reading


async def test_a_release_that_comes_again_is_not_answered_before_it_is_on_disk(tmp_path: Path) -> None:
    async with streams_node(data=tmp_path) as running:
        peer = await running.connect("p", **KEPT)
        peer.send(Publish("orders/a", b"", qos=2, packet_id=1))
        await peer.expect(Pubrec)
        commits: Any = running.streams.state._commits
        real = commits._backlog
        stuck = threading.Event()

        class Slow:
            def write(self, work: Any) -> None:
                stuck.wait(20)
                real.write(work)

            def __getattr__(self, attribute: str) -> Any:
                return getattr(real, attribute)

        commits._backlog = Slow()
        peer.send(Pubrel(1))
        assert await peer.silent()
        peer.abort()
        again = await running.connect("p", **KEPT)
        again.send(Pubrel(1))
        await asyncio.sleep(0.05)  # the journal has written by now
        assert await again.silent()
        stuck.set()
        assert (await again.expect(Pubcomp)).packet_id == 1


def test_a_will_that_is_due_when_the_node_starts_is_logged(tmp_path: Path) -> None:
    will = Will(topic="orders/will", payload=b"gone", qos=1, properties=Properties(will_delay_s=1))

    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            await running.connect("p", will=will, **KEPT)

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            await until(lambda: running.orders.pubend.published == 1)
            assert await running.payloads() == [b"gone"]

    run(before())
    asyncio.run(asyncio.sleep(1.1))
    run(after())


def test_a_retained_message_of_the_log_is_known_by_its_tick_after_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with streams_node(data=tmp_path) as running:
            peer = await running.connect("p")
            journal = running.broker.journal
            assert journal is not None
            await peer.publish1("orders/a", b"first", retain=True)
            journal.retained = lambda event: None  # type: ignore[method-assign]  # noqa: ARG005  # killed before
            await peer.publish1("orders/a", b"second", retain=True)

    async def after() -> None:
        async with streams_node(data=tmp_path) as running:
            kept = running.broker.retained.get("orders/a", now_us=0)
            assert kept is not None
            assert kept.payload == b"second"
            assert dict(kept.properties)["stream"] == "orders"

    run(before())
    run(after())


def fails(_: object) -> None:
    raise RuntimeError("a fault of ours")


def test_a_link_that_fails_keeps_nothing_from_others(caplog: pytest.LogCaptureFixture) -> None:
    driver = CoreDriver.make("here", StreamOptions(), clock=lambda: 1_000_000)
    log = MemoryLog()
    pubend = driver.core.host("orders", log, now_us=1_000_000)
    sent: list[Message] = []
    acknowledged: list[int] = []
    for name, send in (("one", fails), ("other", sent.append)):
        driver.core.attach("orders", name)
        driver.links[name] = send
    driver.acknowledged["orders"] = acknowledged.extend
    tick = pubend.publish(b"x", now_us=1_000_000)
    until, claimed = log.commit()
    pubend.committed(until, claimed=claimed, now_us=1_000_000)
    driver.changed("orders")
    assert [one.tick for one in sent if isinstance(one, Data)] == [tick]
    assert acknowledged == [tick]
    assert "a fault of ours" in caplog.text


async def test_a_node_ends_though_somebody_fails(tmp_path: Path) -> None:
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: failed.append(said))
    async with streams_node(data=tmp_path) as running:
        running.orders.on_end.append(fails)
        running.broker.publish("orders/a", b"")
    assert failed
