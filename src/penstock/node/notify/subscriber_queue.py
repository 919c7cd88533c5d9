"""The queue of one subscriber under one policy, messages held while it is paused, and their SQLite rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.channels.address import topic_of
from penstock.core.channels.difference import from_json
from penstock.model.digest import Digest
from penstock.model.digest_wire import to_bytes
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.core.channels.delta import Delta
    from penstock.core.queues import PackingQueue
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.store.database import Row

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


WaitingRow: TypeAlias = tuple[int, str, str, str, int, int, bytes]
HeldRow: TypeAlias = tuple[str, str, str, bytes]
"""Rows of the two tables."""


def event(url: str, body: bytes, *, ts_us: Instant, seq: int) -> Event:
    """Make the event of a change, as the queues hold it."""
    return Event(topic_of(url), body, ts_us, sender=url, seq=seq, content_type="application/json")


def row(place: int, who: str, policy: str, item: Item) -> Row:
    """Make the row of an item that waits; a digest has no channel."""
    if isinstance(item, Event):
        return PUT, (place, who, policy, item.sender, item.ts_us, item.seq, item.payload)
    assert isinstance(item, Digest)
    return PUT, (place, who, policy, "", item.from_us, item.seq_last, to_bytes(item))


@dataclass(slots=True)
class SubscriberQueue:
    """The messages that wait for one subscriber under one policy."""

    queue: PackingQueue
    sending: Event | Digest | None = None
    """Item taken from the queue and not sent yet."""
    places: dict[int, int] = field(default_factory=dict)
    """Row numbers of the items, by identity."""
    seq: int = 0

    def items(self) -> list[Item]:
        """Return all items in order, the one being sent first."""
        return [*([] if self.sending is None else [self.sending]), *self.queue.items()]


@dataclass(slots=True)
class HeldChanges:
    """Changes that came while a subscription was paused."""

    policy: str
    digest: Digest


def delta_of(item: Event | Digest) -> Delta | Digest:
    """Return the delta or digest of an item."""
    return from_json(item.payload) if isinstance(item, Event) else item


def when(item: Item) -> Instant:
    """Return the moment by which items of several queues are sent in order."""
    if isinstance(item, Event):
        return item.ts_us
    assert isinstance(item, Digest)
    return item.from_us


def changes_in(item: Item) -> int:
    """Return the number of changes that an item stands for."""
    return item.count if isinstance(item, Digest) else 1
