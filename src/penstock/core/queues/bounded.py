"""The base of every queue: holds items in order, counts them in and out, suspends and resumes.

A queue is bounded by items (events and digests) and by bytes. Control items count for neither bound, have a
bound of their own, and are never dropped. A digest never crosses a control item, so a full queue may hold one
digest more than its capacity for each control item in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.queues.statistics import FilterCount, PackRecord, QueueStatistics
from penstock.errors import ControlOverflow, QueueError
from penstock.model.digest import Cause, Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.queues.pace import Pace
    from penstock.model.event import Item
    from penstock.model.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Capacity of a queue."""

    capacity_events: int = limits.QUEUE_EVENTS
    """Events and digests that may wait."""
    capacity_bytes: int = limits.QUEUE_BYTES
    """Bytes that may wait. An empty queue accepts a single larger event, and the digest at its end may grow
    beyond the capacity when others are merged into it.
    """
    headroom: float = limits.HEADROOM
    """Share of the capacity a pack must free, otherwise it climbs a level."""
    digests_at_once: bool = False
    """Whether digests leave in their places whatever the policy says of `every` and `share`: no slow link
    follows this queue."""

    def __post_init__(self) -> None:
        if self.capacity_events < limits.QUEUE_EVENTS_LEAST:
            raise QueueError(
                f"capacity_events {self.capacity_events}; at least {limits.QUEUE_EVENTS_LEAST}: "
                "an event with a digest before and behind it"
            )
        if self.capacity_bytes < 1:
            raise QueueError(f"capacity_bytes {self.capacity_bytes}; at least 1")
        if not 0 <= self.headroom <= 0.5:
            raise QueueError(f"headroom {self.headroom}; a share between 0 and 0.5")

    @property
    def most_packed(self) -> int:
        """Items that a pack may leave: one that frees a single place would be repeated at every arrival
        (decision 0006).
        """
        return self.capacity_events - max(1, int(self.headroom * self.capacity_events))


