"""Packets for a kept session leave once the disk has them, and not before."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Connack, Connect, Will
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.node.broker.outbox import Outbox
from penstock.node.config.schema import Config, Queues
from penstock.node.store.tables import STORE, Store
from tests.kit.digests_received import away, body, is_digest
from tests.kit.peer import node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.node.store.database import Row
    from tests.kit.peer import Peer, Running

KEPT = {"clean": False, "session_expiry_s": 1000}
KEPT_BY_VERSION = {V4: {"version": V4, "clean": False}, V5: KEPT}


class Gated(Store):
    """A disk that takes nothing while its gate is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path / STORE)
        self.gate = threading.Event()
        self.gate.set()

    def write(self, rows: Sequence[Row]) -> None:
        assert self.gate.wait(60)
        super().write(rows)


async def on_disk(running: Running) -> None:
    journal = running.broker.journal
    assert journal is not None
    while journal.behind:
        await asyncio.sleep(0.005)


async def killed(running: Running, folder: Path) -> Store:
    """The store as a node that is killed now leaves it."""
    await on_disk(running)
    after = folder / "after"
    after.mkdir()
    for path in folder.glob(f"{STORE}*"):
        shutil.copy(path, after)
    return Store(after / STORE)


async def subscribed(running: Running, *, version: int = V5, **how: object) -> Peer:
    client = await running.connect("c", **KEPT_BY_VERSION[version], **how)
    await client.subscribe("a", "b", qos=2)
    await on_disk(running)
    return client


@pytest.mark.parametrize("version", [V4, V5])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_publish_leaves_when_the_disk_has_it_and_nothing_overtakes_it(
    tmp_path: Path, version: int, qos: int
) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running, version=version)
        passing = await running.connect("p")
        await passing.subscribe("a", qos=2)
        sender = await running.connect("s", version=version)
        disk.gate.clear()
        sender.send(Publish("a", b"1", qos=qos, packet_id=1))
        sender.publish0("b", b"2")
        sender.publish0("a", b"3")
        assert await sender.silent()
        assert [(await passing.expect(Publish)).payload for _ in range(2)] == [b"1", b"3"]
        assert await client.silent()
        disk.gate.set()
        found = [await client.expect(Publish) for _ in range(3)]
        assert [(each.payload, each.qos, each.dup) for each in found] == [
            (b"1", qos, False),
            (b"2", 0, False),
            (b"3", 0, False),
        ]
        assert (await sender.expect(Puback if qos == 1 else Pubrec)).packet_id == 1


async def test_what_is_published_while_a_transaction_is_written_waits_for_the_next(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running)
        sender = await running.connect("s")
        disk.gate.clear()
        sender.send(Publish("a", b"1", qos=2, packet_id=1))
        assert await sender.silent()  # its transaction has begun
        sender.send(Publish("a", b"2", qos=2, packet_id=2))
        assert await sender.silent()
        assert running.broker.journal is not None
        assert running.broker.journal.status().answers == 2
        disk.gate.set()
        assert [(await client.expect(Publish)).payload for _ in range(2)] == [b"1", b"2"]
        assert [(await sender.expect(Pubrec)).packet_id for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("version", [V4, V5])
async def test_pubrel_leaves_when_the_disk_has_the_pubrec(tmp_path: Path, version: int) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running, version=version)
        sender = await running.connect("s")
        sender.send(Publish("a", b"1", qos=2, packet_id=1))
        first = await client.expect(Publish)
        await on_disk(running)
        disk.gate.clear()
        client.send(Pubrec(first.packet_id))
        client.send(Pubrec(first.packet_id))  # once more: answered with the first
        assert await client.silent()
        client.abort()
        client = await running.connect("c", **KEPT_BY_VERSION[version])
        assert client.connack.session_present
        assert await client.silent()
        disk.gate.set()
        assert (await client.expect(Pubrel)).packet_id == first.packet_id
        client.send(Pubcomp(first.packet_id))
        assert await client.silent()


async def test_pubrels_that_wait_leave_in_their_order(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running)
        sender = await running.connect("s")
        for number in range(1, 5):
            sender.send(Publish("a", b"x", qos=2, packet_id=number))
        ids = [(await client.expect(Publish)).packet_id for _ in range(4)]
        await on_disk(running)
        disk.gate.clear()
        for packet_id in ids[:2]:
            client.send(Pubrec(packet_id))
        assert await client.silent()
        for packet_id in ids[2:]:
            client.send(Pubrec(packet_id))
        assert await client.silent()
        disk.gate.set()
        assert [(await client.expect(Pubrel)).packet_id for _ in range(4)] == ids


