"""Writes polls and subscriptions to Parquet tables, from which Spark computes factors and allocations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.node.store.parquet import kind_of
from penstock.node.store.recording import Recording

if TYPE_CHECKING:
    from penstock.node.config.schema import Config
    from penstock.node.store.recording import RecorderStatus


class PollRecord(NamedTuple):
    """Row of the table `polls`."""

    url: str
    ts: int
    """Microseconds since 1970."""
    status: int
    """HTTP status; 0: no answer."""
    changed: bool
    bytes: int
    """Bytes received over the network."""
    duration_us: int
    error: str
    """Why the poll failed; empty: it succeeded."""


class SubscriptionRecord(NamedTuple):
    """Row of the table `subscriptions`: one began or ended."""

    url: str
    who_kind: str
    """Kind of subscriber: mqtt, xmpp, webhook …"""
    ts: int
    change: int
    """+1 or -1."""
    subscribers: int
    """Number of subscribers afterwards."""


POLLS: Final = kind_of(
    PollRecord, "polls", ("string", "int64", "int32", "bool", "int64", "int64", "string"), ("url", "error")
)
SUBSCRIPTIONS: Final = kind_of(
    SubscriptionRecord, "subscriptions", ("string", "string", "int64", "int32", "int32"), ("url", "who_kind")
)


class PollLog:
    """Writes both tables, each to its own folder below the data folder."""

    def __init__(self, config: Config) -> None:
        """Prepare both folders; MissingTool or NodeError says why that fails."""
        data = Path(config.data)
        self._polls = Recording(data / POLLS.name, POLLS, config.recorder)
        self._subscriptions = Recording(data / SUBSCRIPTIONS.name, SUBSCRIPTIONS, config.recorder)

    def start(self) -> None:
        """Begin to write."""
        self._polls.begin()
        self._subscriptions.begin()

    def poll(self, row: PollRecord) -> None:
        """Write a poll."""
        self._polls.add(row)

    def subscription(self, row: SubscriptionRecord) -> None:
        """Write a change of subscriptions."""
        self._subscriptions.add(row)

    def status(self) -> tuple[RecorderStatus, RecorderStatus]:
        """Return the state of both recordings: polls and subscriptions."""
        return self._polls.status(), self._subscriptions.status()

    async def close(self) -> None:
        """Write what waits, and finish the files."""
        await self._polls.close()
        await self._subscriptions.close()
