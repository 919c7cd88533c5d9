"""A log in NATS JetStream, with a real server that comes and goes."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

import nats
import pytest

from penstock import limits
from penstock.errors import MissingTool, StoreError
from penstock.node.config.streams import Nats, Streams
from penstock.node.streams.log.factory import open_log
from penstock.node.streams.log.jetstream import reading, stream, writing
from penstock.node.streams.log.jetstream.log import NatsLog
from penstock.node.streams.log.jetstream.reading import SequenceIndex
from penstock_lab.rigs.nats_server import NatsServer, nats_server
from tests.kit.stream_logs import Disk, Logged, abandon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.api import StreamState

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("nats-log")]


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with nats_server() as running:
        yield running


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[NatsServer]:
    """One that a test may kill."""
    found = NatsServer(tmp_path / "nats")
    found.start()
    yield found
    found.kill()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.05)


def log_of(orders: Logged) -> NatsLog:
    assert isinstance(orders.log, NatsLog)
    return orders.log


async def with_jetstream(server: NatsServer) -> tuple[Client, JetStreamContext]:
    client = await nats.connect(server.url)
    return client, client.jetstream()


def test_a_killed_server_loses_nothing_that_was_acknowledged(
    mortal: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages come all the time; the server is killed at any moment and started again."""

    async def go() -> None:
        disk = Disk("nats", tmp_path, mortal)
        orders = await disk.open()
        stop = asyncio.Event()

        async def publish() -> None:
            tick = 0
            while not stop.is_set():
                orders.append(*range(tick, tick + 7), size=200)
                tick += 7
                await asyncio.sleep(0.001)

        publishing = asyncio.create_task(publish())
        for _ in range(4):
            await asyncio.sleep(0.15)
            mortal.kill()
            await orders.until("cannot be reached")
            told = len(orders.commits)
            await asyncio.sleep(0.05)
            assert len(orders.commits) == told  # nothing is acknowledged meanwhile
            mortal.start()
            await orders.until("")
        stop.set()
        await publishing
        await orders.durable()
        assert orders.commits == sorted(orders.commits)
        assert await orders.all() == list(range(orders.last + 1))
        await disk.crash(orders)
        again = await disk.open()
        assert await again.all() == list(range(orders.last + 1))  # none lost, none twice, in order
        assert again.log.figures().messages == orders.last + 1
        await disk.close(again)

    asyncio.run(go())
    assert "nothing is acknowledged until it can be written again" in caplog.text
    assert "can be written again" in caplog.text


async def test_what_is_sent_again_is_stored_once(server: NatsServer, tmp_path: Path) -> None:
    """Answers that are lost: the log finds out by asking."""
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("again")
    log = log_of(orders)
    heard = log._stream.on_answer
    log._stream.on_answer = lambda *_: None
    orders.append(1, 2, 3)
    await asyncio.sleep(0.05)
    orders.append(4, 5)
    await asyncio.sleep(0.05)
    assert len(log._sending._flight) == 2
    assert orders.commits == []
    for sent in list(log._sending._flight):  # the same once more, as after a lost connection
        await log._stream.send(sent.batch, number=sent.number, sequence=sent.sequence, before=0)
    await asyncio.sleep(0.05)
    log._stream.on_answer = heard
    log._sending._doubt = True
    log._sending._wake.set()
    await orders.durable()
    assert await orders.all() == [1, 2, 3, 4, 5]
    assert (await log._stream.state()).messages == 2
    await disk.close(orders)


