"""The outbox on a disk that fails and comes back; a file of another version, or a damaged one."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.errors import StoreError
from penstock.node.access.secret import derived, own_secret, token
from penstock.node.notify import subscriber_queue as sql
from penstock.node.notify.service import STORE
from penstock.node.notify.writer import OutboxWriter
from penstock.node.store.database import Database
from tests.kit.channel_api import MemoryChannels
from tests.kit.notify_service import notifying
from tests.kit.outbox import outbox, put, told

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_could_not_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.02)
    path = tmp_path / "t.sqlite"
    store = Database(path, sql.TABLES, schema=1)
    box = outbox()
    writing = OutboxWriter(box, store)
    rival = sqlite3.connect(path, isolation_level=None)
    store._database.execute("PRAGMA busy_timeout = 1")
    rival.execute("BEGIN EXCLUSIVE")
    put(box, 1)
    async with asyncio.timeout(120):
        while not writing.fault:
            await asyncio.sleep(0.01)
    assert "another program uses it" in writing.fault
    put(box, 2)
    rival.execute("ROLLBACK")
    rival.close()
    async with asyncio.timeout(120):
        while writing.fault:
            await asyncio.sleep(0.01)
    put(box, 3)
    await writing.close()
    again = outbox()
    again.restore(store.rows(sql.LOAD), store.rows(sql.LOAD_HELD))
    assert [one.version for one in told(again)] == [1, 2, 3]
    store.close()


async def test_safe_returns_when_what_was_put_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOURNAL_RETRY_S", 0.02)
    path = tmp_path / "t.sqlite"
    store = Database(path, sql.TABLES, schema=1)
    box = outbox()
    writing = OutboxWriter(box, store)
    rival = sqlite3.connect(path, isolation_level=None)
    store._database.execute("PRAGMA busy_timeout = 1")
    rival.execute("BEGIN EXCLUSIVE")
    put(box, 1)
    safe = asyncio.create_task(writing.safe())
    async with asyncio.timeout(120):
        while not writing.fault:
            await asyncio.sleep(0.01)
        assert not safe.done()
        rival.execute("ROLLBACK")
        await safe
        assert len(rival.execute(sql.LOAD).fetchall()) == 1
        await writing.safe()  # nothing new: at once
    rival.execute("BEGIN EXCLUSIVE")
    put(box, 2)
    late = asyncio.create_task(writing.safe())
    await asyncio.sleep(0.01)
    await writing.close()
    with pytest.raises(asyncio.CancelledError):
        await late
    rival.close()
    store.close()


async def test_a_file_that_is_not_ours_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / STORE).write_bytes(b"this is no database, but long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match="move the file away"):
        async with notifying(MemoryChannels(), data=tmp_path):
            pass


def test_the_secret_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = own_secret(tmp_path)
    assert own_secret(tmp_path) == first
    assert len(first) == 32
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert own_secret(None) != own_secret(None)
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(StoreError, match="5 bytes instead of 32"):
        own_secret(tmp_path)


def test_what_is_derived_does_not_meet() -> None:
    secret = b"s" * 32
    assert len({derived(secret, *words) for words in (("a", "b"), ("ab",), ("a", "", "b"), ("b", "a"))}) == 4
    assert len(token(secret, "x")) == 32
