"""The broker's SQLite file: sessions, messages, received packet identifiers and retained messages.

`broker/journal.py` says when a row changes, `broker/records.py` what the bytes in it mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.node.store.database import Database

if TYPE_CHECKING:
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
