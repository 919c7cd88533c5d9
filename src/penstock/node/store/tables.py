"""The broker's SQLite file: sessions, messages, received packet identifiers and retained messages.

`broker/journal.py` says when a row changes, `broker/records.py` what the bytes in it mean.
"""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.node.store.database import Database, change_many, put_many

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.node.store.database import Row


STORE: Final = "store.sqlite"
"""Name of the file in a node's data folder."""

SCHEMA: Final = 1
"""Version of the tables; a file with another one is refused."""

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

_PLACES: Final = {
    PUT_SESSION: ("session", 1),
    END_SESSION: ("session", 1),
    END_MESSAGES: ("messages", 1),
    PUT_RECEIVED: ("received", 2),
    END_RECEIVED: ("received", 2),
    END_ALL_RECEIVED: ("all received", 1),
    PUT_RETAINED: ("retained", 1),
    END_RETAINED: ("retained", 1),
}
"""Subject of each statement, and how many of its first parameters identify it."""

_TABLES: Final = (
    "CREATE TABLE session (client_id TEXT PRIMARY KEY, facts BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE message (place INTEGER PRIMARY KEY, client_id TEXT NOT NULL, filter TEXT NOT NULL,
    state INTEGER NOT NULL, packet_id INTEGER NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX message_of ON message (client_id)",
    """CREATE TABLE received (client_id TEXT, packet_id INTEGER, PRIMARY KEY (client_id, packet_id))
    WITHOUT ROWID""",
    "CREATE TABLE retained (topic TEXT PRIMARY KEY, body BLOB NOT NULL)",
)


class StoredRows(NamedTuple):
    """All rows of the tables, each in the order of its key."""

    sessions: list[tuple[str, bytes]]
    messages: list[tuple[int, str, str, int, int, bytes]]
    received: list[tuple[str, int]]
    retained: list[tuple[str, bytes]]


def place_of(row: Row) -> tuple[Any, ...] | None:
    """Key of what a row changes: a later row with the same key replaces it. None: no row replaces it."""
    statement, parameters = row
    about, count = _PLACES.get(statement, ("", 0))
    return (about, *parameters[:count]) if count else None


class Store(Database):
    """The broker's file. Opened in one thread, then written from any one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; StoreError says what is wrong and what to do."""
        super().__init__(path, _TABLES, schema=SCHEMA)

    def write(self, rows: Sequence[Row]) -> None:
        """Run the statements of all rows in one transaction, on disk when this returns; else StoreError.

        Sessions and messages, nearly all of the rows, are changed many at a time.
        """
        self.transact(lambda connection: _change(connection, rows))

    def load(self) -> StoredRows:
        """Read everything that is stored."""
        return StoredRows(
            sessions=self.rows("SELECT client_id, facts FROM session ORDER BY client_id"),
            messages=self.rows(
                "SELECT place, client_id, filter, state, packet_id, body FROM message ORDER BY place"
            ),
            received=self.rows("SELECT client_id, packet_id FROM received ORDER BY 1, 2"),
            retained=self.rows("SELECT topic, body FROM retained ORDER BY topic"),
        )


class _MessageChanges:
    """The changes of messages in one transaction: for each place only the last one."""

    __slots__ = ("_ended", "_moved", "_put")

    def __init__(self) -> None:
        self._put: dict[int, tuple[Any, ...]] = {}
        self._moved: dict[int, tuple[int, int]] = {}
        """State and packet identifier."""
        self._ended: dict[int, None] = {}

    def add(self, statement: str, parameters: tuple[Any, ...]) -> bool:
        """Note a row; False if it is not about one message."""
        if statement == PUT_MESSAGE:
            place = parameters[0]
            self._ended.pop(place, None)
            self._moved.pop(place, None)
            self._put[place] = parameters
        elif statement == END_MESSAGE:
            place = parameters[0]
            self._put.pop(place, None)
            self._moved.pop(place, None)
            self._ended[place] = None
        elif statement == MOVE_MESSAGE:
            state, packet_id, place = parameters
            put = self._put.get(place)
            if put is not None:
                self._put[place] = (*put[:3], state, packet_id, put[5])
            elif place not in self._ended:
                self._moved[place] = (state, packet_id)
        else:
            return False
        return True

    def write(self, connection: sqlite3.Connection) -> None:
        """Change the messages, and begin anew."""
        change_many(connection, _END_MANY, 1, list(self._ended))
        put_many(connection, _PUT_MANY, 6, list(chain.from_iterable(self._put.values())))
        moved = [value for place, row in self._moved.items() for value in (*row, place)]
        change_many(connection, _MOVE_MANY, 3, moved)
        for changes in (self._ended, self._put, self._moved):
            changes.clear()


_END_MANY: Final = "DELETE FROM message WHERE place IN (VALUES {})"
_PUT_MANY: Final = "INSERT OR REPLACE INTO message"
_MOVE_MANY: Final = """UPDATE message SET state = moved.column1, packet_id = moved.column2
    FROM (VALUES {}) AS moved WHERE place = moved.column3"""
_PUT_SESSIONS: Final = "INSERT OR REPLACE INTO session"


def _change(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Run the statements of rows, in an order that means the same as theirs."""
    messages = _MessageChanges()
    others: list[Row] = []
    for row in rows:
        if not messages.add(*row):
            if row[0] == END_MESSAGES:  # the only other statement about messages
                messages.write(connection)
                connection.execute(*row)
            else:
                others.append(row)
    messages.write(connection)
    for statement, same in groupby(others, key=itemgetter(0)):
        if statement == PUT_SESSION:
            put_many(connection, _PUT_SESSIONS, 2, list(chain.from_iterable(one for _, one in same)))
        else:
            connection.executemany(statement, [one for _, one in same])
