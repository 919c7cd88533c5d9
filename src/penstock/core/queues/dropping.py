"""The two queues without a policy: drop the oldest or drop the newest; both count the dropped events in
digests.

Most brokers do one of these silently. Here they are the default for receivers without a policy, and the
baselines of the experiments. A running tally instead of merging digests keeps the cost of an overflow at that
of queueing a few more events.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.core.queues.statistics import FilterCount
from penstock.model.digest import NEWEST, OLDEST, Cause, Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from penstock.model.event import Item
    from penstock.model.instant import Instant


TALLY_BYTES: Final = 60
"""`Digest.size` of a digest with one cause and no attributes."""


class Tally:
    """Counts dropped events until a digest is needed."""

    __slots__ = ("_cause", "count", "from_us", "merged", "seq_first", "seq_last", "to_us")

    def __init__(self, cause: Cause) -> None:
        self._cause = cause
        self.count = 0
        self.from_us = self.to_us = self.seq_first = self.seq_last = 0
        self.merged: Digest | None = None
        """Digests from upstream that fell into the same gap."""

    def add(self, event: Event) -> None:
        """Count a dropped event."""
        ts_us, seq = event.ts_us, event.seq
        if not self.count:
            self.from_us = self.to_us = ts_us
            self.seq_first = self.seq_last = seq
        self.count += 1
        if ts_us > self.to_us:
            self.to_us = ts_us
        elif ts_us < self.from_us:
            self.from_us = ts_us
        if seq > self.seq_last:
            self.seq_last = seq
        elif seq < self.seq_first:
            self.seq_first = seq

    def add_many(self, count: int, *, ts_us: Instant, seq_first: int, seq_last: int) -> None:
        """Count `count` dropped events of one instant."""
        if not self.count:
            self.from_us = self.to_us = ts_us
            self.seq_first, self.seq_last = seq_first, seq_last
        self.count += count
        self.from_us, self.to_us = min(self.from_us, ts_us), max(self.to_us, ts_us)
        self.seq_first, self.seq_last = min(self.seq_first, seq_first), max(self.seq_last, seq_last)

    def merge(self, digest: Digest) -> None:
        """Merge a digest adjacent to dropped events."""
        self.merged = digest if self.merged is None else self.merged.merge(digest)

    def settle(self) -> Digest | None:
        """Return the digest and start anew."""
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

    @property
    def size(self) -> int:
        """Upper bound of the digest's bytes."""
        return (TALLY_BYTES if self.count else 0) + (self.merged.size if self.merged else 0)


class _TallyingQueue(BoundedQueue):
    """Common part of both queues: a tally, which counts as one waiting item."""

    def __init__(self, cause: Cause, options: QueueOptions | None) -> None:
        super().__init__(options)
        self._cause = cause
        self._tally = Tally(cause)
        self._dropped = 0

    def items(self) -> tuple[Item, ...]:
        """All waiting items, in order."""
        self._settle()
        return super().items()

    def head(self) -> Item | None:
        """The next item to go out, or None."""
        self._settle()
        return super().head()

    @abstractmethod
    def _settle(self) -> None:
        """Put the digest in its place among the items."""

    def _add(self, item: Event | Digest) -> None:
        """Count an item in the tally; the caller has removed it from the waiting items."""
        tally = self._tally
        if isinstance(item, Event):
            if not tally.count:
                self._held += tally.merged is None
                self._bytes += TALLY_BYTES
            tally.add(item)
            self._queued_digested += 1
            self._dropped += 1
            return
        if not tally.waiting:
            self._held += 1
        before = tally.size
        tally.merge(item)
        self._bytes += tally.size - before
        self._queued_digested += item.count

    def _add_many(self, count: int, *, ts_us: Instant, seq_first: int, seq_last: int) -> None:
        """Count events in the tally without looking at them.

        The caller has removed them from the waiting items.
        """
        tally = self._tally
        if not tally.count:
            self._held += tally.merged is None
            self._bytes += TALLY_BYTES
        tally.add_many(count, ts_us=ts_us, seq_first=seq_first, seq_last=seq_last)
        self._queued_digested += count
        self._dropped += count

    def _filter_counts(self) -> dict[Cause, FilterCount]:
        return {self._cause: FilterCount(self._dropped, self._dropped)} if self._dropped else {}

    def _settled(self) -> Digest | None:
        """The digest, no longer counted as waiting."""
        size = self._tally.size
        digest = self._tally.settle()
        if digest is not None:
            self._held -= 1
            self._bytes -= size
            self._queued_digested -= digest.count
        return digest


