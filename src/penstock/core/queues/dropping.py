"""The two queues without a policy: drop the oldest, or drop the newest; both count what they drop.

Most brokers do one of these silently. Here they are the default for receivers that said nothing, and the
baselines of the experiments. A running tally, not a merge of digests, keeps an overflow at a fraction of a
microsecond.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.model.digest import NEWEST, OLDEST, Cause, Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from penstock.model.event import Item
    from penstock.model.instant import Instant


class Tally:
    """A COUNT digest in the making."""

    __slots__ = ("_cause", "count", "from_us", "merged", "seq_first", "seq_last", "to_us")

    def __init__(self, cause: Cause) -> None:
        self._cause = cause
        self.count = 0
        self.from_us = self.to_us = self.seq_first = self.seq_last = 0
        self.merged: Digest | None = None
        """Digests from upstream that fell into the same gap."""

    def add(self, item: Event | Digest) -> None:
        """Take up a dropped event, or a digest that stood next to it."""
        if isinstance(item, Digest):
            self.merged = item if self.merged is None else self.merged.merge(item)
            return
        if not self.count:
            self.from_us = self.to_us = item.ts_us
            self.seq_first = self.seq_last = item.seq
        self.count += 1
        if item.ts_us < self.from_us:
            self.from_us = item.ts_us
        elif item.ts_us > self.to_us:
            self.to_us = item.ts_us
        if item.seq < self.seq_first:
            self.seq_first = item.seq
        elif item.seq > self.seq_last:
            self.seq_last = item.seq

    def settle(self) -> Digest | None:
        """The digest, and a fresh start."""
        found = self.merged
        if self.count:
            causes = ((self._cause, self.count),)
            own = Digest(self.count, self.from_us, self.to_us, self.seq_first, self.seq_last, causes)
            found = own if found is None else found.merge(own)
        self.count = 0
        self.merged = None
        return found

    @property
    def waiting(self) -> bool:
        """Whether there is something to settle."""
        return self.count > 0 or self.merged is not None


class DropOldestQueue(BoundedQueue):
    """When it is full the oldest events go, into one digest at its head."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        super().__init__(options)
        self._tally = Tally(OLDEST)
        self._ahead: deque[Item] = deque()
        """Control items that events behind them were dropped past, and the digests between them."""

    def take(self, most: int | None = None, *, most_bytes: int | None = None) -> list[Item]:
        """Take the items that go out next, the digest of what was dropped first."""
        if not self.suspended:
            self._settle()
        return super().take(most, most_bytes=most_bytes)

    def items(self) -> tuple[Item, ...]:
        """What waits, in order."""
        self._settle()
        return super().items()

    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:  # noqa: ARG002
        """Drop from the head until there is room for the item and for the digest."""
        options = self.options
        while self._items and (
            len(self._items) - self._controls + 2 > options.capacity_events
            or self._bytes + size > options.capacity_bytes
        ):
            oldest = self._items.popleft()
            if isinstance(oldest, Control):
                self._settle_ahead()
                self._ahead.append(oldest)
                continue
            self._bytes -= oldest.size
            if isinstance(oldest, Event):
                self._queued -= 1
                self._queued_digested += 1
                self._count_filter(OLDEST, seen=1, dropped=1)
            self._tally.add(oldest)
        self._append(item, size)

    def _settle_ahead(self) -> None:
        digest = self._tally.settle()
        if digest is not None:
            self._ahead.append(digest)
            self._bytes += digest.size

    def _settle(self) -> None:
        """Put digest and passed control items back at the head."""
        if self._tally.waiting:
            self._settle_ahead()
        if self._ahead:
            self._items.extendleft(reversed(self._ahead))
            self._ahead.clear()


class DropNewestQueue(BoundedQueue):
    """When it is full what arrives goes, into a digest at its tail: drop-tail, as in a router."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        super().__init__(options)
        self._tally = Tally(NEWEST)

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Accept an item, or count it."""
        if self._tally.waiting and not (isinstance(item, Event) and self._is_full(item)):
            self._settle()
        super().offer(item, now_us=now_us)

    def take(self, most: int | None = None, *, most_bytes: int | None = None) -> list[Item]:
        """Take the items that go out next; the digest of what was dropped comes last."""
        if not self.suspended and self._tally.waiting and (most is None or most > len(self._items)):
            self._settle()
        return super().take(most, most_bytes=most_bytes)

    def items(self) -> tuple[Item, ...]:
        """What waits, in order."""
        self._settle()
        return super().items()

    def _is_full(self, item: Event) -> bool:
        options = self.options
        return (
            len(self._items) - self._controls >= options.capacity_events
            or self._bytes + item.size > options.capacity_bytes
        )

    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:  # noqa: ARG002
        if isinstance(item, Event) and not self._items:
            self._append(item, size)  # larger than the whole queue, but nothing is in its way
            return
        self._tally.add(item)
        self._queued_digested += 1 if isinstance(item, Event) else item.count
        if isinstance(item, Event):
            self._count_filter(NEWEST, seen=1, dropped=1)

    def _settle(self) -> None:
        digest = self._tally.settle()
        if digest is None:
            return
        self._queued_digested -= digest.count  # counted when it was dropped; appending counts it again
        if not self._merged_into_last(digest):
            self._append(digest, digest.size)
