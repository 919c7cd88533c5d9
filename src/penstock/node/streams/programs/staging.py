"""Staged rows, which tasks produced and nobody has committed, and decided commits: one SQLite file.

A task stages the rows of an attempt in parts. A commit is first decided (these attempts, in this order,
are the batch), then its rows are put into the stream, then it is finished and the rows are deleted. A
crash in between leaves the decision, which is carried out after the restart. The file is created when it
is first needed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from penstock import limits
from penstock.core.streams.requests import Row, Staged
from penstock.errors import StreamRefused
from penstock.node.store.database import Database
from penstock.node.store.writer import GroupCommit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

FILE: Final = "staged.sqlite"
"""File name in the folder of streams."""

SCHEMA: Final = 1
"""Version of the tables in the file; a file of another version is refused."""

_TABLES: Final = (
    """CREATE TABLE part (stream TEXT, attempt TEXT, part INTEGER, rows BLOB,
    PRIMARY KEY (stream, attempt, part))""",
    """CREATE TABLE attempt (stream TEXT, attempt TEXT, bytes INTEGER, idle_s REAL, decided INTEGER,
    PRIMARY KEY (stream, attempt)) WITHOUT ROWID""",
    """CREATE TABLE batch (stream TEXT, writer TEXT, batch INTEGER, attempts BLOB, sender TEXT, done INTEGER,
    idle_s REAL, keep_s REAL, PRIMARY KEY (stream, writer)) WITHOUT ROWID""",
)

Answer = TypeVar("Answer")

_encode: Final = msgspec.msgpack.Encoder().encode
_rows: Final = msgspec.msgpack.Decoder(tuple[Row, ...])
_attempts: Final = msgspec.msgpack.Decoder(tuple[Staged, ...])


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """The last decided batch of a writer."""

    stream: str
    writer: str
    batch: int
    attempts: tuple[Staged, ...]
    """The attempts whose rows are the batch; empty once it is done."""
    sender: str
    done: bool
    keep_s: float = limits.STREAM_WRITER_S
    """How long a batch that is done is remembered, so that a repeated commit is recognised."""


@dataclass(slots=True)
class _Change:
    """A change of the file, and the future of its result."""

    work: Callable[[sqlite3.Connection], Any]
    waiting: asyncio.Future[Any]
    answer: Any = None
    error: Exception | None = None


class Staging:
    """The file. A request raises StoreError if the file cannot be read or written, and may be repeated.

    Tasks of one batch stage their parts at the same time: everything that is requested during one transaction
    goes into the next one.
    """

    def __init__(self, path: Path | None) -> None:
        """`path` None: in memory."""
        self._path = path
        self._database: Database | None = None
        self._changes: list[_Change] = []
        self._commits: GroupCommit[list[_Change]] = GroupCommit(
            self, name=path or "staged rows", rows="changes"
        )
        self._started = False

    async def unfinished(self) -> list[StagedBatch]:
        """Batches that are decided and not finished."""
        if self._untouched:
            return []
        rows = await self._run(lambda database: database.rows(f"{_SELECT} WHERE NOT done"))
        return [_batch(row) for row in rows]

    async def stage(self, stream: str, attempt: str, part: int, rows: tuple[Row, ...]) -> None:
        """Store a part of an attempt, once; StreamRefused if too much is staged."""
        data = _encode(rows)
        await self._write(lambda connection: _stage(connection, stream, attempt, part, data))

    async def drop(self, stream: str, attempts: tuple[str, ...]) -> None:
        """Delete attempts, except those of a batch that is not finished."""
        await self._write(lambda connection: _drop(connection, stream, attempts))

    async def last(self, stream: str, writer: str) -> StagedBatch | None:
        """The last decided batch of a writer; None if there is none."""
        statement = f"{_SELECT} WHERE stream = ? AND writer = ?"
        rows = await self._run(lambda database: database.rows(statement, (stream, writer)))
        return _batch(rows[0]) if rows else None

    async def decide(self, batch: StagedBatch) -> None:
        """Decide durably which attempts are the batch; StreamRefused if one of them is incomplete."""
        await self._write(lambda connection: _decide(connection, batch))

    async def rows(self, stream: str, attempt: str, part: int) -> tuple[Row, ...]:
        """The rows of a part of an attempt; StreamRefused if they are not there."""
        statement = "SELECT rows FROM part WHERE stream = ? AND attempt = ? AND part = ?"
        found = await self._run(lambda database: database.rows(statement, (stream, attempt, part)))
        if not found:
            raise _gone(attempt)
        return _rows.decode(found[0][0])

    async def finish(self, batch: StagedBatch) -> None:
        """Delete the rows of a batch: they are in the stream."""
        await self._write(lambda connection: _finish(connection, batch))

    async def older(self, idle_s: float) -> list[tuple[str, str]]:
        """Count time that has passed, delete old attempts, and forget old batches; returns their writers."""
        if self._untouched:
            return []
        return await self._write(lambda connection: _older(connection, idle_s))

    async def close(self) -> None:
        """Write what is left and close the file."""
        await self._commits.close(self._release)

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @property
    def _untouched(self) -> bool:
        return self._database is None and (self._path is None or not self._path.exists())

    async def _write(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        self._start()
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._changes.append(_Change(work, waiting))
        self._commits.soon()
        return await waiting

    async def _run(self, work: Callable[[Database], Answer]) -> Answer:
        self._start()
        return await self._commits.run(lambda: work(self._opened()))

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._commits.start()

    def _opened(self) -> Database:
        if self._database is None:
            self._database = Database(self._path, _TABLES, schema=SCHEMA)
        return self._database

    # -- what the group commit asks for ----------------------------------------------------------------------

    def pending(self) -> int:
        """Number of changes that wait to be written."""
        return len(self._changes)

    def take(self) -> list[_Change] | None:
        """Give away all changes."""
        changes, self._changes = self._changes, []
        return changes or None

    def write(self, work: list[_Change]) -> None:
        """Make the changes in one transaction; if it fails, each of them fails with its error."""
        try:
            self._opened().transact(partial(_change, work))
        except Exception as error:  # raised by the request of each change
            for each in work:
                each.error = error

    def written(self, work: list[_Change]) -> None:
        """Set the results of the changes."""
        for each in work:
            if each.waiting.done():
                continue  # the request was cancelled
            if each.error is not None:
                each.waiting.set_exception(each.error)
            else:
                each.waiting.set_result(each.answer)

    def put_back(self, work: list[_Change]) -> None:
        """Keep the changes; `write` never fails, so that this is not called."""
        self._changes = [*work, *self._changes]


def _change(changes: list[_Change], connection: sqlite3.Connection) -> None:
    """Make each change as a whole or, if it is refused, not at all."""
    for each in changes:
        connection.execute("SAVEPOINT change")
        try:
            each.answer, each.error = each.work(connection), None
        except StreamRefused as refused:
            each.error = refused
            connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")


_SELECT: Final = "SELECT stream, writer, batch, attempts, sender, done FROM batch"


def _batch(row: tuple[str, str, int, bytes | None, str, int]) -> StagedBatch:
    stream, writer, number, attempts, sender, done = row
    return StagedBatch(
        stream, writer, number, () if attempts is None else _attempts.decode(attempts), sender, bool(done)
    )


def _gone(attempt: str) -> StreamRefused:
    return StreamRefused(
        f"rows of attempt '{attempt}' are missing: they were aborted, or staged more than "
        f"{limits.STREAM_STAGED_S // 3_600} hours ago; make the batch again",
        code="gone",
    )


def _stage(connection: sqlite3.Connection, stream: str, attempt: str, part: int, data: bytes) -> None:
    there = "SELECT 1 FROM part WHERE stream = ? AND attempt = ? AND part = ?"
    if connection.execute(there, (stream, attempt, part)).fetchone():
        return
    ((total,),) = connection.execute("SELECT COALESCE(SUM(bytes), 0) FROM attempt").fetchall()
    if total + len(data) > limits.STREAM_STAGED_BYTES:
        raise StreamRefused(
            f"too many staged rows: {total:,} bytes wait for the commit of their batch; use smaller batches, "
            "or abort those that are not needed",
            code="full",
        )
    connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (stream, attempt, part, data))
    connection.execute(
        "INSERT INTO attempt VALUES (?, ?, ?, 0, 0)"
        " ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, idle_s = 0",
        (stream, attempt, len(data)),
    )


def _drop(connection: sqlite3.Connection, stream: str, attempts: tuple[str, ...]) -> None:
    for attempt in attempts:
        done = connection.execute(
            "DELETE FROM attempt WHERE stream = ? AND attempt = ? AND NOT decided", (stream, attempt)
        )
        if done.rowcount:
            connection.execute("DELETE FROM part WHERE stream = ? AND attempt = ?", (stream, attempt))


def _decide(connection: sqlite3.Connection, batch: StagedBatch) -> None:
    for one in batch.attempts:
        ((there,),) = connection.execute(
            "SELECT COUNT(*) FROM part WHERE stream = ? AND attempt = ? AND part < ?",
            (batch.stream, one.attempt, one.parts),
        ).fetchall()
        if there < one.parts:
            raise _gone(one.attempt)
        connection.execute(
            "UPDATE attempt SET decided = 1 WHERE stream = ? AND attempt = ?", (batch.stream, one.attempt)
        )
    connection.execute(
        "INSERT OR REPLACE INTO batch VALUES (?, ?, ?, ?, ?, 0, 0, ?)",
        (batch.stream, batch.writer, batch.batch, _encode(batch.attempts), batch.sender, batch.keep_s),
    )


def _finish(connection: sqlite3.Connection, batch: StagedBatch) -> None:
    connection.execute(
        "UPDATE batch SET done = 1, attempts = NULL WHERE stream = ? AND writer = ? AND batch = ?",
        (batch.stream, batch.writer, batch.batch),
    )
    for one in batch.attempts:
        connection.execute(
            "UPDATE attempt SET decided = 0 WHERE stream = ? AND attempt = ?", (batch.stream, one.attempt)
        )
    _drop(connection, batch.stream, tuple(one.attempt for one in batch.attempts))


def _older(connection: sqlite3.Connection, idle_s: float) -> list[tuple[str, str]]:
    connection.execute("UPDATE attempt SET idle_s = idle_s + ? WHERE NOT decided", (idle_s,))
    orphans = connection.execute(
        "SELECT stream, attempt FROM attempt WHERE idle_s >= ?", (limits.STREAM_STAGED_S,)
    )
    for stream, attempt in orphans.fetchall():
        _drop(connection, stream, (attempt,))
    connection.execute("UPDATE batch SET idle_s = idle_s + ? WHERE done", (idle_s,))
    old = connection.execute("SELECT stream, writer FROM batch WHERE idle_s >= keep_s").fetchall()
    connection.executemany("DELETE FROM batch WHERE stream = ? AND writer = ?", old)
    return [(stream, writer) for stream, writer in old]
