"""Behaviour of every log, in memory, in a file or in NATS JetStream."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.streams import ClockBehind, StreamBroker, StreamOptions
from penstock.core.streams.log import cut_short
from penstock.core.streams.ticks import TICKS_PER_S, tick_at
from penstock.model.instant import SECOND_US
from penstock.node.config.streams import Streams
from penstock.node.streams.log.factory import open_log
from penstock.node.streams.log.protocol import LogFigures
from penstock_lab.rigs.nats_server import nats_server
from tests.kit.stream_logs import Disk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from penstock_lab.rigs.nats_server import NatsServer

NATS = pytest.param("nats", marks=[pytest.mark.e2e, pytest.mark.xdist_group("nats-log")])
ALL = pytest.mark.parametrize("kind", ["memory", "file", NATS])
LASTING = pytest.mark.parametrize("kind", ["file", NATS])


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with nats_server() as running:
        yield running


@pytest.fixture
def kind_and_server(kind: str, request: pytest.FixtureRequest) -> tuple[str, NatsServer | None]:
    return kind, request.getfixturevalue("server") if kind == "nats" else None


@asynccontextmanager
async def disk_of(given: tuple[str, NatsServer | None], folder: Path) -> AsyncIterator[Disk]:
    disk = Disk(given[0], folder, given[1])
    try:
        yield disk
    finally:
        await disk.end()


Given = tuple[str, "NatsServer | None"]


@ALL
async def test_what_was_appended_is_read_once_it_is_durable(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("read-1")
        assert orders.log.end == 0
        orders.append(10, 11, 15)
        assert orders.log.read(0, 100, 10) == []  # not durable yet
        assert orders.log.bytes == 15
        await orders.durable()
        assert [tick for tick, _ in await orders.read(0, 100, 10)] == [10, 11, 15]
        assert [tick for tick, _ in await orders.read(11, 15, 10)] == [11]
        assert [tick for tick, _ in await orders.read(0, 100, 2)] == [10, 11]
        assert await orders.read(12, 15, 10) == []
        assert await orders.read(16, 100, 10) == []
        assert await orders.log.fetch(0, 12, 5) == [(10, b"10-.."), (11, b"11-..")]
        assert (orders.log.end, orders.log.trimmed, orders.log.fault) == (16, 0, "")


@ALL
async def test_one_turn_of_the_loop_is_one_commit(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("turn-1")
        orders.append(*range(30))
        orders.claim(500)
        await orders.durable()
        assert orders.commits == [(30, 500)]
        figures = orders.log.figures()
        assert (figures.messages, figures.bytes, figures.commits, figures.committed) == (30, 150, 1, 30)
        assert figures.commit_us > 0


@ALL
async def test_a_claim_lasts(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("claim-1")
        orders.claim(1_000)
        await orders.durable()
        assert orders.commits == [(0, 1_000)]
        assert orders.log.end == 1_000
        orders.append(1_005)
        await orders.durable()
        assert orders.log.end == 1_006
        if disk.kind != "memory":
            await disk.crash(orders)
            again = await disk.open("claim-1")
            assert again.log.end == 1_006
            again.claim(2_000)
            await again.durable()
            await disk.crash(again)
            assert (await disk.open("claim-1")).log.end == 2_000


@ALL
async def test_trimmed_messages_are_gone_at_once(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("trim-1")
        for first in range(0, 5_000, 500):
            orders.append(*range(first, first + 500))
            await orders.durable()
        assert len(await orders.all()) == 5_000
        orders.log.trim(4_200)
        assert orders.log.trimmed == 4_200
        assert (await orders.read(0, 10_000, 1))[0][0] == 4_200
        assert await orders.all() == list(range(4_200, 5_000))
        # The disk follows: a log of batches keeps the whole batch that the tick lies in.
        await _until(orders.log.figures, at_most=1_000)
        orders.log.trim(9_000)
        assert await orders.all() == []
        await _until(orders.log.figures, at_most=0)
        assert orders.log.bytes == 0
        assert orders.log.end == 9_000
        orders.append(9_001)
        await orders.durable()
        assert await orders.all() == [9_001]


async def _until(figures: object, *, at_most: int) -> None:
    assert callable(figures)
    async with asyncio.timeout(120):
        while True:
            found = figures()
            assert isinstance(found, LogFigures)
            if found.messages <= at_most:
                return
            await asyncio.sleep(0.01)


@LASTING
async def test_a_log_is_the_same_after_it_was_closed(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("close-1")
        orders.append(*range(0, 3_000, 3), size=100)
        orders.claim(3_500)
        await disk.close(orders)  # writes what waits
        again = await disk.open("close-1")
        assert (again.log.end, again.log.trimmed, again.log.bytes) == (3_500, 0, 100_000)
        assert again.log.figures().messages == 1_000
        assert await again.all() == list(range(0, 3_000, 3))
        again.append(4_000)
        await again.durable()
        again.log.trim(1_500)
        await asyncio.sleep(0.05)
        await disk.close(again)
        third = await disk.open("close-1")
        assert third.log.end == 4_001
        assert [tick for tick in await third.all() if tick >= 1_500] == [*range(1_500, 3_000, 3), 4_000]


@LASTING
async def test_a_crash_loses_only_what_was_not_durable(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("crash-1")
        last = -1
        for round_ in range(4):
            orders.append(*range(last + 1, last + 300))
            await orders.durable()
            last = orders.last
            orders.append(*range(last + 1, last + 10))  # nobody was told
            await disk.crash(orders)
            orders = await disk.open("crash-1")
            found = await orders.all()
            assert found[: last + 1] == list(range(last + 1)), round_
            assert found == list(range(len(found)))  # with NATS the rest may have arrived
            assert orders.log.end == len(found)
            assert orders.log.figures().messages == len(found)
            last = found[-1]


@LASTING
async def test_a_clock_that_was_set_back_gives_no_tick_twice(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        given: list[int] = []
        now_us = 10_000 * SECOND_US
        for change_s in (0, -100, 86_400, -86_400, 5):
            now_us += change_s * SECOND_US
            orders = await disk.open("clock-1")
            options = StreamOptions(publisher_control="off")
            core = StreamBroker("n", options)
            pubend = core.host("orders", orders.log, now_us=now_us, options=options)
            ticks = [pubend.publish(b"x", now_us=now_us + ms * 1_000) for ms in range(5)]
            orders.last = ticks[-1]
            await orders.durable()
            behind = [event for event in pubend.events() if isinstance(event, ClockBehind)]
            assert bool(behind) == (change_s < 0 or change_s == 5)
            assert not given or ticks[0] > given[-1]
            given += ticks
            await disk.crash(orders)
        orders = await disk.open("clock-1")
        found = await orders.read(0, 1 << 62, 100)
        assert [tick for tick, _ in found] == given == sorted(set(given))


@ALL
async def test_messages_of_all_sizes_come_back(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("sizes-1")
        sizes = [0, 1, 100, 5_000, 70_000, 300_000, 900_000, 10]
        for tick, size in enumerate(sizes):
            orders.log.append(tick, bytes([tick]) * size)
        orders.last = len(sizes) - 1
        await orders.durable()
        found = await orders.read(0, 100, 100)
        found += await orders.read(found[-1][0] + 1, 100, 100)
        assert [text for _, text in found] == [bytes([tick]) * size for tick, size in enumerate(sizes)]
        assert orders.log.bytes == sum(sizes)


@ALL
async def test_a_log_that_turns_from_tiny_to_huge_messages_is_read_in_pieces(
    kind_and_server: Given, tmp_path: Path
) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("turns")
        orders.append(*range(1_000, 1_300), size=20)
        for tick in range(2_000, 2_030):
            orders.append(tick, size=300_000)
            await orders.durable()
        orders.append(*range(3_000, 3_010), size=20)
        await orders.durable()
        if disk.kind != "memory":  # nothing is at hand
            await disk.close(orders)
            orders = await disk.open("turns")
        since, until = 0, 4_000
        ticks: list[int] = []
        while since < until:
            found = await orders.read(since, until, limits.STREAM_READ)
            assert sum(len(body) for _, body in found[:-1]) < limits.STREAM_FETCH_BYTES
            ticks += [tick for tick, _ in found]
            since = found[-1][0] + 1 if cut_short(found, limits.STREAM_READ) else until
        assert ticks == [*range(1_000, 1_300), *range(2_000, 2_030), *range(3_000, 3_010)]


@LASTING
async def test_many_readers_at_different_places(kind_and_server: Given, tmp_path: Path) -> None:
    async with disk_of(kind_and_server, tmp_path) as disk:
        orders = await disk.open("readers-1")
        for first in range(0, 4_000, 100):
            orders.append(*range(first, first + 100))
            await orders.durable()
        await disk.crash(orders)
        orders = await disk.open("readers-1")

        async def one(since: int) -> None:
            for _ in range(3):
                found = await orders.read(since, 4_000, 50)
                assert [tick for tick, _ in found] == list(range(since, min(4_000, since + 50)))
                since += 50

        await asyncio.gather(*(one(since) for since in range(7, 3_900, 173)))


def test_a_log_ahead_of_the_clock_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The clock was set forward by a day, and is right again."""

    async def go() -> None:
        now = tick_at(time.time_ns() // 1_000)
        disk = Disk("file", tmp_path)
        orders = await disk.open()
        orders.claim(now + 30 * TICKS_PER_S)
        await disk.close(orders)
        orders = await disk.open()
        assert not caplog.records
        orders.claim(now + 86_400 * TICKS_PER_S)
        await disk.close(orders)
        await disk.close(await disk.open())

    with caplog.at_level(logging.WARNING):
        asyncio.run(go())
    assert "stream 'orders': its log ends 86,3" in caplog.text
    assert "check the clock" in caplog.text


async def test_a_log_in_memory_is_gone(tmp_path: Path) -> None:
    for _ in range(2):
        log = await open_log(Streams(), "orders", None)
        assert log.end == 0
        log.append(1, b"x")
        log.start(committed=lambda *_: None, ready=lambda: None)
        await log.close()
    assert not list(tmp_path.iterdir())
