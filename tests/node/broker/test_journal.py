"""State that survives a restart, and failures of the disk."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from penstock import limits
from penstock.errors import StoreError
from penstock.model.digest import Cause, Digest
from penstock.model.digest_wire import JSON_MARK, digest_in, to_json
from penstock.mqtt.codes import V4, V5, Reason
from penstock.mqtt.packets.connect import Disconnect, Pingreq, Pingresp, Will
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock.node.broker.journal import Journal
from penstock.node.broker.message import message_of, qos_of
from penstock.node.broker.records import MessageState, digest_from, message_from, session_facts
from penstock.node.config.schema import Bounds, Config, Queues
from penstock.node.store.tables import PUT_RETAINED, STORE, Store
from tests.kit.digests_received import away, body, is_digest
from tests.kit.peer import Running, node, run
from tests.kit.vitals import VITALS, pulse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.model.event import Event
    from penstock.node.store.database import Row

KEPT = {"clean": False, "session_expiry_s": 1000}


@pytest.fixture(autouse=True)
def a_full_disk_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.05)


def store(path: Path) -> Store:
    return Store(path / STORE)


def test_retained_messages_survive(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(store=store(tmp_path)) as running:
            sender = await running.connect("s")
            await sender.publish1("a/1", b"one", retain=True, content_type="text/plain", user=(("k", "v"),))
            await sender.publish1("a/2", b"two", retain=True)
            await sender.publish1("a/2", b"", retain=True)

    async def after() -> None:
        async with node(store=store(tmp_path)) as running:
            client = await running.connect("c")
            await client.subscribe("a/#")
            found = await client.message()
            assert (found.topic, found.payload, found.retain) == ("a/1", b"one", True)
            assert found.properties == Properties(content_type="text/plain", user=(("k", "v"),))
            assert await client.silent()

    run(before())
    run(after())


def test_sessions_their_subscriptions_and_queues_survive(tmp_path: Path) -> None:
    config = Config(data="", queues=Queues(events=10))

    async def before() -> None:
        async with node(config, store=store(tmp_path)) as running:
            client = await running.connect("c", **KEPT)
            await client.subscribe("ward", qos=1, number=3, user=(("policy", VITALS),))
            await client.subscribe("plain", qos=2)
            await client.subscribe("zero", qos=0)
            await away(running, client, "c")
            sender = await running.connect("s")
            for value in (60, 61, 62, 150, 63, 64, 65, 66, 67, 68, 69, 30):
                await sender.publish1("ward", pulse(value))
            await sender.publish2("plain", b"two")
            sender.publish0("zero", b"zero")
            await sender.settled()

    async def after() -> None:
        async with node(config, store=store(tmp_path)) as running:
            status = running.broker.status()
            assert [each.filter for each in status.clients[0].subscriptions] == ["ward", "plain", "zero"]
            assert status.clients[0].subscriptions[0].policy == "vitals"
            client = await running.connect("c", **KEPT)
            assert client.connack.session_present
            found = [
                await client.message() for _ in range(sum(s.items for s in status.clients[0].subscriptions))
            ]
            ward = [each for each in found if each.topic == "ward"]
            assert {each.properties.subscription_ids for each in ward} == {(3,)}
            assert sum(body(each)["count"] if is_digest(each) else 1 for each in ward) == 12
            assert 150 in [body(each).get("pulse") for each in ward]
            assert [each.payload for each in found if each.topic != "ward"] == [b"two", b"zero"]
            assert running.account_holds()
            assert await client.silent()

    async def empty() -> None:
        async with node(config, store=store(tmp_path)) as running:
            assert running.broker.status().account.queued == 0
            client = await running.connect("c", **KEPT)
            assert client.connack.session_present
            assert await client.silent()

    run(before())
    run(after())
    run(empty())


def test_what_is_in_flight_is_sent_again_with_its_packet_identifier(tmp_path: Path) -> None:
    async def before() -> tuple[int, int, int]:
        async with node(store=store(tmp_path)) as running:
            client = await running.connect("c", **KEPT)
            await client.subscribe("a", qos=2)
            sender = await running.connect("s")
            await sender.publish1("a", b"one")
            await sender.publish2("a", b"two")
            await sender.publish2("a", b"received")
            found = [await client.expect(Publish) for _ in range(3)]
            client.send(Pubrec(found[2].packet_id))
            await client.expect(Pubrel)
            first, second, third = (each.packet_id for each in found)
            return first, second, third

    async def after(ids: tuple[int, int, int]) -> None:
        async with node(store=store(tmp_path)) as running:
            client = await running.connect("c", **KEPT)
            assert (await client.expect(Pubrel)).packet_id == ids[2]
            again = [await client.expect(Publish) for _ in range(2)]
            assert [(each.packet_id, each.qos, each.dup, each.payload) for each in again] == [
                (ids[0], 1, True, b"one"),
                (ids[1], 2, True, b"two"),
            ]
            client.send(Pubcomp(ids[2]))
            client.send(Puback(ids[0]))
            client.send(Pubrec(ids[1]))
            await client.expect(Pubrel)
            client.send(Pubcomp(ids[1]))
            assert await client.silent()

    async def nothing() -> None:
        async with node(store=store(tmp_path)) as running:
            client = await running.connect("c", **KEPT)
            assert await client.silent()

    run(after(run(before())))
    run(nothing())


def test_a_qos_2_message_repeated_after_a_restart_is_not_delivered_twice(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(store=store(tmp_path)) as running:
            receiver = await running.connect("r", **KEPT)
            await receiver.subscribe("a", qos=2)
            sender = await running.connect("s", **KEPT)
            sender.send(Publish("a", b"x", qos=2, packet_id=5))
            await sender.expect(Pubrec)
            assert (await receiver.message()).payload == b"x"
            await receiver.settled()

    async def after() -> None:
        async with node(store=store(tmp_path)) as running:
            receiver = await running.connect("r", **KEPT)
            sender = await running.connect("s", **KEPT)
            sender.send(Publish("a", b"x", qos=2, packet_id=5, dup=True))
            await sender.expect(Pubrec)
            sender.send(Pubrel(5))
            assert (await sender.expect(Pubcomp)).reason == 0
            assert await receiver.silent()

    run(before())
    run(after())


def test_a_session_that_is_not_to_be_kept_leaves_nothing(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(store=store(tmp_path)) as running:
            passing = await running.connect("passing")
            await passing.subscribe("a", qos=1)
            kept = await running.connect("kept", **KEPT)
            await kept.subscribe("a", qos=1)
            kept.send(Disconnect(properties=Properties(session_expiry_s=0)))
            assert await kept.closed()

    run(before())
    assert [len(each) for each in store(tmp_path).load()] == [0, 0, 0, 0]


@pytest.mark.slow  # it waits for seconds
def test_expiry_and_wills_go_on_after_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(store=store(tmp_path)) as running:
            will = Will("gone", b"w", properties=Properties(will_delay_s=4))
            client = await running.connect("c", clean=False, session_expiry_s=5, will=will)
            await away(running, client, "c")

    async def after() -> None:
        async with node(store=store(tmp_path)) as running:
            watcher = await running.connect("w")
            await watcher.subscribe("gone")
            assert (await watcher.message()).payload == b"w"
            while running.broker.status().sessions > 1:
                await asyncio.sleep(0.05)

    run(before())
    run(after())


async def test_nothing_is_acknowledged_before_it_is_on_disk(tmp_path: Path) -> None:
    class Slow(Store):
        let = False

        def write(self, rows: object) -> None:
            while not self.let:
                time.sleep(0.001)
            super().write(rows)  # type: ignore[arg-type]

    slow = Slow(tmp_path / STORE)
    slow.let = True
    async with node(store=slow) as running:
        client = await running.connect("c", **KEPT)
        await client.subscribe("a", qos=1)
        sender = await running.connect("s")
        slow.let = False
        sender.send(Publish("a", b"x", qos=1, packet_id=1))
        assert await sender.silent()
        assert await client.silent()  # its packet identifier must be on disk, too
        slow.let = True
        assert (await sender.expect(Puback)).packet_id == 1
        assert (await client.expect(Publish)).payload == b"x"


async def test_a_client_is_not_held_up_by_what_others_had_written(tmp_path: Path) -> None:
    async with node(store=store(tmp_path)) as running:
        await running.connect("kept", **KEPT)
        journal = running.broker.journal
        assert journal is not None
        while journal.behind:
            await asyncio.sleep(0.01)
        passing = await running.connect("p", version=4)
        await passing.subscribe("a", qos=1)
        assert (await passing.publish1("b", b"x")).packet_id


async def test_answers_come_in_the_order_of_their_messages(tmp_path: Path) -> None:
    async with node(store=store(tmp_path)) as running:
        kept = await running.connect("kept", **KEPT)
        await kept.subscribe("k", qos=1)
        passing = await running.connect("p")
        await passing.subscribe("n", qos=1)
        sender = await running.connect("s")
        for packet_id, topic in enumerate(("k", "n", "k", "n", "nobody"), start=1):
            sender.send(Publish(topic, b"x", qos=1, packet_id=packet_id))
        assert [(await sender.expect(Puback)).packet_id for _ in range(5)] == [1, 2, 3, 4, 5]


def test_what_a_departed_member_of_a_group_leaves_survives_with_another(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(store=store(tmp_path)) as running:
            first = await running.connect("first", session_expiry_s=1, receive_maximum=1)
            await first.subscribe("$share/g/job", qos=1)
            sender = await running.connect("s")
            for number in range(3):  # one in flight, two wait
                await sender.publish1("job", b"%d" % number)
            other = await running.connect("other", **KEPT)
            await other.subscribe("$share/g/job", qos=1)
            other.abort()
            first.abort()
            while any(one.client_id == "first" for one in running.broker.status().clients):
                await asyncio.sleep(0.01)

    async def after() -> None:
        async with node(store=store(tmp_path)) as running:
            other = await running.connect("other", **KEPT)
            assert await other.payloads(3) == [b"0", b"1", b"2"]

    run(before())
    run(after())


def written(path: Path, client_id: str) -> list[int]:
    """How many events each row of a session's messages stands for, as a crash would leave them."""
    with sqlite3.connect(path) as database:
        rows = database.execute(
            "SELECT state, body FROM message WHERE client_id = ? ORDER BY place", (client_id,)
        ).fetchall()
    database.close()
    digests = [
        digest_from(body) if state == MessageState.DIGEST else digest_in(message_from(body))
        for state, body in rows
    ]
    return [1 if digest is None else digest.count for digest in digests]