@pytest.mark.parametrize("version", [V4, V5])
async def test_a_session_that_comes_back_meanwhile_waits_too(tmp_path: Path, version: int) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running, version=version)
        sender = await running.connect("s")
        disk.gate.clear()
        sender.send(Publish("a", b"1", qos=2, packet_id=1))
        sender.send(Publish("a", b"2", qos=2, packet_id=2))
        assert await sender.silent()
        client = await running.connect("c", **KEPT_BY_VERSION[version])  # takes over
        sender.publish0("b", b"3")
        assert await sender.silent()
        assert await client.silent()
        disk.gate.set()
        found = [await client.expect(Publish) for _ in range(3)]
        assert [(each.payload, each.packet_id, each.dup) for each in found] == [
            (b"1", 1, True),
            (b"2", 2, True),
            (b"3", 0, False),
        ]


async def test_a_full_outbox_is_behind_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 500)
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running)
        sender = await running.connect("s")
        disk.gate.clear()
        for number in range(1, 101):
            sender.send(
                Publish("a", b"%0100d" % number, qos=number % 3, packet_id=number if number % 3 else 0)
            )
        assert await sender.silent()
        session = running.broker.sessions.get("c")
        assert session is not None
        assert session.delivery.outbox is not None
        assert session.delivery.outbox.full
        assert 90 < running.broker.status().account.queued < 100
        assert running.account_holds()
        assert await client.silent()
        disk.gate.set()
        assert [int(payload) for payload in await client.payloads(100)] == list(range(1, 101))
        assert running.account_holds()
        assert session.delivery.keeping_up
        assert session.delivery.outbox is None


async def test_topic_aliases_are_introduced_before_they_are_used(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running, topic_alias_maximum=5)
        sender = await running.connect("s")
        disk.gate.clear()
        sender.send(Publish("a", b"1", qos=2, packet_id=1))
        sender.publish0("a", b"2")
        assert await sender.silent()
        disk.gate.set()
        found = [await client.expect(Publish) for _ in range(2)]
        assert [(each.topic, each.properties.topic_alias) for each in found] == [("a", 1), ("", 1)]


async def test_after_a_crash_a_message_comes_again_as_it_was_sent(tmp_path: Path) -> None:
    async with node(store=Gated(tmp_path)) as running:
        sender = await running.connect("s")
        await sender.publish1("a", b"old", retain=True)
        client = await subscribed(running)
        await sender.publish2("b", b"new")
        sent = [await client.expect(Publish) for _ in range(2)]
        assert [(each.payload, each.retain) for each in sent] == [(b"old", True), (b"new", False)]
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT)
        again = [await client.expect(Publish) for _ in range(2)]
        assert [(each.payload, each.retain, each.packet_id, each.dup) for each in again] == [
            (each.payload, each.retain, each.packet_id, True) for each in sent
        ]


async def test_a_session_that_a_clean_start_ended_does_not_come_back_after_a_crash(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        await subscribed(running)
        disk.gate.clear()
        client = await running.dial()
        client.send(Connect(client_id="c", clean_start=True))
        sender = await running.connect("s")
        assert await sender.silent()
        assert client.reader.at_eof() is False
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.readexactly(1), 0.1)  # no CONNACK yet
        disk.gate.set()
        connack = await client.expect(Connack)
        assert not connack.session_present
        store = await killed(running, tmp_path)
        assert [len(each) for each in store.load()] == [0, 0, 0, 0]
        store.close()


async def test_a_will_that_was_published_is_not_published_again_after_a_crash(tmp_path: Path) -> None:
    will = Will("a", b"gone", qos=2, properties=Properties(will_delay_s=1))
    async with node(store=Gated(tmp_path)) as running:
        watcher = await subscribed(running)
        mortal = await running.connect("m", clean=False, session_expiry_s=1000, will=will)
        mortal.abort()
        assert (await watcher.message()).payload == b"gone"
        await watcher.settled()
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        watcher = await running.connect("c", **KEPT)
        mortal_session = running.broker.sessions.get("m")
        assert mortal_session is not None
        assert mortal_session.will is None
        assert await watcher.silent()


