"""A bounded queue that reports which of its events it dropped.

The queue drops by its policy. Whoever waits for a dropped event, to acknowledge it or to hear that it was
sent, is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue, QueueStatistics
    from penstock.model.event import Item
    from penstock.model.instant import Instant

T = TypeVar("T")


class Buffer(Generic[T]):
    """A queue, and what is owed for the events in it."""

    def __init__(self, queue: BoundedQueue) -> None:
        self.queue = queue
        self._owed: dict[int, T] = {}
        """By identity of the item, which lives as long as it is in the queue."""
        self._dropped = 0

    def __len__(self) -> int:
        """Items waiting."""
        return len(self.queue)

    def offer(self, item: Item, owed: T | None, *, now_us: Instant) -> list[T]:
        """Accept an item; what was owed for those that had to go for it."""
        if owed is not None:
            self._owed[id(item)] = owed
        self.queue.offer(item, now_us=now_us)
        if not self._owed or self.queue.dropped == self._dropped:
            return []
        self._dropped = self.queue.dropped
        alive = {id(each) for each in self.queue.items()}
        return [self._owed.pop(key) for key in [key for key in self._owed if key not in alive]]

    def take(self) -> tuple[Item, T | None] | None:
        """The next item and what is owed for it; None if nothing waits."""
        taken = self.queue.take(1)
        return (taken[0], self._owed.pop(id(taken[0]), None)) if taken else None

    def clear(self) -> tuple[QueueStatistics, list[T]]:
        """Give up what waits: the queue as it was, and what was owed."""
        before = self.queue.statistics()
        owed = list(self._owed.values())
        self._owed.clear()
        self.queue.take()
        return before, owed
