"""The queue of a subscription without a policy, which takes runs as they are.

A client that reads nothing must cost the others nothing, though its queue overflows with every message they
get. So runs wait as they came; the oldest of their events are counted out by sequence number, without a look
at them, and what is still there when the client reads again goes out as it came. Events are made only for
whoever wants to see them one by one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.core.queues import DropOldestQueue
from penstock.model.digest import Digest
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.core.queues import QueueOptions
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.runs import Run


class RunQueue(DropOldestQueue):
    """Drops the oldest, whether it came alone or in a run."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        super().__init__(options)
        self._runs: deque[Run] = deque()
        """Newer than all other items."""
        self._gone = 0
        """Events of the oldest run that were dropped already."""

    def offer_run(self, run: Run) -> None:
        """Accept a run; the oldest events go if it does not fit."""
        self._accepted += run.count
        self._runs.append(run)
        self._held += run.count
        self._queued += run.count
        self._bytes += run.count * run.each_bytes
        while self._held > self._most_items or self._bytes > self._most_bytes:
            if self._items:
                self._drop_oldest()
            elif self._queued > 1:
                self._drop_of_run(self._runs[0])
            else:
                break  # a single event larger than the whole queue

    def _drop_of_run(self, run: Run) -> None:
        """As many of the oldest run's events as are too many."""
        place = not self._tally.waiting  # the digest takes one
        over_bytes = self._bytes - self._most_bytes
        over = max(self._held + place - self._most_items, -(-over_bytes // run.each_bytes), 1)
        count = min(over, run.count - self._gone, self._queued - 1)
        first = run.seq + self._gone
        self._held -= count
        self._queued -= count
        self._bytes -= count * run.each_bytes
        self._add_many(count, ts_us=run.now_us, seq_first=first, seq_last=first + count - 1)
        self._gone += count
        if self._gone == run.count:
            self._runs.popleft()
            self._gone = 0

    def take_run(self) -> Run | None:
        """Take the run that goes out next; None if something else does."""
        if self.suspended or self._items or self._tally.waiting or not self._runs:
            return None
        run = self._runs.popleft()
        if self._gone:
            run = run.without(self._gone)
            self._gone = 0
        self._held -= run.count
        self._queued -= run.count
        self._bytes -= run.count * run.each_bytes
        self._delivered += run.count
        return run

    @property
    def oldest_us(self) -> Instant | None:
        """Since when what goes out next waits, without a look at it if it is a run."""
        if self._runs and not self.ahead:
            return self._runs[0].now_us
        item = self.head()
        return item.ts_us if isinstance(item, Event) else item.from_us if isinstance(item, Digest) else None

    @property
    def ahead(self) -> int:
        """Items that go out before the first run."""
        return len(self._items) + self._tally.waiting

    # -- one by one ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Make events of the runs that wait."""
        while self._runs:
            run = self._runs.popleft()
            left = run.events()[self._gone :]
            self._gone = 0
            self._held -= len(left)
            self._queued -= len(left)
            self._bytes -= len(left) * run.each_bytes
            for event in left:
                self._append(event, len(event.payload) + len(event.topic))

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Accept an item behind all runs."""
        if self._runs:
            self._open()
        super().offer(item, now_us=now_us)

    def take(self, most: int | None = None, *, most_bytes: int | None = None) -> list[Item]:
        """Take the items that go out next, the events of runs among them."""
        if self._runs and not self.suspended and (most is None or most > self.ahead):
            self._open()
        return super().take(most, most_bytes=most_bytes)

    def head(self) -> Item | None:
        """What goes out next, if anything waits."""
        if self._runs and not self.ahead:
            self._open()
        return super().head()

    def items(self) -> tuple[Item, ...]:
        """What waits, in order."""
        self._open()
        return super().items()
