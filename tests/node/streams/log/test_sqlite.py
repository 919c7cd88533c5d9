"""A log in a file: against a model, on a full disk, with a damaged page."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.streams import StreamBroker, StreamOptions
from penstock.core.streams.log import MemoryLog
from penstock.core.streams.messages import Data, Nack, Silence
from penstock.errors import StoreError
from penstock.node.streams.log import sqlite
from penstock.node.streams.log.sqlite import SqliteLog
from tests.kit.stream_logs import Disk, Logged

if TYPE_CHECKING:
    from penstock.node.store.database import Database

PAGE = 4_096


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.02)


# -- against a model -----------------------------------------------------------------------------------------

changes = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 30)),
    st.tuples(st.just("claim"), st.integers(0, 300)),
    st.tuples(st.just("trim"), st.integers(0, 300)),
    st.tuples(st.sampled_from(("commit", "crash", "read")), st.integers(0, 300)),
)


class Compared:
    """A log in a file and the one in memory that simulations use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = SqliteLog(path)
        self.model = MemoryLog()
        self.tick = 0

    def append(self, step: int) -> None:
        self.tick = max(self.tick, self.model.end - 1) + step
        for log in (self.log, self.model):
            log.append(self.tick, bytes([step]) * step)

    def claim(self, tick: int) -> None:
        for log in (self.log, self.model):
            log.claim(tick)

    def trim(self, tick: int) -> None:
        durable = self.model.read(0, 1 << 62, 1 << 30) or [(-1, b"")]
        for log in (self.log, self.model):
            log.trim(min(tick, durable[-1][0] + 1))

    def commit(self, _: int) -> None:
        self.model.commit()
        work = self.log.take()
        if work is not None:
            self.log.write(work)
            self.log.written(work)

    def crash(self, _: int) -> None:
        """Uncommitted messages are gone: only the files count. A trim is remembered from a commit on."""
        trimmed = self.model.trimmed
        self.model.crash()
        self.tick = 0
        self.log._reader.close()
        self.log._file.close()
        self.log = SqliteLog(self.path)
        self.log.trim(trimmed)

    def read(self, since: int) -> None:
        assert self.log.read(since, since + 50, 3) == self.model.read(since, since + 50, 3)

    def check(self) -> None:
        assert (self.log.end, self.log.trimmed) == (self.model.end, self.model.trimmed)
        everything = (self.model.trimmed, 1 << 60, 1 << 30)
        assert self.log.read(*everything) == self.model.read(*everything)


