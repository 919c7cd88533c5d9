"""The embedded store: one SQLite file with what must survive a restart.

Rows are written in batches, each in one transaction that is on disk when `write` returns (write-ahead log,
synchronous=FULL): a killed process or a lost power supply costs what was not acknowledged, nothing else.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STORE: Final = "store.sqlite"
"""Its name in a node's data folder."""

SCHEMA: Final = 1
"""Of the file; another one is refused."""

Row: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement and its parameters."""

PUT_SESSION: Final = "INSERT OR REPLACE INTO session VALUES (?, ?)"
END_SESSION: Final = "DELETE FROM session WHERE client_id = ?"
PUT_MESSAGE: Final = "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?, ?)"
MOVE_MESSAGE: Final = "UPDATE message SET state = ?, packet_id = ? WHERE place = ?"
END_MESSAGE: Final = "DELETE FROM message WHERE place = ?"
END_MESSAGES: Final = "DELETE FROM message WHERE client_id = ?"
PUT_RECEIVED: Final = "INSERT OR REPLACE INTO received VALUES (?, ?)"
END_RECEIVED: Final = "DELETE FROM received WHERE client_id = ? AND packet_id = ?"
END_ALL_RECEIVED: Final = "DELETE FROM received WHERE client_id = ?"
PUT_RETAINED: Final = "INSERT OR REPLACE INTO retained VALUES (?, ?)"
END_RETAINED: Final = "DELETE FROM retained WHERE topic = ?"

_TABLES: Final = (
    "CREATE TABLE session (client_id TEXT PRIMARY KEY, facts BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE message (place INTEGER PRIMARY KEY, client_id TEXT NOT NULL, filter TEXT NOT NULL,
    state INTEGER NOT NULL, packet_id INTEGER NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX message_of ON message (client_id)",
    """CREATE TABLE received (client_id TEXT, packet_id INTEGER, PRIMARY KEY (client_id, packet_id))
    WITHOUT ROWID""",
    "CREATE TABLE retained (topic TEXT PRIMARY KEY, body BLOB NOT NULL)",
    f"PRAGMA user_version = {SCHEMA}",
)


class Loaded(NamedTuple):
    """All there is, in the order of the tables' keys."""

    sessions: list[tuple[str, bytes]]
    messages: list[tuple[int, str, str, int, int, bytes]]
    received: list[tuple[str, int]]
    retained: list[tuple[str, bytes]]


class Store:
    """The file. Opened in one thread, written to from any one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make a store; StoreError says what is wrong with it and what to do."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot be opened: {error}; check the folder and its rights", path) from None
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            raise StoreError(f"{error}; {_advice(error)}", path) from None
        except StoreError:
            self._database.close()
            raise

    def _prepare(self) -> None:
        run = self._database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        (version,) = run("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA):
            raise StoreError(
                f"version {version} of the store; this is {SCHEMA}: use the Penstock that wrote it", self.path
            )
        (damage,) = run("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise StoreError(f"damaged: {damage}; {_MOVE_AWAY}", self.path)
        if version == 0:
            run("BEGIN IMMEDIATE")
            for statement in _TABLES:
                run(statement)
            run("COMMIT")

    def load(self) -> Loaded:
        """Everything that was written."""
        run = self._database.execute
        try:
            return Loaded(
                sessions=run("SELECT client_id, facts FROM session ORDER BY client_id").fetchall(),
                messages=run(
                    "SELECT place, client_id, filter, state, packet_id, body FROM message ORDER BY place"
                ).fetchall(),
                received=run("SELECT client_id, packet_id FROM received ORDER BY 1, 2").fetchall(),
                retained=run("SELECT topic, body FROM retained ORDER BY topic").fetchall(),
            )
        except sqlite3.Error as error:
            raise StoreError(f"{error}; {_advice(error)}", self.path) from None

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
            raise StoreError(f"{error}; {_advice(error)}", self.path) from None

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