@pytest.mark.parametrize("digests", ["on", "off"])
async def test_events_that_a_digest_counts_do_not_come_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digests: str
) -> None:
    monkeypatch.setattr(limits, "FIRM_EVENTS", 5)
    async with node(Config(data="", queues=Queues(events=5)), store=Gated(tmp_path)) as running:
        client = await running.connect("c", **KEPT)
        await client.subscribe("a", qos=1, user=(("digests", digests),))
        await away(running, client, "c")
        sender = await running.connect("s")
        for number in range(20):
            await sender.publish1("a", b"%d" % number)
        client = await running.connect("c", **KEPT)
        sent = [await client.expect(Publish) for _ in range(4 + (digests == "on"))]
        if digests == "on":
            assert is_digest(sent[0])
            assert body(sent[0])["count"] == 16
        assert [each.payload for each in sent[-4:]] == [b"%d" % number for number in range(16, 20)]
        assert await client.silent()
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT)
        again = [await client.expect(Publish) for _ in sent]
        assert {(each.packet_id, each.payload, each.dup) for each in again} == {
            (each.packet_id, each.payload, True) for each in sent
        }
        assert await client.silent()


async def test_messages_that_wait_have_their_packet_identifiers_and_leave_at_once(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running)
        await away(running, client, "c")
        sender = await running.connect("s")
        for number in range(3):
            await sender.publish2("a", b"%d" % number)
        await on_disk(running)
        disk.gate.clear()
        client = await running.connect("c", **KEPT)
        sent = [await client.expect(Publish) for _ in range(3)]
        assert [(each.payload, each.dup) for each in sent] == [(b"0", False), (b"1", False), (b"2", False)]
        client.send(Pubrec(sent[0].packet_id))
        assert await client.silent()
        disk.gate.set()
        assert (await client.expect(Pubrel)).packet_id == sent[0].packet_id
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        sender = await running.connect("s")
        await sender.publish2("a", b"new")
        client = await running.connect("c", **KEPT)
        assert (await client.expect(Pubrel)).packet_id == sent[0].packet_id
        again = [await client.expect(Publish) for _ in range(3)]
        assert [(each.payload, each.packet_id, each.dup) for each in again[:2]] == [
            (each.payload, each.packet_id, True) for each in sent[1:]
        ]
        assert (again[2].payload, again[2].dup) == (b"new", False)
        assert again[2].packet_id not in {each.packet_id for each in sent}


async def test_a_message_that_has_just_begun_to_wait_waits_for_the_disk(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        client = await subscribed(running)
        await away(running, client, "c")
        sender = await running.connect("s")
        disk.gate.clear()
        sender.send(Publish("a", b"x", qos=2, packet_id=1))
        assert await sender.silent()
        client = await running.connect("c", **KEPT)
        assert await client.silent()
        disk.gate.set()
        assert (await client.message()).payload == b"x"


async def test_beyond_the_reserved_identifiers_order_is_kept_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RESERVED_IDS", 4)
    async with node(store=Gated(tmp_path)) as running:
        client = await subscribed(running, receive_maximum=2)
        await away(running, client, "c")
        sender = await running.connect("s")
        for number in range(10):
            await sender.publish1("a", b"%d" % number)
        client = await running.connect("c", **KEPT, receive_maximum=2)
        assert await client.payloads(3) == [b"0", b"1", b"2"]
        for number in range(10, 13):  # identifiers are free, but older messages have none
            await sender.publish1("a", b"%d" % number)
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT)
        found = [await client.expect(Publish) for _ in range(10)]
        assert [int(each.payload) for each in found] == list(range(3, 13))
        assert len({each.packet_id for each in found}) == 10


async def test_identifiers_of_messages_that_do_not_leave_are_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FIRM_EVENTS", 5)
    async with node(Config(data="", queues=Queues(events=5)), store=Gated(tmp_path)) as running:
        client = await subscribed(running)
        await away(running, client, "c")
        sender = await running.connect("s")
        for _ in range(3):
            await sender.publish1("b", bytes(1000))
        session = running.broker.sessions.get("c")
        assert session is not None
        assert len(session.exchange.ids) == 3
        client = await running.connect("c", **KEPT, maximum_packet_size=100)
        assert await client.silent()
        assert len(session.exchange.ids) == 0
        await away(running, client, "c")
        await sender.publish1("a", b"x")
        assert len(session.exchange.ids) == 1
        client = await running.connect("c", **KEPT)
        found = await client.expect(Publish)
        assert (found.payload, found.qos) == (b"x", 1)
        await client.unsubscribe("a")
        client.send(Puback(found.packet_id))
        assert await client.silent()
        assert len(session.exchange.ids) == 0


