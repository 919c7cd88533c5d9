"""Writes polls and subscriptions to Parquet tables, from which Spark computes factors and allocations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.node.store.parquet import Kind
from penstock.node.store.recording import Recording

if TYPE_CHECKING:
    from types import ModuleType

    from penstock.node.config.schema import Config
    from penstock.node.store.recording import RecorderStatus


class PollRecord(NamedTuple):
    """One poll."""

    url: str
    ts: int
    """Microseconds since 1970."""
    status: int
    """Of HTTP; 0: no answer."""
    changed: bool
    bytes: int
    """As they came over the network."""
    duration_us: int
    error: str
    """Empty: it told whether there was a change."""


class SubscriptionRecord(NamedTuple):
    """A subscription that began or ended."""

    url: str
    who_kind: str
    """mqtt, xmpp, webhook …"""
    ts: int
    change: int
    """+1 or -1."""
    subscribers: int
    """Afterwards."""


def _kind(row: type[Any], name: str, types: tuple[str, ...], repeating: tuple[str, ...]) -> Kind:
    def schema(arrow: ModuleType) -> Any:
        return arrow.schema(list(zip(row._fields, types, strict=True)))

    def columns(rows: list[Any]) -> list[list[Any]]:
        return [list(column) for column in zip(*rows, strict=True)]

    return Kind(
        name=name,
        schema=schema,
        columns=columns,
        size=lambda found: 64 + len(found.url),
        repeating=repeating,
    )


POLLS: Final = _kind(
    PollRecord, "polls", ("string", "int64", "int32", "bool", "int64", "int64", "string"), ("url", "error")
)
SUBSCRIPTIONS: Final = _kind(
    SubscriptionRecord, "subscriptions", ("string", "string", "int64", "int32", "int32"), ("url", "who_kind")
)


class PollLog:
    """Both tables, in folders of their own below the data folder."""

    def __init__(self, config: Config) -> None:
        """MissingTool or NodeError says what stands in the way."""
        data = Path(config.data)
        self._polls = Recording(data / POLLS.name, POLLS, config.recorder)
        self._subscriptions = Recording(data / SUBSCRIPTIONS.name, SUBSCRIPTIONS, config.recorder)

    def start(self) -> None:
        """Write from now on."""
        self._polls.begin()
        self._subscriptions.begin()

    def poll(self, row: PollRecord) -> None:
        """One poll more."""
        self._polls.add(row)

    def subscription(self, row: SubscriptionRecord) -> None:
        """One change of subscriptions more."""
        self._subscriptions.add(row)

    def status(self) -> tuple[RecorderStatus, RecorderStatus]:
        """Polls and subscriptions."""
        return self._polls.status(), self._subscriptions.status()

    async def close(self) -> None:
        """Write what is there, finish the files."""
        await self._polls.close()
        await self._subscriptions.close()