@pytest.mark.parametrize("seed", range(6))
async def test_digests_of_all_sessions_are_written_and_take_no_others_place(
    tmp_path: Path, seed: int
) -> None:
    dice = Random(seed)
    policies = {"a": "drop: {within: [50, 100]}", "b": "keep: {latest: 3}", "c": "drop: {gt: 100}"}

    def waiting(running: Running, client_id: str) -> list[int]:
        session = running.broker.sessions.get(client_id)
        assert session is not None
        queue = session.held["ward/pulse"].queue
        assert queue is not None
        items = [item for item in queue.items() if isinstance(item, Digest) or qos_of(cast("Event", item))]
        return sorted(item.count if isinstance(item, Digest) else 1 for item in items)

    async with node(Config(data="", queues=Queues(events=10)), store=store(tmp_path)) as running:
        for name, policy in policies.items():
            phone = await running.connect(name, session_expiry_s=100)
            asked = (("policy", f"attribute: pulse\nlevels: [{{{policy}}}]"),)
            await phone.subscribe("ward/pulse", qos=1, user=asked)
            await away(running, phone, name)
        sensor = await running.connect("sensor")
        said = json.dumps(to_json(Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),)))).encode()
        for _ in range(60):
            if dice.random() < 0.1:
                await sensor.publish1("ward/pulse", said, user=(JSON_MARK,))
            elif dice.random() < 0.3:
                sensor.publish0("ward/pulse", pulse(dice.choice([70, 150])))
            else:
                await sensor.publish1("ward/pulse", pulse(dice.choice([70, 150])))
        await sensor.settled()
        assert running.broker.journal is not None
        while running.broker.journal.behind:
            await asyncio.sleep(0.01)
        for name in policies:
            assert sorted(written(tmp_path / STORE, name)) == waiting(running, name)


