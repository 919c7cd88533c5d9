"""The state file of streams: what is durable beside the logs (cursors, marks, consumers, writers, offers).

`StateFile` keeps bytes under a table and a key; `StateTable` is one of its tables with values of one type,
encoded with MessagePack, under keys of one length. All values put in one turn of the event loop are one
transaction. Code that answers a client for a value waits with `when_durable`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import msgspec

from penstock.errors import StoreError
from penstock.node.store.database import MOVE_AWAY, Database, put_many
from penstock.node.store.writer import GroupCommit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path


FILE: Final = "streams.sqlite"
"""File name in the folder of streams; names of logs end in .log.sqlite."""

SCHEMA: Final = 1
"""Version of the tables in the file; a file of another version is refused."""

Key: TypeAlias = tuple[str, ...]
_Changes: TypeAlias = dict[tuple[str, Key], bytes | None]
"""New values by table and key; None: the value is removed."""

_TABLES: Final = (
    "CREATE TABLE state (name TEXT, key BLOB, value BLOB NOT NULL, PRIMARY KEY (name, key)) WITHOUT ROWID",
)


class StateFile:
    """Values by table and key."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file (None: in memory); StoreError says what is wrong with it and what to do."""
        self._database = Database(path, _TABLES, schema=SCHEMA)
        self._changes: _Changes = {}
        self._underway: _Changes = {}
        """Changes that are being written."""
        self._commits = GroupCommit(self, name=path or "the state of streams", rows="values")

    @property
    def waiting(self) -> int:
        """Number of callbacks that wait for a commit."""
        return self._commits.waiting

    @property
    def fault(self) -> str:
        """Why nothing can be written at the moment, for the status; empty if there is no fault."""
        return self._commits.fault

    def start(self) -> None:
        """Begin to write, in the running loop."""
        self._commits.start()

    def load(self, table: str) -> list[tuple[Key, bytes]]:
        """All rows of a table in the order of their keys, those not durable yet included."""
        rows = self._database.rows("SELECT key, value FROM state WHERE name = ?", (table,))
        found: dict[Key, bytes | None] = {_keys.decode(key): value for key, value in rows}
        for changes in (self._underway, self._changes):
            found |= {key: value for (name, key), value in changes.items() if name == table}
        return sorted((key, value) for key, value in found.items() if value is not None)

    def put(self, table: str, key: Key, value: bytes) -> None:
        """Write a value in place of the one under this key."""
        self._changes[table, key] = value
        self._commits.soon()

    def remove(self, table: str, key: Key) -> None:
        """Delete the value under a key, if there is one."""
        self._changes[table, key] = None
        self._commits.soon()

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back when all changes made so far are durable; at once if there are none."""
        if not self._changes and not self._underway:
            callback()
            return
        self._commits.after_commit(callback)

    async def close(self) -> None:
        """Write what is left and close the file; StoreError if it cannot be written."""
        await self._commits.close(self._database.close)

    # -- what the group commit asks for ----------------------------------------------------------------------

    def pending(self) -> int:
        """How many values wait to be written or removed."""
        return len(self._changes)

    def take(self) -> _Changes | None:
        """Give away all changes; `load` still finds them."""
        if not self._changes:
            return None
        self._underway, self._changes = self._changes, {}
        return self._underway

    def write(self, work: _Changes) -> None:
        """Write the changes in one transaction."""
        self._database.transact(lambda connection: _change(connection, work))

    def written(self, _: _Changes) -> None:
        """Forget changes that are on disk."""
        self._underway = {}

    def put_back(self, work: _Changes) -> None:
        """Keep the changes that no later one has replaced."""
        self._underway = {}
        self._changes = work | self._changes


_keys: Final = msgspec.msgpack.Decoder(Key)
_key_bytes: Final = msgspec.msgpack.Encoder()


def _change(connection: sqlite3.Connection, changes: _Changes) -> None:
    puts: list[str | bytes] = []
    for (table, key), value in changes.items():
        if value is None:
            connection.execute(
                "DELETE FROM state WHERE name = ? AND key = ?", (table, _key_bytes.encode(key))
            )
        else:
            puts += (table, _key_bytes.encode(key), value)
    put_many(connection, "INSERT OR REPLACE INTO state", 3, puts)


log = logging.getLogger(__name__)

Value = TypeVar("Value")

_encode = msgspec.msgpack.Encoder().encode


class StateTable(Generic[Value]):
    """One table. What is put into any table of a file in one turn of the event loop is durable together."""

    def __init__(self, state: StateFile, name: str, type_: type[Value], *, width: int) -> None:
        """`width`: number of parts of a key."""
        self.state = state
        self.name = name
        self._width = width
        self._decode = msgspec.msgpack.Decoder(type_).decode

    def load(self, *, skip: bool = False) -> dict[Key, Value]:
        """All rows in the order of their keys, those not durable yet included.

        A row that cannot be decoded raises StoreError; with `skip` it is logged and left out.
        """
        found: dict[Key, Value] = {}
        for key, data in self.state.load(self.name):
            try:
                value = self._decode(data)
                problem = (
                    ""
                    if len(key) == self._width
                    else f"its key has {len(key)} parts instead of {self._width}"
                )
            except (ValueError, msgspec.MsgspecError) as error:
                problem = str(error)
            if not problem:
                found[key] = value
            elif skip:
                log.error("%s: row %r of table %r is left out: %s", FILE, key, self.name, problem)
            else:
                raise StoreError(f"row {key!r} of table {self.name!r}: {problem}; {MOVE_AWAY}", FILE)
        return found

    def put(self, key: Key, value: Value) -> None:
        """Write a value in place of the one under this key."""
        self.state.put(self.name, key, _encode(value))

    def remove(self, key: Key) -> None:
        """Delete the value under a key, if there is one."""
        self.state.remove(self.name, key)