class DropOldestQueue(_TallyingQueue):
    """Drops the oldest events when full, into one digest at its head."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        super().__init__(OLDEST, options)
        self._ahead: deque[Item] = deque()
        """Control items that stood before dropped events, and the digests between them."""

    def take(
        self, most: int | None = None, *, most_bytes: int | None = None, now_us: Instant | None = None
    ) -> list[Item]:
        """Remove and return the next items; the digest of dropped events comes first."""
        if (self._ahead or self._tally.count or self._tally.merged is not None) and not self.suspended:
            self._settle()
        return super().take(most, most_bytes=most_bytes, now_us=now_us)

    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:  # noqa: ARG002
        """Drop from the head until there is room."""
        while self._items and (self._held >= self._most_items or self._bytes + size > self._most_bytes):
            self._drop_oldest()
        self._append(item, size)

    def _drop_oldest(self) -> None:
        oldest = self._items.popleft()
        if isinstance(oldest, Event):
            self._held -= 1
            self._bytes -= oldest.size
            self._queued -= 1
            self._add(oldest)
        elif isinstance(oldest, Control):
            self._settle_ahead()
            self._ahead.append(oldest)
        else:
            self._account(oldest, -1)
            self._add(oldest)

    def _settle_ahead(self) -> None:
        digest = self._settled()
        if digest is not None:
            self._ahead.append(digest)
            self._held += 1
            self._bytes += digest.size
            self._queued_digested += digest.count

    def _settle(self) -> None:
        """Put the digest and the control items before it back at the head."""
        if self._tally.waiting:
            self._settle_ahead()
        if self._ahead:
            self._items.extendleft(reversed(self._ahead))
            self._ahead.clear()


class DropNewestQueue(_TallyingQueue):
    """Drops arriving events when full, into a digest at its tail: drop-tail, as in a router.

    The digest is not counted for the capacity.
    """

    def __init__(self, options: QueueOptions | None = None) -> None:
        super().__init__(NEWEST, options)

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Accept an item, or count it in the digest if full."""
        tally = self._tally
        if tally.count or tally.merged is not None:
            if not (isinstance(item, Event) and self._is_full(item)):
                self._settle()
            elif tally.count and self._queued:  # the usual case of an overloaded queue
                self._accepted += 1
                self._queued_digested += 1
                self._dropped += 1
                tally.add(item)
                return
        super().offer(item, now_us=now_us)

    def take(
        self, most: int | None = None, *, most_bytes: int | None = None, now_us: Instant | None = None
    ) -> list[Item]:
        """Remove and return the next items; the digest of dropped events comes last."""
        if not self.suspended and self._tally.waiting and (most is None or most > len(self._items)):
            self._settle()
        return super().take(most, most_bytes=most_bytes, now_us=now_us)

    def _is_full(self, item: Event) -> bool:
        return self._held >= self._most_items or self._bytes + item.size > self._most_bytes

    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:  # noqa: ARG002
        if isinstance(item, Event) and not self._queued:
            self._settle()
            self._append(item, size)  # larger than the capacity, but the queue is otherwise empty
            return
        last = self._items[-1] if self._items else None
        if isinstance(last, Digest) and not self._tally.waiting:  # both describe the same gap
            self._items.pop()
            self._account(last, -1)
            self._add(last)
        self._add(item)

    def _settle(self) -> None:
        digest = self._settled()
        if digest is not None and not self._merged_into_last(digest):
            self._append(digest, digest.size)