async def test_digests_that_were_merged_and_taken_do_not_come_again(tmp_path: Path) -> None:
    async with node(store=store(tmp_path)) as running:
        phone = await running.connect("phone", **KEPT)
        await phone.subscribe("a", qos=1, user=(("policy", "levels: [{keep: {latest: 3}}]"),))
        await away(running, phone, "phone")
        sensor = await running.connect("sensor")
        said = json.dumps(to_json(Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),)))).encode()
        for _ in range(3):
            await sensor.publish1("a", said, user=(JSON_MARK,))
        assert written(tmp_path / STORE, "phone") == [15]
        phone = await running.connect("phone", **KEPT)
        assert body(await phone.message())["count"] == 15
        assert await phone.silent()
        assert running.broker.journal is not None
        while running.broker.journal.behind:
            await asyncio.sleep(0.01)
        assert written(tmp_path / STORE, "phone") == []


class Full(Store):
    """A disk that can be full."""

    full = False

    def write(self, rows: Sequence[Row]) -> None:
        if self.full:
            raise StoreError("database or disk is full; free some space on its disk", self.path)
        super().write(rows)


async def test_a_full_disk_holds_back_what_it_must_have_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Full(tmp_path / STORE)
    async with node(store=disk) as running:
        client = await running.connect("c", **KEPT)
        await client.subscribe("kept", qos=1)
        passing = await running.connect("p")
        await passing.subscribe("passing", qos=1)
        disk.full = True
        sender = await running.connect("s")
        sender.send(Publish("kept", b"x", qos=1, packet_id=1))
        while running.broker.journal is not None and not running.broker.journal.fault:
            await asyncio.sleep(0.01)
        status = running.broker.status()
        assert status.store is not None
        assert (status.store.rows > 0, status.store.answers) == (True, 1)
        (fault,) = status.faults
        assert "free some space" in fault
        assert "1 answers to publishers wait" in fault
        other = await running.connect("o")
        assert (await other.publish1("passing", b"y")).reason == 0
        assert (await passing.message()).payload == b"y"
        assert await sender.silent()
        assert await client.silent()
        disk.full = False
        assert (await sender.expect(Puback)).packet_id == 1
        assert (await client.expect(Publish)).payload == b"x"
        assert running.broker.status().faults == ()
    assert "disk is full" in caplog.text
    assert "wait for their acknowledgement" in caplog.text
    assert "can be written again" in caplog.text


