"""A stream's log in an SQLite file: a thread writes it, the event loop reads it in bounded pieces.

Every message has a checksum, so that a damaged page is reported and is never taken for a message or for
silence. Trimming is done in pieces, with the transactions of messages, or alone when there are none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

from penstock import limits
from penstock.core.streams.log import bounded
from penstock.errors import StoreError
from penstock.node.store.database import MOVE_AWAY, Database, put_many
from penstock.node.store.writer import GroupCommit
from penstock.node.streams.log.protocol import LogFigures

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from penstock.node.streams.log.protocol import LoggedMessages

log = logging.getLogger(__name__)

SCHEMA: Final = 1
"""Version of the tables in the file; a file of another version is refused."""

EARLY: Final = 32
"""Number of messages at which a commit begins before the turn of the event loop ends: the disk works while
further messages are read, and a publisher with a hundred messages in flight does not wait for each turn."""

TRIM_ROWS: Final = 2_000
"""Messages that one transaction deletes: a few milliseconds, and more than most transactions add."""

_TABLES: Final = (
    "CREATE TABLE message (tick INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE meta (claim INTEGER, trimmed INTEGER, messages INTEGER, bytes INTEGER)",
    "INSERT INTO meta VALUES (0, 0, 0, 0)",
)

_META: Final = """SELECT claim, trimmed, messages, bytes,
(SELECT COALESCE(MAX(tick) + 1, 0) FROM message) FROM meta"""
_READ: Final = "SELECT tick, sum, body FROM message WHERE tick >= ? AND tick < ? ORDER BY tick LIMIT ?"
_OLDEST: Final = """SELECT COUNT(*), COALESCE(SUM(size), 0), MAX(tick) FROM
(SELECT tick, LENGTH(body) AS size FROM message WHERE tick < ? ORDER BY tick LIMIT ?)"""

_32_BITS: Final = 0xFFFFFFFF


@dataclass(slots=True)
class _Work:
    """The rows of one transaction."""

    values: list[int | bytes]
    """Columns of the new rows, one row after the other."""
    claim: int
    trimmed: int
    trim: bool
    """Whether messages before `trimmed` are left to be deleted."""
    messages: int
    """Number of new rows."""
    bytes: int
    """Bytes of the new messages."""
    until: int
    """The tick behind the last message that is durable afterwards."""
    gone: int = 0
    """Messages deleted by the transaction."""
    gone_bytes: int = 0
    us: int = 0
    """Duration of the transaction."""


class SqliteLog:
    """A `DurableLog` in an SQLite file."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file (None: in memory); StoreError says what is wrong with it and what to do."""
        self._file = Database(path, _TABLES, schema=SCHEMA)
        try:
            self._reader = self._file.reader()
            meta = self._file.rows(_META)
        except StoreError:
            self._file.close()
            raise
        if len(meta) != 1:
            self._file.close()
            raise StoreError(f"damaged: {len(meta)} rows of meta; {MOVE_AWAY}", path)
        self._claimed: int
        self._trimmed: int
        self._kept: int
        self._kept_bytes: int
        self._until: int
        self._claimed, self._trimmed, self._kept, self._kept_bytes, self._until = meta[0]
        """`_until` is the tick behind the last durable message."""
        self._trim = True
        """Whether messages before `_trimmed` may still be in the file."""
        self._next = _Work([], self._claimed, self._trimmed, True, 0, 0, self._until)
        self._underway: _Work | None = None
        self._commits = GroupCommit(self, name=path or "a log in memory", rows="messages")
        self._committed: Callable[[int, int], None] = lambda *_: None
        self._ready: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._damage = ""
        self._damaged = (0, 0)
        """The last span that could not be read."""
        self._checking: asyncio.TimerHandle | None = None
        self._commit_count = self._commit_messages = self._commit_us = 0

    # -- protocol Log of the core ----------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The first tick that a restart would give out."""
        return max(self._until, self._claimed, self._trimmed)

    @property
    def trimmed(self) -> int:
        """Messages before this tick are deleted."""
        return self._trimmed

    def append(self, tick: int, body: bytes) -> None:
        """Add a message; it is durable after the next commit."""
        work = self._next
        # The checksum starts from the tick: a body under another tick is found to be damaged, too.
        work.values += (tick, crc32(body, tick & _32_BITS), body)
        work.messages += 1
        work.bytes += len(body)
        work.until = tick + 1
        if work.messages < EARLY:
            self._commits.soon()
        else:
            self._commits.now()

    def claim(self, tick: int) -> None:
        """Reserve ticks before this one, durably after the next commit."""
        if tick > self._next.claim:
            self._next.claim = tick
            self._commits.soon()

    def read(self, since: int, until: int, most: int) -> LoggedMessages | None:
        """The first `most` durable messages of a span; None if they cannot be read now."""
        try:
            return self._rows(since, until, most)
        except StoreError as error:
            self._report(str(error), since, until)
            return None

    def trim(self, until: int) -> None:
        """Delete messages before a tick."""
        if until > self._trimmed:
            self._trimmed = until
            self._trim = True
            self._commits.soon()

    # -- protocol DurableLog ---------------------------------------------------------------------------------

    @property
    def fault(self) -> str:
        """Why messages cannot be written or read at the moment; empty if there is no fault."""
        return self._commits.fault or self._damage

    @property
    def largest(self) -> int:
        """Bytes of the largest message that `append` may be given."""
        return limits.STREAM_BODY_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of all messages, those not durable yet included."""
        underway = self._underway
        return self._kept_bytes + self._next.bytes + (0 if underway is None else underway.bytes)

    def start(self, *, committed: Callable[[int, int], None], ready: Callable[[], None]) -> None:
        """Begin to commit, in the running loop."""
        self._committed, self._ready = committed, ready
        self._loop = asyncio.get_running_loop()
        self._commits.start()

    async def fetch(self, since: int, until: int, most: int) -> LoggedMessages:
        """Return the messages that `read` would, read from the database at once."""
        return self._rows(since, until, most)

    def figures(self) -> LogFigures:
        """The figures at this moment."""
        return LogFigures(
            messages=self._kept,
            bytes=self._kept_bytes,
            commits=self._commit_count,
            committed=self._commit_messages,
            commit_us=self._commit_us,
        )

    async def close(self) -> None:
        """Make everything durable and close the log."""
        if self._checking is not None:
            self._checking.cancel()
        self._loop = None
        await self._commits.close(self._release)

    def _release(self) -> None:
        self._reader.close()
        self._file.close()

    # -- reading ---------------------------------------------------------------------------------------------

    def _rows(self, since: int, until: int, most: int) -> LoggedMessages:
        """Durable messages that are not trimmed; StoreError if they cannot be read."""
        since, until = max(since, self._trimmed), min(until, self._until)
        if since >= until:
            return []
        with closing(self._reader.each(_READ, (since, until, most))) as rows:
            return bounded(_sound(rows, self._file.path))

    def _report(self, damage: str, since: int, until: int) -> None:
        """Note that a span cannot be read, and try again later. The reader gets no answer until then."""
        if damage != self._damage:
            log.error("%s; ticks %d to %d cannot be read", damage, since, until)
        self._damage, self._damaged = damage, (since, until)
        if self._loop is not None and self._checking is None:
            self._checking = self._loop.call_later(limits.JOURNAL_RETRY_S, self._check)

    def _check(self) -> None:
        self._checking = None
        if self.read(*self._damaged, limits.STREAM_READ) is not None:
            log.warning("%s: can be read again", self._file.path)
            self._damage = ""
            self._ready()

    # -- what the group commit asks for ----------------------------------------------------------------------

    def pending(self) -> int:
        """How many messages wait to be written."""
        return self._next.messages

    def take(self) -> _Work | None:
        """Give away messages, the claim and a piece of trimming."""
        work = self._next
        if not work.values and not self._trim and work.claim == self._claimed:
            return None
        work.trim, work.trimmed = self._trim, self._trimmed
        self._underway = work
        self._next = _Work([], work.claim, 0, False, 0, 0, work.until)
        return work

    def write(self, work: _Work) -> None:
        """Write messages and trim in one transaction, and take its time."""
        begun_ns = time.perf_counter_ns()
        self._file.transact(lambda connection: _write(connection, work))
        work.us = (time.perf_counter_ns() - begun_ns) // 1_000

    def written(self, work: _Work) -> None:
        """Count what is durable now, and tell the stream."""
        self._underway = None
        self._kept += work.messages - work.gone
        self._kept_bytes += work.bytes - work.gone_bytes
        if work.gone < TRIM_ROWS and work.trimmed == self._trimmed:
            self._trim = False
        news = work.messages or work.claim > self._claimed
        self._until, self._claimed = work.until, work.claim
        if work.messages:
            self._commit_count += 1
            self._commit_messages += work.messages
            self._commit_us += work.us
        if news:
            self._committed(self._until, self._claimed)

    def put_back(self, work: _Work) -> None:
        """Keep the messages, before those appended since."""
        self._underway = None
        later = self._next
        work.values += later.values
        work.messages += later.messages
        work.bytes += later.bytes
        work.until, work.claim = later.until, later.claim
        self._next = work


def _sound(rows: Iterable[tuple[int, int, bytes]], path: Path | None) -> Iterator[tuple[int, bytes]]:
    """Messages whose checksum is right; StoreError at the first one whose checksum is not."""
    for tick, total, body in rows:
        if crc32(body, tick & _32_BITS) != total:
            raise StoreError(f"the message of tick {tick} is damaged; {MOVE_AWAY}", path)
        yield tick, body


def _write(connection: sqlite3.Connection, work: _Work) -> None:
    """Insert new messages, delete a piece of the trimmed ones, and update the totals."""
    put_many(connection, "INSERT INTO message", 3, work.values)
    work.gone = work.gone_bytes = 0
    if work.trim:
        work.gone, work.gone_bytes, last = connection.execute(_OLDEST, (work.trimmed, TRIM_ROWS)).fetchone()
        if work.gone:
            connection.execute("DELETE FROM message WHERE tick <= ?", (last,))
    connection.execute(
        "UPDATE meta SET claim = ?, trimmed = ?, messages = messages + ?, bytes = bytes + ?",
        (work.claim, work.trimmed, work.messages - work.gone, work.bytes - work.gone_bytes),
    )