class BoundedQueue(ABC):
    """Order and counts of a queue; a subclass makes room when it is full."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        self.options = options or QueueOptions()
        self._most_items = self.options.capacity_events
        self._most_bytes = self.options.capacity_bytes
        self.suspended = False
        self.gathered: list[Digest] = []
        """Digests that the last `take` merged with one another."""
        self._items: deque[Item] = deque()
        self._held = 0
        """Events and digests waiting, as `capacity_events` counts."""
        self._bytes = 0
        self._controls = 0
        self._queued = 0
        self._queued_digested = 0
        self._accepted = 0
        self._delivered = 0
        self._digested = 0
        self._departed_bytes = 0
        self._filters: dict[Cause, FilterCount] = {}
        self._packs: dict[int, int] = {}
        self._records: deque[PackRecord] = deque(maxlen=limits.PACK_RECORDS)
        self._last_pack_us: Instant | None = None
        self._last_turnaround_us: int | None = None
        self._turnarounds = 0
        self._turnaround_sum_us = 0
        self._ratio_sum = 0.0
        self._packs_in_time = 0

    def rebound(self, options: QueueOptions) -> None:
        """Change the capacity; what waits beyond it goes when something is accepted next."""
        self.options = options
        self._most_items = options.capacity_events
        self._most_bytes = options.capacity_bytes

    # -- in and out ------------------------------------------------------------------------------------------

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Accept an item; if the queue is full, the subclass makes room."""
        if isinstance(item, Event):  # the fast path, inlined: nearly every item is an event
            self._accepted += 1
            size = len(item.payload) + len(item.topic) + item.beside
            if self._held < self._most_items and self._bytes + size <= self._most_bytes:
                self._items.append(item)
                self._held += 1
                self._bytes += size
                self._queued += 1
            else:
                self._full(item, size, now_us)
        elif isinstance(item, Control):
            self._add_control(item)
        else:
            self._accepted += item.count
            if not self._merged_into_last(item):
                self._add_digest(item, now_us)

    def _add_digest(self, item: Digest, now_us: Instant) -> None:
        size = item.size
        if self._held >= self._most_items or self._bytes + size > self._most_bytes:
            self._full(item, size, now_us)
        else:
            self._append(item, size)

    def take(
        self, most: int | None = None, *, most_bytes: int | None = None, now_us: Instant | None = None
    ) -> list[Item]:
        """Remove and return the next items: at most `most` items, `most_bytes` bytes (but at least one).

        Without `now_us` no digest is held back for the time that its policy asks for.
        """
        del now_us
        items = self._items
        if most == 1 and items and items[0].__class__ is Event and not self.suspended:
            return [self._next(items)]
        taken: list[Item] = []
        if not self.suspended:
            self._move(items, taken, most, most_bytes)
        return taken

    def _next(self, lane: deque[Item]) -> Event:
        """Remove and return the event at the head of a lane: how a slow link takes items."""
        event = lane.popleft()
        assert isinstance(event, Event)
        size = len(event.payload) + len(event.topic) + event.beside
        self._held -= 1
        self._bytes -= size
        self._queued -= 1
        self._delivered += 1
        self._departed_bytes += size
        return event

    def _move(self, lane: deque[Item], taken: list[Item], most: int | None, most_bytes: int | None) -> int:
        """Move items from a lane to those taken; returns their bytes."""
        size = 0
        while lane and (most is None or len(taken) < most):
            more = lane[0].size
            if most_bytes is not None and size + more > most_bytes and taken:
                break
            size += more
            item = lane.popleft()
            self._account(item, -1)
            if isinstance(item, Event):
                self._delivered += 1
            elif isinstance(item, Digest):
                self._digested += item.count
            taken.append(item)
        self._departed_bytes += size
        return size

    def pick(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """Remove events as if they had never been accepted, because a lane sends them.

        The others keep their order.
        """
        self.items()  # a subclass puts the digest of what it dropped into its place
        return self._pick(self._items, wanted)

    def _pick(self, lane: deque[Item], wanted: Callable[[Event], bool]) -> list[Event]:
        picked = [item for item in lane if isinstance(item, Event) and wanted(item)]
        if picked:
            gone = set(map(id, picked))
            left = [item for item in lane if id(item) not in gone]
            lane.clear()
            lane.extend(left)
            for event in picked:
                self._account(event, -1)
            self._accepted -= len(picked)
        return picked

    @property
    def gathers(self) -> bool:
        """Whether digests are held back for a time, so that `take` needs to know the time."""
        return False

    @property
    def due_us(self) -> Instant | None:
        """When the digest at the head may leave that `take` held back for its time; None: there is none."""
        return None

    def suspend(self) -> None:
        """Keep accepting (and packing) but hand out nothing: the receiver is detached."""
        self.suspended = True

    def resume(self) -> None:
        """Hand out again after `suspend`."""
        self.suspended = False

    def __len__(self) -> int:
        """Items waiting, control items included."""
        return self._held + self._controls

    def items(self) -> tuple[Item, ...]:
        """All waiting items, in order."""
        return tuple(self._items)

    def head(self) -> Item | None:
        """The next item to go out, or None."""
        return self._items[0] if self._items else None

    def oldest(self) -> Item | None:
        """The item that came first of those waiting, or None."""
        return self.head()

    @property
    def newest(self) -> Item | None:
        """The last waiting item, as it is now: digests may have been merged into it."""
        return self._items[-1] if self._items else None

    # -- for subclasses --------------------------------------------------------------------------------------

    @abstractmethod
    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:
        """Accept an item that does not fit."""

    def _append(self, item: Event | Digest, size: int) -> None:
        self._items.append(item)
        self._held += 1
        self._bytes += size
        if isinstance(item, Event):
            self._queued += 1
        else:
            self._queued_digested += item.count

    def _add_control(self, item: Control) -> None:
        if self._controls >= limits.CONTROL_ITEMS:
            raise ControlOverflow(
                f"queue full: {self._controls} control items wait, and control items are never dropped"
            )
        self._items.append(item)
        self._controls += 1

    def _merged_into_last(self, digest: Digest) -> bool:
        """Merge a digest into a digest at the end of the queue: both describe one gap."""
        last = self._items[-1] if self._items else None
        if not isinstance(last, Digest):
            return False
        merged = last.merge(digest)
        self._items[-1] = merged
        self._bytes += merged.size - last.size
        self._queued_digested += digest.count
        return True

    def _account(self, item: Item, sign: int) -> None:
        """Count an item that enters (+1) or leaves (−1) the queue."""
        if isinstance(item, Control):
            self._controls += sign
            return
        self._held += sign
        self._bytes += sign * item.size
        if isinstance(item, Event):
            self._queued += sign
        else:
            self._queued_digested += sign * item.count

    def _replace(self, items: Iterable[Item]) -> None:
        """Replace all waiting items."""
        self._items = deque(items)
        size = queued = digests = digested = controls = 0
        for item in self._items:  # `_account` for each, inlined: a late queue is replaced often
            if isinstance(item, Event):
                queued += 1
                size += len(item.payload) + len(item.topic) + item.beside
            elif isinstance(item, Digest):
                digests += 1
                digested += item.count
                size += item.size
            else:
                controls += 1
        self._held, self._bytes, self._controls = queued + digests, size, controls
        self._queued, self._queued_digested = queued, digested

    def _count_filter(self, cause: Cause, *, seen: int, dropped: int) -> None:
        before = self._filters.get(cause, FilterCount())
        self._filters[cause] = FilterCount(before.seen + seen, before.dropped + dropped)

    def _remember(self, record: PackRecord) -> None:
        self._records.append(record)
        self._packs[record.level] = self._packs.get(record.level, 0) + 1
        self._last_pack_us = record.at_us
        self._ratio_sum += record.ratio
        self._packs_in_time += record.in_time
        if record.turnaround_us is not None:
            self._last_turnaround_us = record.turnaround_us
            self._turnarounds += 1
            self._turnaround_sum_us += record.turnaround_us

    # -- observation -----------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """Level the next pack would begin with; 0 for queues without a policy."""
        return 0

    @property
    def urgent(self) -> int:
        """Events waiting that go ahead of the others."""
        return 0

    @property
    def timed(self) -> bool:
        """Whether the pace of the receiver decides anything here."""
        return False

    def follow(self, pace: Pace) -> None:
        """Keep the time of a receiver that takes items at this pace, if the queue can."""
        del pace

    def wait_us(self) -> int | None:
        """How long an event that arrives now will wait; None: not known."""
        return None

    @property
    def bytes(self) -> int:
        """Bytes waiting, without control items."""
        return self._bytes

    @property
    def controls(self) -> int:
        """Control items waiting."""
        return self._controls

    @property
    def packs(self) -> int:
        """Number of packs."""
        return sum(self._packs.values())

    @property
    def dropped(self) -> int:
        """Events this queue dropped into digests."""
        return sum(count.dropped for count in self._filter_counts().values())

    def _filter_counts(self) -> dict[Cause, FilterCount]:
        return self._filters

    def events(self) -> list[PackRecord]:
        """Remove and return the records of packs since the last call, at most the newest PACK_RECORDS."""
        records = list(self._records)
        self._records.clear()
        return records

    def statistics(self) -> QueueStatistics:
        """Figures of the queue now."""
        packs = self.packs
        return QueueStatistics(
            accepted=self._accepted,
            delivered=self._delivered,
            digested=self._digested,
            queued=self._queued,
            queued_digested=self._queued_digested,
            items=self._held,
            bytes=self._bytes,
            controls=self._controls,
            suspended=self.suspended,
            packs=packs,
            packs_by_level=dict(sorted(self._packs.items())),
            filters=dict(sorted(self._filter_counts().items())),
            level=self.level,
            last_turnaround_us=self._last_turnaround_us,
            mean_turnaround_us=self._turnaround_sum_us / self._turnarounds if self._turnarounds else None,
            mean_ratio=self._ratio_sum / packs if packs else None,
            packs_in_time=self._packs_in_time,
            urgent=self.urgent,
            wait_us=self.wait_us(),
        )