def test_what_waits_for_a_full_disk_is_only_the_newest_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    class Counting(Full):
        def write(self, rows: Sequence[Row]) -> None:
            tries.append(len(rows))
            super().write(rows)

    async def test() -> None:
        disk = Counting(tmp_path / STORE)
        async with node(store=disk) as running:
            client = await running.connect("c", **KEPT)
            disk.full = True
            for number in range(100):
                client.publish0("a", b"%d" % number, retain=True)
                client.publish0("b", b"%d" % number if number % 2 else b"", retain=True)
                client.send(Subscribe(number + 1, (Subscription(f"f/{number % 3}"),)))
                client.send(Pubrel(1))
                await client.settled()
            before = len(tries)
            while len(tries) < before + 3:
                await asyncio.sleep(0.001)
            assert tries[-1] == 4, "two topics, a session, a packet identifier"
            disk.full = False

    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.01)
    run(test())
    file = Store(tmp_path / STORE)
    found = file.load()
    file.close()
    assert [message_from(body).payload for _, body in found.retained] == [b"99", b"99"]
    (facts,) = [session_facts(body) for _, body in found.sessions]
    assert len(facts.subscriptions) == 3


async def test_what_a_full_disk_does_not_take_at_the_end_is_said(tmp_path: Path) -> None:
    disk = Full(tmp_path / STORE)
    disk.full = True
    journal = Journal(disk)
    journal.start()
    journal.retained(message_of("a", b"x", topic_bytes=b"a", now_us=1))
    with pytest.raises(StoreError, match=r"1 rows could not be written: .*disk is full"):
        await journal.close()


