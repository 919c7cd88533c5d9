"""A queue of the outbox: what waits for one subscriber under one policy, and what is held while paused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.channels.difference import from_json
from penstock.model.digest import Digest
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.core.channels.delta import Delta
    from penstock.core.queues import PackingQueue
    from penstock.model.event import Item
    from penstock.model.instant import Instant


@dataclass(slots=True)
class Lane:
    """What waits for one subscriber under one policy."""

    queue: PackingQueue
    sending: Event | Digest | None = None
    """Taken from the queue, not told yet."""
    places: dict[int, int] = field(default_factory=dict)
    """Rows of the items, by identity."""
    seq: int = 0

    def items(self) -> list[Item]:
        """All of them, in order."""
        return [*([] if self.sending is None else [self.sending]), *self.queue.items()]


@dataclass(slots=True)
class Held:
    """Changes that came while a subscription was paused."""

    policy: str
    digest: Digest


def delta_of(item: Event | Digest) -> Delta | Digest:
    """What an item tells."""
    return from_json(item.payload) if isinstance(item, Event) else item


def when(item: Item) -> Instant:
    """The moment by which items of several queues are told in order."""
    if isinstance(item, Event):
        return item.ts_us
    assert isinstance(item, Digest)
    return item.from_us


def changes_in(item: Item) -> int:
    """Changes that an item stands for."""
    return item.count if isinstance(item, Digest) else 1
