"""The SQLite file of channels: facts, versions, a bounded history of deltas, subscriptions, host budgets.

A version, its delta and the validators of the answer are written in one transaction; the delta is marked
when it has been handed on. After a crash, a change that was stored is handed on, and none is handed on
twice except the one in progress when the node died. Host budgets are stored so that a restart causes no
extra requests.
"""

from __future__ import annotations

import threading
import zlib
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from penstock.core.channels.delta import Delta
from penstock.core.channels.difference import Rules
from penstock.core.channels.polling import HostBudget, Life
from penstock.core.channels.subscriptions import ChannelSubscription
from penstock.errors import StoreError
from penstock.node.channels.channel import ChannelFacts
from penstock.node.channels.compare import squeezed
from penstock.node.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from penstock.node.store.database import Row

CHANNELS_FILE: Final = "channels.sqlite"
"""Name of the file in a node's data folder."""

SCHEMA: Final = 1
"""Version of the file; another one is refused."""

_TABLES: Final = (
    "CREATE TABLE channel (url TEXT PRIMARY KEY, facts BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE version (url TEXT PRIMARY KEY, rules BLOB NOT NULL, state BLOB NOT NULL)",
    """CREATE TABLE delta (url TEXT, version INTEGER, told INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (url, version))""",
    "CREATE INDEX untold ON delta (told) WHERE told = 0",
    """CREATE TABLE subscription (who TEXT, url TEXT, facts BLOB NOT NULL, PRIMARY KEY (who, url))
    WITHOUT ROWID""",
)

_LATER: Final = (
    "CREATE TABLE IF NOT EXISTS host (name TEXT PRIMARY KEY, facts BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS life (one INTEGER PRIMARY KEY CHECK (one = 1), facts BLOB NOT NULL)",
)
"""Tables that the first files of this version lack; they are added when a file is opened."""

_PUT_CHANNEL: Final = "INSERT OR REPLACE INTO channel VALUES (?, ?)"
_PUT_VERSION: Final = "INSERT OR REPLACE INTO version VALUES (?, ?, ?)"
_PUT_DELTA: Final = "INSERT OR REPLACE INTO delta VALUES (?, ?, 0, ?)"
_TRIM: Final = """DELETE FROM delta WHERE url = ?1 AND told = 1 AND version <=
(SELECT version FROM delta WHERE url = ?1 ORDER BY version DESC LIMIT 1 OFFSET ?2)"""
_TOLD: Final = "UPDATE delta SET told = 1 WHERE url = ? AND version = ?"
_PUT_SUBSCRIPTION: Final = "INSERT OR REPLACE INTO subscription VALUES (?, ?, ?)"
_END_SUBSCRIPTION: Final = "DELETE FROM subscription WHERE who = ? AND url = ?"
_PUT_HOST: Final = "INSERT OR REPLACE INTO host VALUES (?, ?)"
_END_HOST: Final = "DELETE FROM host WHERE name = ?"
_PUT_LIFE: Final = "INSERT OR REPLACE INTO life VALUES (1, ?)"
_END_LIFE: Final = "DELETE FROM life"
_END: Final = (
    "DELETE FROM channel WHERE url = ?",
    "DELETE FROM version WHERE url = ?",
    "DELETE FROM delta WHERE url = ?",
    "DELETE FROM subscription WHERE url = ?",
)

_pack: Final = msgspec.msgpack.Encoder().encode
_T = TypeVar("_T")


def put_channel(url: str, known: ChannelFacts) -> Row:
    """Store the facts about a channel."""
    return _PUT_CHANNEL, (url, _pack(known))


def put_version(url: str, rules: Rules, state: bytes) -> Row:
    """Store the version, squeezed, with which the next content is compared, if read by the same rules."""
    return _PUT_VERSION, (url, _pack(rules), state)


def put_delta(delta: Delta) -> Row:
    """Store a change that is not published yet."""
    return _PUT_DELTA, (delta.url, delta.version, squeezed(delta))


def told(delta: Delta, *, history: int) -> list[Row]:
    """Mark a change as published, and delete old published changes of the channel."""
    return [(_TOLD, (delta.url, delta.version)), (_TRIM, (delta.url, history))]