@pytest.mark.parametrize("qos", [1, 2])
async def test_when_too_much_waits_for_the_disk_messages_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    disk = Full(tmp_path / STORE)
    async with node(store=disk) as running:
        kept = await running.connect("kept", **KEPT)
        await kept.subscribe("a", qos=2)
        await away(running, kept, "kept")
        new, old = await running.connect("new"), await running.connect("old", version=V4, clean=False)
        assert running.broker.journal is not None
        while running.broker.journal.behind:
            await asyncio.sleep(0.01)
        disk.full = True
        monkeypatch.setattr(limits, "JOURNAL_ROWS", 0)
        first = await running.connect("first")
        first.send(Publish("a", b"first", qos=1, packet_id=1))  # accepted, and waits
        while not running.broker.status().faults:
            await asyncio.sleep(0.01)
        new.send(Publish("a", b"more", qos=qos, packet_id=2))
        refused = await new.expect(Puback if qos == 1 else Pubrec)
        assert (refused.packet_id, refused.reason) == (2, Reason.QUOTA_EXCEEDED)
        old.send(Publish("a", b"old", qos=qos, packet_id=7))
        assert await old.closed()
        assert running.broker.status().refused["store behind"] == 1
        disk.full = False
        assert (await first.expect(Puback)).packet_id == 1
        monkeypatch.undo()
        old = await running.connect("old", version=V4, clean=False)
        old.send(Publish("a", b"old", qos=qos, packet_id=7, dup=True))
        assert (await old.expect(Puback if qos == 1 else Pubrec)).packet_id == 7
        kept = await running.connect("kept", **KEPT)
        assert await kept.payloads(2) == [b"first", b"old"]


async def full_disk(running: Running, disk: Full) -> None:
    """Fill the disk when all is written, and wait until a message has noticed."""
    journal = running.broker.journal
    assert journal is not None
    while journal.behind:
        await asyncio.sleep(0.01)
    disk.full = True
    other = await running.connect("other")
    other.send(Publish("a", b"y", qos=1, packet_id=1))
    while not journal.fault:
        await asyncio.sleep(0.01)


def answers(running: Running) -> int:
    store = running.broker.status().store
    assert store is not None
    return store.answers


async def test_a_message_that_is_repeated_while_the_disk_is_full_is_answered_once(tmp_path: Path) -> None:
    disk = Full(tmp_path / STORE)
    async with node(store=disk) as running:
        kept = await running.connect("kept", **KEPT)
        await kept.subscribe("a", qos=2)
        sender = await running.connect("s", **KEPT)
        sender.send(Publish("a", b"x", qos=2, packet_id=5))
        await sender.expect(Pubrec)
        await full_disk(running, disk)
        for _ in range(50):
            sender.send(Publish("a", b"x", qos=2, packet_id=5, dup=True))
        sender.send(Pingreq())
        await sender.expect(Pingresp)
        assert answers(running) == 2  # of this message, and of the one that has noticed
        disk.full = False
        assert (await sender.expect(Pubrec)).packet_id == 5
        assert await sender.silent()


async def test_messages_released_before_their_answer_do_not_add_up_while_the_disk_is_full(
    tmp_path: Path,
) -> None:
    disk = Full(tmp_path / STORE)
    async with node(Config(bounds=Bounds(receive_maximum=10)), store=disk) as running:
        kept = await running.connect("kept", **KEPT)
        await kept.subscribe("a", qos=2)
        sender = await running.connect("s", **KEPT)
        await full_disk(running, disk)
        for _ in range(100):
            sender.send(Publish("a", b"x", qos=2, packet_id=5))
            sender.send(Pubrel(5))
        assert (await sender.expect(Disconnect)).reason == Reason.RECEIVE_MAXIMUM_EXCEEDED
        assert answers(running) <= 2 * 11  # PUBREC and PUBCOMP of each, and of the one that has noticed
        disk.full = False
        assert len(await kept.payloads(11)) == 11


