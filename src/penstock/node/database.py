"""An embedded SQLite file: opened with care, written in batches that are on disk when they are done.

A killed process or a lost power supply costs what was not acknowledged, nothing else (write-ahead log,
synchronous=FULL). A file of another version, or a damaged one, is refused with what to do about it.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

Row: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement and its parameters."""

Answer = TypeVar("Answer")


class Reader:
    """Asks the file. Opened in one thread, used from any one thread at a time."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection) -> None:
        self.path = path
        self._database = connection

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """What a question answers with."""
        try:
            return self._database.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._wrong(error) from None

    def each(self, statement: str, parameters: Sequence[Any] = ()) -> Generator[Any]:
        """The same, row by row: what is not asked for is not read. To be closed."""
        cursor = self._database.cursor()
        try:
            yield from cursor.execute(statement, parameters)
        except sqlite3.Error as error:
            raise self._wrong(error) from None
        finally:
            cursor.close()  # an open question would keep the write-ahead log from being emptied

    def _wrong(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{error}; {_advice(error)}", self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


class Database(Reader):
    """The file, to be written, too."""

    def __init__(self, path: Path | None, tables: Sequence[str], *, schema: int) -> None:
        """Open or make it, None: in memory; StoreError says what is wrong with it and what to do."""
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
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
        """All rows or none; on disk when this returns, else StoreError."""

        def work(connection: sqlite3.Connection) -> None:
            for statement, same in groupby(rows, key=itemgetter(0)):
                connection.executemany(statement, [parameters for _, parameters in same])

        self.transact(work)

    def transact(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """All that `work` does or none of it; on disk when this returns, else StoreError."""
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

    def reader(self) -> Reader:
        """For questions from another thread than the one that writes; StoreError if it cannot be had.

        It sees what is on disk; of a database in memory also what is being written.
        """
        if self.path is None:
            return Reader(None, self._database)
        try:
            second = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            second.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise self._wrong(error) from None
        return Reader(self.path, second)


def put_many(connection: sqlite3.Connection, insert: str, columns: int, values: Sequence[Any]) -> None:
    """Insert many rows, whose values follow one another.

    A statement for each row would give up and take back the interpreter's lock each time, and wait up to 5 ms
    for it if the loop is busy.
    """
    row = f"({', '.join('?' * columns)})"
    done, rows = 0, len(values) // columns
    for size in ROWS_AT_ONCE:
        statement = f"{insert} VALUES {', '.join([row] * size)}" if rows - done >= size else ""
        while rows - done >= size:
            connection.execute(statement, values[done * columns : (done + size) * columns])
            done += size


ROWS_AT_ONCE: Final = (512, 64, 8, 1)
"""Of one INSERT: SQLite takes 32,766 values. A few sizes, so that each statement is prepared only once."""

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
