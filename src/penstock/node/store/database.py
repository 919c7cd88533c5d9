"""A node's SQLite files: checked when opened, written in transactions that are on disk when they return.

The data folder is created if it does not exist, and one node at a time locks it. When the process is killed
or the power fails, only what was not acknowledged is lost (write-ahead log, synchronous=FULL). A file of
another version, or a damaged one, is refused with advice what to do.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from penstock.errors import NodeError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

LOCK: Final = "lock"
"""File in the folder that a running node has locked; the kernel unlocks it however the process ends."""


class DataFolder:
    """A data folder, locked by this process until `close`."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NodeError(f"data folder {folder}: cannot be used: {error.strerror}") from None
        try:
            # A lock of the kernel ends with the process, even after kill -9; a file with its id would stay.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.read(self._lock, 32).decode(errors="replace").strip()
            os.close(self._lock)
            raise NodeError(
                f"data folder {folder}: another node{f' (process {other})' if other.isdecimal() else ''} "
                "uses it; stop that one, or name another folder with `data` or --data"
            ) from None
        os.truncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)


Row: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement and its parameters."""

Answer = TypeVar("Answer")


class SqliteReader:
    """Runs queries. Opened in one thread, then used from any one thread at a time."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection) -> None:
        self.path = path
        self._database = connection

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows that a query returns."""
        try:
            return self._database.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._wrong(error) from None

    def each(self, statement: str, parameters: Sequence[Any] = ()) -> Generator[Any]:
        """The rows that a query returns, read one by one as they are asked for. The caller closes this."""
        cursor = self._database.cursor()
        try:
            yield from cursor.execute(statement, parameters)
        except sqlite3.Error as error:
            raise self._wrong(error) from None
        finally:
            cursor.close()  # an open query would keep SQLite from emptying the write-ahead log

    def _wrong(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{error}; {_advice(error)}", self.path)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class Database(SqliteReader):
    """A file that is read and written."""

    def __init__(self, path: Path | None, tables: Sequence[str], *, schema: int) -> None:
        """Open or create the file, None: in memory; StoreError says what is wrong and what to do."""
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            # No implicit transactions: `transact` begins them. Opened here, used in the thread of the writer.
            connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot be opened: {error}; check the folder and its rights", path) from None
        super().__init__(path, connection)
        try:
            self._prepare(tables, schema)
        except sqlite3.Error as error:
            self._database.close()
            raise self._wrong(error) from None
        except StoreError:
            self._database.close()
            raise

    def _prepare(self, tables: Sequence[str], schema: int) -> None:
        run = self._database.execute
        run("PRAGMA journal_mode = WAL")
        # FULL: an acknowledged message survives a power cut. With NORMAL, WAL may lose the last commits.
        run("PRAGMA synchronous = FULL")
        (version,) = run("PRAGMA user_version").fetchone()
        if version not in (0, schema):
            raise StoreError(
                f"version {version} of the store; this is {schema}: use the Penstock that wrote it", self.path
            )
        (damage,) = run("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise StoreError(f"damaged: {damage}; {MOVE_AWAY}", self.path)
        if version == 0:
            run("BEGIN IMMEDIATE")
            for statement in tables:
                run(statement)
            run(f"PRAGMA user_version = {schema:d}")
            run("COMMIT")

    def write(self, rows: Sequence[Row]) -> None:
        """Run the statements of all rows in one transaction, on disk when this returns; else StoreError."""

        def work(connection: sqlite3.Connection) -> None:
            for statement, same in groupby(rows, key=itemgetter(0)):
                connection.executemany(statement, [parameters for _, parameters in same])

        self.transact(work)

    def transact(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Do all of `work` in one transaction, on disk when this returns; else nothing, and StoreError."""
        run = self._database.execute
        try:
            run("BEGIN IMMEDIATE")
            answer = work(self._database)
            run("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                run("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._wrong(error) from None
            raise
        return answer

    def reader(self) -> SqliteReader:
        """A second connection, for queries from another thread than the one that writes.

        It sees committed rows only; of a database in memory also those being written. StoreError if the file
        cannot be opened.
        """
        if self.path is None:
            return SqliteReader(None, self._database)
        try:
            second = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            second.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise self._wrong(error) from None
        return SqliteReader(self.path, second)


def put_many(connection: sqlite3.Connection, insert: str, columns: int, values: Sequence[Any]) -> None:
    """Insert many rows; `values` holds those of the first row, then those of the second, and so on."""
    change_many(connection, f"{insert} VALUES {{}}", columns, values)


def change_many(connection: sqlite3.Connection, statement: str, columns: int, values: Sequence[Any]) -> None:
    """Change many rows; `{}` in the statement stands for their values, a list in parentheses for each row.

    One statement changes many rows, because each statement releases the interpreter's lock and waits up to
    5 ms to get it back if the event loop is busy.
    """
    row = f"({', '.join('?' * columns)})"
    done, rows = 0, len(values) // columns
    for size in ROWS_AT_ONCE:
        prepared = statement.format(", ".join([row] * size)) if rows - done >= size else ""
        while rows - done >= size:
            connection.execute(prepared, values[done * columns : (done + size) * columns])
            done += size


ROWS_AT_ONCE: Final = (512, 64, 8, 1)
"""Rows of one statement: SQLite allows 32,766 values. A few sizes, so that each is prepared once."""

MOVE_AWAY: Final = "move the file away to start without it, or restore it from a backup"


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "full" in text:
        return "free some space on its disk"
    if "locked" in text or "busy" in text:
        return "another program uses it; end that first"
    if "readonly" in text or "unable to open" in text:
        return "check the folder and its rights"
    return MOVE_AWAY if "malformed" in text or "not a database" in text else "check the disk"