async def test_a_silent_server_is_asked(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ANSWER_S", 0.1)
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("silent")
    log = log_of(orders)
    log._stream.on_answer = lambda *_: None
    orders.append(1)
    await orders.durable()
    await disk.close(orders)


def test_two_nodes_cannot_both_append(
    server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        disk = Disk("nats", tmp_path, server)
        first = await disk.open("both")
        first.append(*range(10))
        await first.durable()
        second = await disk.open("both")  # somebody believes that the first is dead
        second.append(20)
        await second.durable()
        for tick in range(30, 50):
            first.append(tick)
            await asyncio.sleep(0)  # several batches on their way: none of them gets in
        fault = await first.until("another node appends to it")
        assert "stop one of the two" in fault
        second.append(60)
        await second.durable()
        assert first.commits == [(10, 0)]
        assert await second.all() == [*range(10), 20, 60]
        with pytest.raises(StoreError, match=r"20 messages could not be written: .*another node appends"):
            await disk.close(first)
        await disk.close(second)

    asyncio.run(go())
    assert caplog.text.count("another node appends") == 1


async def test_a_batch_of_somebody_else_in_the_window_stops_all_behind_it(
    server: NatsServer, tmp_path: Path
) -> None:
    """The next sequence alone would let the second batch in behind the stranger's."""
    disk = Disk("nats", tmp_path, server)
    first, second = await disk.open("window"), await disk.open("window")
    ours = log_of(first)
    orders = log_of(second)
    sending = ours._stream.send

    async def late(*args: object, **kwargs: object) -> None:
        if not second.commits:
            second.append(5)
            await second.durable()
        await sending(*args, **kwargs)  # type: ignore[arg-type]

    ours._stream.send = late  # type: ignore[method-assign]
    first.append(1, 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.append(3, 4)
    await first.until("another node appends")
    assert await second.all() == [5]
    assert (await orders._stream.state()).messages == 1
    with pytest.raises(StoreError):
        await disk.close(first)
    await disk.close(second)


async def test_the_largest_message_that_a_server_takes(server: NatsServer, tmp_path: Path) -> None:
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("large")
    most = orders.log.largest
    assert most == (1 << 20) - writing.HEAD_BYTES
    orders.append(1, size=most)
    await orders.durable()
    assert len((await orders.read(0, 2, 1))[0][1]) == most
    await disk.close(orders)


async def test_claims_do_not_pile_up(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PURGE_S", 0.01)
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("claims")
    orders.append(1, 2)
    await orders.durable()
    for claim in range(100, 150):
        orders.claim(claim)
        await orders.durable()
    orders.append(150)
    await orders.durable()
    async with asyncio.timeout(120):
        while (await log_of(orders)._stream.state()).messages > 3:
            await asyncio.sleep(0.01)
    await disk.crash(orders)
    orders = await disk.open("claims")
    assert await orders.all() == [1, 2, 150]
    assert orders.log.end == 151
    await disk.close(orders)


def test_what_others_delete_is_missed_and_never_silence(
    server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        disk = Disk("nats", tmp_path, server)
        orders = await disk.open("missed")
        for tick in range(10):
            orders.append(tick)
            await orders.durable()
        await disk.close(orders)
        client, jetstream = await with_jetstream(server)
        await jetstream.delete_msg("penstock-missed", 6)
        orders = await disk.open("missed")
        assert orders.log.read(2, 9, 10) is None
        fault = await orders.until("are missing")
        assert "ticks 5 to 6 are missing: something else has deleted them" in fault
        assert [tick for tick, _ in await orders.read(6, 9, 10)] == [6, 7, 8]  # others are not disturbed
        assert [tick for tick, _ in await orders.read(0, 5, 10)] == [0, 1, 2, 3, 4]
        await disk.close(orders)
        await jetstream.purge_stream("penstock-missed")
        with pytest.raises(StoreError, match="its last message is missing: something else has purged it"):
            await disk.open("missed")
        await jetstream.publish("penstock.log.missed", b"nonsense")
        with pytest.raises(StoreError, match="message 11: not a batch of a stream's log"):
            await disk.open("missed")
        await client.close()

    asyncio.run(go())
    assert caplog.text.count("are missing") == 1


async def test_the_log_is_found_by_ticks_however_far(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small caches, a small index: everything is read from the server."""
    monkeypatch.setattr(reading, "CACHE_SPANS", 2)
    monkeypatch.setattr(reading, "INDEX_MOST", 16)
    monkeypatch.setattr(reading, "PULL_BATCHES", 10)
    monkeypatch.setattr(reading, "TAIL_BYTES", 100)
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("far")
    ticks = [number * number for number in range(600)]
    for tick in ticks:
        orders.append(tick)
        if tick % 3 == 0:
            await orders.durable()
    await orders.durable()
    for reopened in range(2):
        for since in (0, 1, 2, 100, 5_000, 77_777, 200_000, 358_000, 358_801, 358_802, 400_000):
            for most in (1, 40):
                found = await orders.read(since, 359_000, most)
                expected = [tick for tick in ticks if tick >= since][:most]
                assert [tick for tick, _ in found] == expected, (since, most, reopened)
        assert len(log_of(orders)._reading._index) <= 17
        assert await orders.all(most=33) == ticks
        await disk.crash(orders)
        orders = await disk.open("far")
    orders.log.trim(5_000)
    async with asyncio.timeout(120):
        while orders.log.figures().messages > 535:  # the batch that the tick is in stays
            await asyncio.sleep(0.01)
    assert await orders.all(most=50) == [tick for tick in ticks if tick >= 5_000]
    await disk.close(orders)


def test_the_index_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "INDEX_MOST", 100)
    index = SequenceIndex()
    for sequence in range(1, 10_000):
        index.note(sequence, sequence * 10)
        assert len(index) <= 101
    assert (index.before(9), index.behind(9, -1)) == (0, 1)
    assert 1 <= index.before(50_000) <= 5_000
    assert index.behind(50_000, -1) > 5_000
    assert index.behind(1 << 60, -1) == -1


def test_what_stands_in_the_way_is_told(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "OPEN_S", 1.0)

    async def refused(what: str, nats_settings: Nats, name: str = "orders") -> None:
        with pytest.raises(StoreError, match=what):
            await open_log(Streams(log="nats", nats=nats_settings), name, None)

    async def go() -> None:
        await refused(
            "127.0.0.1:1: .*Connect call failed.*; start nats-server", Nats(("nats://127.0.0.1:1",))
        )
        await refused(
            "replicas > 1 not supported in non-clustered mode", Nats((server.url,), replicas=3), "r"
        )
        client, jetstream = await with_jetstream(server)
        await jetstream.add_stream(name="penstock-taken", subjects=["taken"])
        await client.close()
        await refused("exists and is not a log of Penstock; rename", Nats((server.url,)), "taken")

    asyncio.run(go())
    locked = NatsServer(tmp_path / "nats", "--user", "anna", "--pass", "secret")
    locked.start()
    try:
        asyncio.run(refused("[Aa]uthorization|reset by peer", Nats((locked.url,))))  # whichever is read first
        asyncio.run(_opens(Nats((locked.url,), user="anna", password="secret")))  # noqa: S106  # of this test
    finally:
        locked.stop()


async def _opens(settings: Nats) -> None:
    log = await open_log(Streams(log="nats", nats=settings), "orders", None)
    assert isinstance(log, NatsLog)
    await abandon(log)


def test_without_nats_py_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(MissingTool, match=r"pip install 'penstock\[nats\]'"):
        asyncio.run(open_log(Streams(log="nats"), "orders", None))


def test_nothing_is_logged_in_peace(
    server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        disk = Disk("nats", tmp_path, server)
        orders = await disk.open("peace")
        orders.append(1)
        await orders.durable()
        await disk.close(orders)

    with caplog.at_level(logging.WARNING):
        asyncio.run(go())
    assert not caplog.records


async def test_a_server_that_takes_no_more_is_told_and_asked_now_and_then(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its disk, or what its account may store, is full."""
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.2)
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("full")
    orders.append(1)
    await orders.durable()
    client, js = await with_jetstream(server)
    name = log_of(orders)._stream.name
    config = (await js.stream_info(name)).config
    await js.update_stream(config, max_bytes=1_000)
    asked = 0
    state = log_of(orders)._stream.state

    async def counted() -> StreamState:
        nonlocal asked
        asked += 1
        return await state()

    log_of(orders)._stream.state = counted  # type: ignore[method-assign]
    orders.append(*range(2, 12), size=200)
    said = await orders.until("maximum bytes exceeded")
    assert name in said
    await asyncio.sleep(0.5)
    assert asked < 10
    assert orders.commits[-1][0] == 2
    await js.update_stream(config, max_bytes=-1)
    await orders.durable()
    await orders.until("")
    assert await orders.all() == list(range(1, 12))
    await client.close()
    await disk.close(orders)


async def test_passwords_of_servers_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "OPEN_S", 0.2)
    settings = Streams(log="nats", nats=Nats(servers=("nats://who:secret@127.0.0.1:9",)))
    with pytest.raises(StoreError, match=r"cannot be opened at nats://127\.0\.0\.1:9") as error:
        await open_log(settings, "orders", tmp_path)
    assert "secret" not in str(error.value)


async def test_a_fault_that_nobody_has_thought_of_is_told(server: NatsServer, tmp_path: Path) -> None:
    disk = Disk("nats", tmp_path, server)
    orders = await disk.open("fault")

    async def fails(*_: object, **__: object) -> None:
        raise KeyError("never seen")

    log_of(orders)._stream.send = fails  # type: ignore[method-assign]
    orders.append(1)
    said = await orders.until("never seen")
    assert "restart the node" in said
    with pytest.raises(StoreError, match="1 messages could not be written"):
        await disk.close(orders)