def put_subscription(subscribed: ChannelSubscription) -> Row:
    """Store a subscription."""
    return _PUT_SUBSCRIPTION, (subscribed.who, subscribed.url, _pack(subscribed))


def end_subscription(who: str, url: str) -> Row:
    """Delete a subscription."""
    return _END_SUBSCRIPTION, (who, url)


def end_channel(url: str) -> list[Row]:
    """Delete everything about a channel."""
    return [(statement, (url,)) for statement in _END]


def put_hosts(used: Iterable[HostBudget], idle: Iterable[str]) -> list[Row]:
    """Store the budgets of domains that are in use; delete those of idle domains."""
    return [
        *((_PUT_HOST, (budget.name, _pack(budget))) for budget in used),
        *((_END_HOST, (name,)) for name in idle),
    ]


def put_life(life: Life) -> Row:
    """Store that a run of the node has begun."""
    return _PUT_LIFE, (_pack(life),)


def end_life() -> Row:
    """Store that the run ended in order."""
    return _END_LIFE, ()


class ChannelStore(Database):
    """The file, or a database in memory; used by one thread at a time."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the file; StoreError says what is wrong with it and what to do."""
        super().__init__(path, _TABLES, schema=SCHEMA)
        self._one = threading.Lock()
        try:
            self.write([(statement, ()) for statement in _LATER])
        except StoreError:
            self.close()
            raise

    def write(self, rows: Sequence[Row]) -> None:
        """Write all rows in one transaction."""
        with self._one:
            super().write(rows)

    def _rows(self, statement: str, *parameters: object) -> list[tuple[bytes, ...]]:
        with self._one:
            return self.rows(statement, parameters)

    def channels(self) -> Iterator[tuple[str, ChannelFacts]]:
        """Read all channels with their facts."""
        for url, facts in self.rows("SELECT url, facts FROM channel ORDER BY url"):
            yield url, self._read(facts, ChannelFacts)

    def subscriptions(self) -> Iterator[ChannelSubscription]:
        """Read all subscriptions."""
        for (facts,) in self.rows("SELECT facts FROM subscription ORDER BY who, url"):
            yield self._read(facts, ChannelSubscription)

    def hosts(self) -> list[HostBudget]:
        """Read the budgets of domains."""
        return [self._read(facts, HostBudget) for (facts,) in self._rows("SELECT facts FROM host")]

    def life(self) -> Life | None:
        """Read the last run of the node; None if it ended in order."""
        found = self._rows("SELECT facts FROM life")
        return self._read(found[0][0], Life) if found else None

    def version(self, url: str, rules: Rules) -> bytes | None:
        """Read the stored version of a channel; None if there is none that was read by these rules."""
        for stored, state in self._rows("SELECT rules, state FROM version WHERE url = ?", url):
            # Compared as values: rules that were stored by an older program lack what was added since.
            if stored == _pack(rules) or self._read(stored, Rules) == rules:
                return state
        return None

    def deltas(self, url: str, *, most: int, after: int = 0) -> list[Delta]:
        """Read the newest deltas of a channel, newest first; only those to versions after a version."""
        statement = "SELECT body FROM delta WHERE url = ? AND version > ? ORDER BY version DESC LIMIT ?"
        found = self._rows(statement, url, after, most)
        return [self._read(body, Delta, squeezed=True) for (body,) in found]

    def untold(self) -> list[Delta]:
        """Read changes that were stored but not published, oldest first."""
        found = self._rows("SELECT body FROM delta WHERE told = 0")
        deltas = [self._read(body, Delta, squeezed=True) for (body,) in found]
        return sorted(deltas, key=lambda delta: (delta.at_us, delta.version))

    def _read(self, data: bytes, kind: type[_T], *, squeezed: bool = False) -> _T:
        try:
            return msgspec.msgpack.decode(zlib.decompress(data) if squeezed else data, type=kind)
        except (msgspec.DecodeError, zlib.error) as error:
            raise StoreError(
                f"damaged: {error}; move the file away to start without it, or restore it", self.path
            ) from None