async def test_a_client_does_not_wait_for_a_full_disk_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Full(tmp_path / STORE)
    async with node(store=disk) as running:
        left = await running.connect("c", **KEPT)
        await left.subscribe("a", qos=1)
        await full_disk(running, disk)
        before = answers(running)
        # Only now: a client of this test may take its time for a CONNECT.
        monkeypatch.setattr(running.broker, "config", Config(bounds=Bounds(connect_s=0.2)))
        for version in (V5, V4, V5):
            client = await running.connect("c", version=version)
            assert client.connack.reason == Reason.SERVER_UNAVAILABLE
        assert answers(running) == before + 1  # however often it came
        monkeypatch.undo()
        disk.full = False
        again = await running.connect("c")
        assert (again.connack.reason, again.connack.session_present) == (0, False)
        assert not running.broker.sessions._forgetting


def test_a_real_disk_that_is_full_is_said_clearly(tmp_path: Path) -> None:
    file = Store(tmp_path / STORE)
    file._database.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match="free some space"):
        file.write([(PUT_RETAINED, (f"t{n}", b"x" * 4096)) for n in range(100)])
    assert file.load().retained == []
    file.write([(PUT_RETAINED, ("t", b"x"))])
    assert file.load().retained == [("t", b"x")]
    file.close()


def test_damaged_and_foreign_files_are_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / STORE
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="move the file away"):
        Store(path)
    path.unlink()
    good = Store(path)
    good.write([(PUT_RETAINED, (f"t{n}", b"x" * 1000)) for n in range(100)])
    good.close()
    data = bytearray(path.read_bytes())
    data[8192:12288] = bytes(4096)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="move the file away"):
        Store(path)
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="version 99"):
        Store(path)
    (tmp_path / "a-file").touch()
    with pytest.raises(StoreError, match="check the folder"):
        Store(tmp_path / "a-file" / STORE)


def test_what_waits_is_packed_in_the_store_too(tmp_path: Path) -> None:
    async def before() -> None:
        async with node(Config(data="", queues=Queues(events=10)), store=store(tmp_path)) as running:
            client = await running.connect("c", **KEPT)
            await client.subscribe("a", qos=1, user=(("policy", "levels: [keep: {latest: 3}]"),))
            await away(running, client, "c")
            sender = await running.connect("s")
            for number in range(200):
                await sender.publish1("a", b"%d" % number)
            assert await rows(running) <= 11

    async def rows(running: Running) -> int:
        while running.broker.journal is not None and running.broker.journal.behind:
            await asyncio.sleep(0.01)
        with sqlite3.connect(tmp_path / STORE) as database:
            (count,) = database.execute("SELECT count(*) FROM message").fetchone()
        database.close()
        return int(count)

    async def after() -> None:
        async with node(store=store(tmp_path)) as running:
            items = running.broker.status().clients[0].subscriptions[0].items
            client = await running.connect("c", **KEPT)
            found = [await client.message() for _ in range(items)]
            total = sum(body(each)["count"] if is_digest(each) else 1 for each in found)
            assert total == 200
            assert is_digest(found[0])
            assert found[-1].payload == b"199"

    run(before())
    run(after())


async def test_a_digest_of_more_events_than_can_be_written_does_not_keep_others_from_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(store=Store(tmp_path / STORE)) as running:
        for name in ("a", "b"):
            client = await running.connect(name, session_expiry_s=100)
            await client.subscribe(name, user=(("policy", "levels: [{keep: {latest: 3}}]"),))
            await away(running, client, name)
        sender = await running.connect("s")
        sender.publish0("a", b"x")
        sender.publish0("b", b"y")
        await sender.settled()
        session = running.broker.sessions.get("a")
        assert session is not None
        many = Digest(1 << 48, 1, 2, 1, 5, ((Cause(1, 1, "within"), 1 << 48),))
        for _ in range(17):  # as many as strangers may send, and merged
            many = many.merge(many)
        session.delivery.requeue(session.held["a"], many, 0, now_us=1)
    assert [record.name for record in caplog.records] == ["penstock.node.broker.journal"]
    assert "client 'a', filter 'a': a count beyond 64 bits" in caplog.text
    async with node(store=Store(tmp_path / STORE)) as running:
        for name, payload in (("a", b"x"), ("b", b"y")):
            client = await running.connect(name, clean=False, session_expiry_s=100)
            assert await client.payloads(1) == [payload]
            assert await client.silent()