@given(st.lists(changes, max_size=40))
def test_it_is_as_the_log_of_the_simulator(found: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        compared = Compared(Path(folder, "log"))
        for what, number in found:
            getattr(compared, what)(number)
            compared.check()
        compared.commit(0)
        while compared.log._trim:
            compared.commit(0)
        figures = compared.log.figures()
        rest = compared.model.read(0, 1 << 62, 1 << 30) or []
        assert (figures.messages, figures.bytes) == (len(rest), sum(len(text) for _, text in rest))
        ((rows, size),) = compared.log._file.rows("SELECT COUNT(*), SUM(LENGTH(body)) FROM message")
        assert (figures.messages, figures.bytes) == (rows, size or 0)
        asyncio.run(compared.log.close())


# -- trimming ------------------------------------------------------------------------------------------------


async def test_trimming_goes_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go on between the pieces, and a crash between them leaves figures that are right."""
    monkeypatch.setattr(sqlite, "TRIM_ROWS", 100)
    disk = Disk("file", tmp_path)
    orders = await disk.open()
    orders.append(*range(1_000))
    await orders.durable()
    orders.log.trim(950)
    orders.append(1_000)
    await orders.durable()
    assert orders.log.figures().messages == 1_001 - 100  # one piece went with it
    await disk.crash(orders)
    again = await disk.open()
    assert again.log.trimmed == 950
    assert await again.all() == list(range(950, 1_001))
    async with asyncio.timeout(120):
        while again.log.figures().messages > 51:
            await asyncio.sleep(0.005)
    assert again.log.bytes == 51 * 5
    await disk.close(again)


async def test_much_is_written_before_the_turn_ends(tmp_path: Path) -> None:
    disk = Disk("file", tmp_path)
    orders = await disk.open()
    orders.append(*range(100))  # the first go to the disk while the others come
    orders.claim(500)
    await orders.durable()
    assert orders.commits == [(32, 0), (100, 500)]
    assert await orders.all() == list(range(100))
    await disk.crash(orders)
    assert await (await disk.open()).all() == list(range(100))


# -- faults --------------------------------------------------------------------------------------------------


def file_of(orders: Logged) -> Database:
    assert isinstance(orders.log, SqliteLog)
    return orders.log._file


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        disk = Disk("file", tmp_path)
        orders = await disk.open()
        orders.append(*range(10), size=1_000)
        await orders.durable()
        file_of(orders).rows("PRAGMA max_page_count = 1")  # no more than it has
        orders.append(*range(10, 100), size=1_000)
        fault = await orders.until("disk is full")
        assert "orders.log.sqlite: database or disk is full; free some space on its disk" in fault
        orders.append(*range(100, 110), size=1_000)
        orders.claim(500)
        await asyncio.sleep(0.1)
        assert orders.commits == [(10, 0)]  # nobody was told of the rest
        assert orders.log.bytes == 110_000  # but it counts
        assert await orders.all() == list(range(10))
        file_of(orders).rows("PRAGMA max_page_count = 1000")
        await orders.durable()
        assert orders.log.fault == ""
        assert orders.commits[-1] == (110, 500)
        assert await orders.all() == list(range(110))
        await disk.crash(orders)
        again = await disk.open()
        assert await again.all() == list(range(110))
        file_of(again).rows("PRAGMA max_page_count = 1")
        again.append(*range(600, 700), size=1_000)
        with pytest.raises(StoreError, match=r"100 messages could not be written: .*disk is full"):
            await disk.close(again)

    asyncio.run(go())
    assert caplog.text.count("trying again every 0.02 s; until then nothing is acknowledged") == 2


def overwrite(path: Path, marker: bytes, bytes_: bytes) -> None:
    """Damage a page, as a disk might; the bytes that a reader has in memory do not count."""
    whole = bytearray(path.read_bytes())
    at = whole.index(marker)
    whole[at : at + len(bytes_)] = bytes_
    path.write_bytes(whole)


async def filled(disk: Disk) -> Path:
    orders = await disk.open()
    orders.append(*range(1_000), size=1_000)
    await orders.durable()
    await disk.close(orders)
    return disk.folder / "orders.log.sqlite"


async def test_a_damaged_file_is_not_opened(tmp_path: Path) -> None:
    disk = Disk("file", tmp_path)
    path = await filled(disk)
    whole = bytearray(path.read_bytes())
    whole[20 * PAGE : 22 * PAGE] = bytes(2 * PAGE)
    path.write_bytes(whole)
    with pytest.raises(StoreError, match=r"orders\.log\.sqlite: damaged: .*move the file away .*backup"):
        await disk.open()
    path.write_bytes(b"no database at all" * 1_000)
    with pytest.raises(StoreError, match="file is not a database; move the file away"):
        await disk.open()


def test_a_damaged_message_is_told_and_never_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Bytes that only a checksum can tell: the file opens, and this message stops those who read it."""

    async def go() -> None:
        disk = Disk("file", tmp_path)
        path = await filled(disk)
        overwrite(path, b"500-.....", b"500-..!..")
        orders = await disk.open()
        options = StreamOptions(publisher_control="off")
        core = StreamBroker("n", options)
        pubend = core.host("orders", orders.log, now_us=0, options=options)
        assert len(await orders.read(0, 500, 1_000)) == 500
        assert len(await orders.read(501, 1_000, 1_000)) == 499
        assert orders.log.read(400, 600, 1_000) is None
        assert "the message of tick 500 is damaged; move the file away" in orders.log.fault
        with pytest.raises(StoreError, match="tick 500 is damaged"):
            await orders.log.fetch(500, 501, 1)
        pubend.receive(Nack("orders", ((0, 1_000),)), now_us=0)
        said = pubend.outgoing()
        assert all(not isinstance(one, Silence) or one.until <= 500 for one in said)
        assert 0 < max(one.tick for one in said if isinstance(one, Data)) < 500  # before the damage
        # Others still append, and it is said once.
        orders.append(5_000)
        await orders.durable()
        await asyncio.sleep(0.1)
        assert "is damaged" in orders.log.fault
        assert caplog.text.count("cannot be read") == 1
        # Nobody needs it any more.
        orders.log.trim(501)
        await orders.until("")
        pubend.resume()
        assert [one.tick for one in pubend.outgoing() if isinstance(one, Data)][-1] == 999
        await disk.close(orders)

    asyncio.run(go())
    assert "can be read again" in caplog.text


async def test_a_page_that_is_damaged_while_the_node_runs(tmp_path: Path) -> None:
    disk = Disk("file", tmp_path)
    path = await filled(disk)
    orders = await disk.open()
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[20 * PAGE : 22 * PAGE] = b"\xff" * 2 * PAGE
    path.write_bytes(damaged)
    assert isinstance(orders.log, SqliteLog)
    assert orders.log.read(0, 1_000, 1_000) is None
    assert "malformed; move the file away" in orders.log.fault
    path.write_bytes(whole)  # the disk has got over it
    orders.log._reader.rows("PRAGMA shrink_memory")
    await orders.until("")
    assert await orders.all() == list(range(1_000))
    await disk.close(orders)


async def test_a_log_of_another_version_is_refused(tmp_path: Path) -> None:
    disk = Disk("file", tmp_path)
    path = await filled(disk)
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 2")
    other.close()
    with pytest.raises(StoreError, match="version 2 of the store; this is 1: use the Penstock that wrote"):
        await disk.open()


async def test_a_log_without_its_figures_is_refused(tmp_path: Path) -> None:
    disk = Disk("file", tmp_path)
    path = await filled(disk)
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM meta")
    other.close()
    with pytest.raises(StoreError, match="damaged: 0 rows of meta"):
        await disk.open()


async def test_a_log_that_another_program_writes_to_waits(tmp_path: Path) -> None:
    disk = Disk("file", tmp_path)
    orders = await disk.open()
    file_of(orders).rows("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(disk.folder / "orders.log.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    orders.append(1)
    assert "locked; another program uses it" in await orders.until("locked")
    other.execute("ROLLBACK")
    other.close()
    await orders.durable()
    await disk.close(orders)
