"""A bounded queue that reports which of its events it dropped.

The queue drops events by its policy. The buffer returns the receipt or waiting call of each dropped event, so
that its owner can acknowledge the event or answer the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue, PackingQueue, QueueStatistics
    from penstock.model.event import Item
    from penstock.model.instant import Instant

T = TypeVar("T")


class Buffer(Generic[T]):
    """A queue, with a value (a receipt, a waiting call) for each event in it."""

    def __init__(self, queue: BoundedQueue) -> None:
        self.queue = queue
        self._owed: dict[int, T] = {}
        """Values by identity of the item, which lives as long as it is in the queue."""
        self._dropped = 0

    def __len__(self) -> int:
        """Number of items in the queue."""
        return len(self.queue)

    def offer(self, item: Item, owed: T | None, *, now_us: Instant) -> list[T]:
        """Accept an item; return the values of the items that were dropped for it."""
        if owed is not None:
            self._owed[id(item)] = owed
        self.queue.offer(item, now_us=now_us)
        if not self._owed or self.queue.dropped == self._dropped:
            return []
        self._dropped = self.queue.dropped
        alive = {id(each) for each in self.queue.items()}
        return [self._owed.pop(key) for key in [key for key in self._owed if key not in alive]]

    def use(self, queue: PackingQueue, *, now_us: Instant) -> list[T]:
        """Go on with another queue, which takes over the items; return the values of those it dropped."""
        items, self.queue, self._dropped = self.queue.take(), queue, 0
        queue.absorb(items, now_us=now_us)
        alive = {id(each) for each in queue.items()}
        return [self._owed.pop(key) for key in [key for key in self._owed if key not in alive]]

    def take(self) -> tuple[Item, T | None] | None:
        """Take the next item with its value; None if the queue is empty."""
        taken = self.queue.take(1)
        return (taken[0], self._owed.pop(id(taken[0]), None)) if taken else None

    def clear(self) -> tuple[QueueStatistics, list[T]]:
        """Empty the queue; return its statistics before, and the values of its items."""
        before = self.queue.statistics()
        owed = list(self._owed.values())
        self._owed.clear()
        self.queue.take()
        return before, owed