async def test_a_message_whose_qos_the_client_lowered_waits_for_its_new_identifier(tmp_path: Path) -> None:
    async with node(store=Gated(tmp_path)) as running:
        client = await subscribed(running, receive_maximum=1)
        sender = await running.connect("s")
        await sender.publish2("a", b"1")
        await sender.publish2("a", b"2")  # has an identifier, and waits for the window
        first = await client.expect(Publish)
        await client.subscribe("a", qos=1)
        client.send(Pubrec(first.packet_id))
        await client.expect(Pubrel)
        client.send(Pubcomp(first.packet_id))
        second = await client.expect(Publish)
        assert (second.payload, second.qos) == (b"2", 1)
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT)
        again = await client.expect(Publish)
        assert (again.payload, again.qos, again.packet_id, again.dup) == (b"2", 1, second.packet_id, True)


async def test_connections_that_are_gone_leave_nothing_behind_while_the_disk_takes_nothing(
    tmp_path: Path,
) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        await subscribed(running)
        sender = await running.connect("s")
        disk.gate.clear()
        for number in range(1, 6):
            sender.send(Publish("a", b"%d" % number, qos=2, packet_id=number))
        assert await sender.silent()
        for _ in range(5):  # each takes over
            client = await running.connect("c", **KEPT)
            assert await client.silent()
        gc.collect()
        outboxes = [each for each in gc.get_objects() if isinstance(each, Outbox)]
        disk.gate.set()
        assert len(outboxes) == 1
        assert [int(payload) for payload in await client.payloads(5)] == list(range(1, 6))
        assert await client.silent()


async def test_a_message_that_expired_while_it_waited_does_not_come_after_a_crash(tmp_path: Path) -> None:
    async with node(store=Gated(tmp_path)) as running:
        client = await subscribed(running)
        await away(running, client, "c")
        sender = await running.connect("s")
        await sender.publish2("a", b"first")
        await sender.publish2("a", b"old", message_expiry_s=1)
        await sender.publish2("a", b"last")
        store = await killed(running, tmp_path)
    await asyncio.sleep(1.1)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT)
        assert await client.payloads(2) == [b"first", b"last"]
        assert await client.silent()


async def test_order_is_kept_after_a_crash_whatever_policies_there_were_meanwhile(tmp_path: Path) -> None:
    async with node(store=Gated(tmp_path)) as running:
        client = await subscribed(running)
        await away(running, client, "c")
        sender = await running.connect("s")
        await sender.publish1("a", b"0")
        running.broker.install_policy("c", "a", "levels: [{keep: {latest: 1}}]")
        await sender.publish1("a", b"1")
        running.broker.install_policy("c", "a", None)
        await sender.publish1("a", b"2")
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT)
        assert await client.payloads(3) == [b"0", b"1", b"2"]


async def test_what_is_too_large_for_the_client_is_counted_after_a_crash_too(tmp_path: Path) -> None:
    async with node(store=Gated(tmp_path)) as running:
        client = await subscribed(running)
        await client.subscribe("a", qos=1, user=(("digests", "on"),))
        await away(running, client, "c")
        sender = await running.connect("s")
        for payload in (b"1", b"x" * 500, b"3"):
            await sender.publish1("a", payload)
        store = await killed(running, tmp_path)
    async with node(store=store) as running:
        client = await running.connect("c", **KEPT, maximum_packet_size=200, topic_alias_maximum=1)
        found = [await client.message() for _ in range(3)]
        assert [is_digest(each) for each in found] == [False, True, False]
        assert body(found[1])["count"] == 1
        assert [found[0].payload, found[2].payload] == [b"1", b"3"]
        assert await client.silent()
        account = running.broker.status().account
        assert (account.accepted, account.delivered, account.digested, account.oversized) == (3, 2, 1, 1)


async def test_a_clean_start_that_waits_for_the_disk_does_not_end_a_later_connection(tmp_path: Path) -> None:
    disk = Gated(tmp_path)
    async with node(store=disk) as running:
        await subscribed(running)
        disk.gate.clear()
        first = await running.dial()
        first.send(Connect(client_id="c", clean_start=True))
        await (await running.connect("s")).settled()
        first.abort()  # the client has waited long enough
        client = await running.dial()
        client.send(Connect(client_id="c", clean_start=True))
        await (await running.connect("s")).settled()
        early = None
        with suppress(TimeoutError):  # the old session is still on disk
            early = await asyncio.wait_for(client.reader.readexactly(1), 0.1)
        disk.gate.set()
        assert early is None
        assert not (await client.expect(Connack)).session_present
        await client.subscribe("a", qos=1)
        assert await client.silent()
        assert running.broker.status().attached == 2
