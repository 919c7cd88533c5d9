"""The state file of streams: what is durable beside the logs (cursors, marks, consumers, writers, offers).

Values are put under a table and a key. All values put in one turn of the event loop are one transaction.
Code that answers a client for a value waits with `when_durable`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from penstock.errors import StoreError
from penstock.node.store.database import Database, put_many
from penstock.node.streams.log.group_commit import GroupCommit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

FILE: Final = "streams.sqlite"
"""Its name in a node's folder of streams. No log has it: those end in .log.sqlite."""

SCHEMA: Final = 1
"""Of the file; another one is refused."""

Key: TypeAlias = tuple[str, ...]
_Slot: TypeAlias = tuple[str, Key]

_TABLES: Final = (
    "CREATE TABLE state (name TEXT, key BLOB, value BLOB NOT NULL, PRIMARY KEY (name, key)) WITHOUT ROWID",
)


class _Work(msgspec.Struct, frozen=True):
    changes: dict[_Slot, bytes | None]
    waiting: list[Callable[[], None]]


class StateFile:
    """Tables of values by key."""

    def __init__(self, path: Path | None) -> None:
        """Open or make it, None: in memory; StoreError says what is wrong with it and what to do."""
        self._database = Database(path, _TABLES, schema=SCHEMA)
        self._changes: dict[_Slot, bytes | None] = {}
        self._underway: dict[_Slot, bytes | None] = {}
        self._waiting: list[Callable[[], None]] = []
        self.waiting = 0
        """How many are to be called back."""
        self._commits = GroupCommit(self, name=str(path or "the state of streams"))

    @property
    def fault(self) -> str:
        """Why nothing can be made durable at the moment, fit to be shown; empty: it can."""
        return self._commits.fault

    def start(self) -> None:
        """Write from now on, from the running loop."""
        self._commits.start()

    def load(self, table: str) -> list[tuple[Key, bytes]]:
        """All rows of a table in the order of their keys, those not durable yet included."""
        rows = self._database.rows("SELECT key, value FROM state WHERE name = ?", (table,))
        found: dict[Key, bytes | None] = {_keys.decode(key): value for key, value in rows}
        for changes in (self._underway, self._changes):
            found |= {key: value for (name, key), value in changes.items() if name == table}
        return sorted((key, value) for key, value in found.items() if value is not None)

    def put(self, table: str, key: Key, value: bytes) -> None:
        """Write a value in the place of what was there."""
        self._changes[table, key] = value
        self._commits.soon()

    def remove(self, table: str, key: Key) -> None:
        """No value any more; nothing happens if there was none."""
        self._changes[table, key] = None
        self._commits.soon()

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back, in the loop, when everything put and removed until now is durable; at once if it is."""
        if not self._changes and not self._underway:
            callback()
            return
        self._waiting.append(callback)
        self.waiting += 1
        self._commits.soon()

    async def close(self) -> None:
        """Write the rest and let go of the file; StoreError if it cannot be written."""
        await self._commits.close()
        path = self._database.path
        self._database.close()
        if self._changes and self.fault:
            raise StoreError(f"{len(self._changes)} values could not be written: {self.fault}", path)

    # -- what the group commit asks for ----------------------------------------------------------------------

    def take(self) -> _Work | None:
        """See Owner."""
        if not self._changes and not self._waiting:
            return None
        work = _Work(self._changes, self._waiting)
        self._underway, self._changes, self._waiting = self._changes, {}, []
        return work

    def write(self, work: _Work) -> None:
        """See Owner."""
        if work.changes:
            self._database.transact(lambda connection: _change(connection, work.changes))

    def written(self, work: _Work) -> None:
        """See Owner."""
        self._underway = {}
        self.waiting -= len(work.waiting)
        for callback in work.waiting:
            try:
                callback()
            except Exception:  # the others wait, too
                log.exception("somebody who waited for the state of streams failed")

    def put_back(self, work: _Work) -> None:
        """See Owner."""
        self._underway = {}
        self._changes = work.changes | self._changes
        self._waiting = [*work.waiting, *self._waiting]


_keys: Final = msgspec.msgpack.Decoder(Key)
_key_bytes: Final = msgspec.msgpack.Encoder()


def _change(connection: sqlite3.Connection, changes: dict[_Slot, bytes | None]) -> None:
    puts: list[str | bytes] = []
    for (table, key), value in changes.items():
        if value is None:
            connection.execute(
                "DELETE FROM state WHERE name = ? AND key = ?", (table, _key_bytes.encode(key))
            )
        else:
            puts += (table, _key_bytes.encode(key), value)
    put_many(connection, "INSERT OR REPLACE INTO state", 3, puts)
