"""What waits for subscribers, as rows of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.channels.address import topic_of
from penstock.model.digest import Digest
from penstock.model.digest_wire import to_bytes
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.database import Row

TABLES: Final = (
    """CREATE TABLE waiting (place INTEGER PRIMARY KEY, who TEXT NOT NULL, policy TEXT NOT NULL,
    url TEXT NOT NULL, ts_us INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX waiting_of ON waiting (who, policy)",
    """CREATE TABLE held (who TEXT, url TEXT, policy TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (who, url))""",
)
LOAD: Final = "SELECT place, who, policy, url, ts_us, seq, body FROM waiting ORDER BY place"
LOAD_HELD: Final = "SELECT who, url, policy, body FROM held ORDER BY who, url"
PUT: Final = "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?)"
END: Final = "DELETE FROM waiting WHERE place = ?"
END_LANE: Final = "DELETE FROM waiting WHERE who = ? AND policy = ?"
END_ALL: Final = "DELETE FROM waiting"
HOLD: Final = "INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?)"
RELEASE: Final = "DELETE FROM held WHERE who = ? AND url = ?"
RELEASE_ALL: Final = "DELETE FROM held"


Waiting: TypeAlias = tuple[int, str, str, str, int, int, bytes]
Paused: TypeAlias = tuple[str, str, str, bytes]
"""Rows of the two tables."""


def event(url: str, body: bytes, *, ts_us: Instant, seq: int) -> Event:
    """A change as the queues hold it."""
    return Event(topic_of(url), body, ts_us, sender=url, seq=seq, content_type="application/json")


def row(place: int, who: str, policy: str, item: Item) -> Row:
    """An item that waits; a digest belongs to no one channel."""
    if isinstance(item, Event):
        return PUT, (place, who, policy, item.sender, item.ts_us, item.seq, item.payload)
    assert isinstance(item, Digest)
    return PUT, (place, who, policy, "", item.from_us, item.seq_last, to_bytes(item))
