"""An embedded SQLite file: opened with care, written in batches that are on disk when they are done.

A killed process or a lost power supply costs what was not acknowledged, nothing else (write-ahead log,
synchronous=FULL). A file of another version, or a damaged one, is refused with what to do about it.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Row: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement and its parameters."""


class Database:
    """The file. Opened in one thread, used from any one thread at a time."""

    def __init__(self, path: Path | None, tables: Sequence[str], *, schema: int) -> None:
        """Open or make it, None: in memory; StoreError says what is wrong with it and what to do."""
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                path or ":memory:", isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot be opened: {error}; check the folder and its rights", path) from None
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
            raise StoreError(f"damaged: {damage}; {_MOVE_AWAY}", self.path)
        if version == 0:
            run("BEGIN IMMEDIATE")
            for statement in tables:
                run(statement)
            run(f"PRAGMA user_version = {schema:d}")
            run("COMMIT")

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """What a question answers with."""
        try:
            return self._database.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._wrong(error) from None

    def write(self, rows: Sequence[Row]) -> None:
        """All rows or none; on disk when this returns, else StoreError."""
        run = self._database
        try:
            run.execute("BEGIN IMMEDIATE")
            for statement, same in groupby(rows, key=itemgetter(0)):
                run.executemany(statement, [parameters for _, parameters in same])
            run.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                run.execute("ROLLBACK")
            raise self._wrong(error) from None

    def _wrong(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{error}; {_advice(error)}", self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


_MOVE_AWAY: Final = "move the file away to start without it, or restore it from a backup"


def _advice(error: sqlite3.Error) -> str:
    text = str(error)
    if "full" in text:
        return "free some space on its disk"
    if "locked" in text or "busy" in text:
        return "another program uses it; end that first"
    if "readonly" in text or "unable to open" in text:
        return "check the folder and its rights"
    return _MOVE_AWAY if "malformed" in text or "not a database" in text else "check the disk"
