"""Replays a recorded stream through one queue: events at their own times, a drain, and the result.

    events in order of time ──► queue ──drain: items or bytes per second──► receiver

The drain takes the next item when it has finished the one before, like a link. Time is counted in fractions
of a microsecond that make every service time an integer, so that no rounding accumulates. A `ReplayReader`
replaces the drain by a receiver with its own time for each item.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, repeat
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.core.queues.pace import Pace
from penstock.errors import QueueError
from penstock.model.digest import Digest
from penstock.model.digest_wire import MARK_BYTES, to_message
from penstock.model.event import Control, Event
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.queues.bounded import BoundedQueue
    from penstock.core.queues.statistics import PackRecord, QueueStatistics
    from penstock.model.event import Item
    from penstock.model.instant import Instant

_PART: Final = limits.PACK_RECORDS // 2
"""Events after which records of packs are taken from the queue: an event may ask for two packs, one for its
time and one for its place."""
LOST: Final = -1
"""Delivery time of an event that was not delivered."""

_RATE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*)\s*/\s*(s|min|h)")
_BYTES: Final = {
    "B": Fraction(1),
    "kB": Fraction(1_000),
    "MB": Fraction(1_000_000),
    "KiB": Fraction(1 << 10),
    "MiB": Fraction(1 << 20),
    "bit": Fraction(1, 8),
    "kbit": Fraction(125),
    "Mbit": Fraction(125_000),
}
_ITEMS: Final = ("", "items", "events")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600}


@dataclass(frozen=True, slots=True)
class Drain:
    """The rate at which a queue is emptied."""

    per_s: Fraction
    in_bytes: bool
    """Bytes per second, else items (events and digests)."""
    text: str = ""
    """The rate as the user wrote it."""

    def __post_init__(self) -> None:
        if not limits.DRAIN_LEAST <= self.per_s <= limits.DRAIN_MOST:
            raise QueueError(
                f"drain {self.text or self.per_s}: at least one an hour, "
                f"at most {limits.DRAIN_MOST:,} a second"
            )


def drain(text: str) -> Drain:
    """Parse a drain: 100/s, 30/min, 6250B/s, 50kbit/s."""
    found = _RATE.fullmatch(text.strip())
    if found is None or found[2] not in (*_ITEMS, *_BYTES):
        units = ", ".join(_BYTES)
        raise QueueError(
            f"a drain is written like 100/s, 30/min, 6250B/s or 50kbit/s, found {text!r}; units: {units}"
        )
    unit = _BYTES.get(found[2])
    per_s = Fraction(found[1]) * (unit or 1) / _SECONDS[found[3]]
    return Drain(per_s, in_bytes=unit is not None, text=text.strip())


_WHOLE_US: Final = Drain(Fraction(1), in_bytes=False)
"""Clock of a reader: one unit a second needs no fractions of a microsecond."""


class ReplayReader(Protocol):
    """A receiver that takes its own time for each item."""

    def takes_us(self, item: Event | Digest, *, now_us: Instant) -> int:
        """Time the item takes, starting now."""
        ...


def wire_bytes(item: Item) -> int:
    """Bytes of an item on a link, without framing; of a digest with the properties that mark it."""
    if not isinstance(item, Digest):
        return item.size
    return len(to_message(item, filter_="", compact=True).payload) + MARK_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """State of a drain, to continue elsewhere or later; the queue's own state is not included."""

    now_us: int
    free_us: Fraction
    """When the drain will be free."""
    idle: bool
    amount: int
    """Size of the item that is being drained, or 1."""
    takes_us: Fraction
    """How long that item takes."""
    pace: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of one queue; places are indexes of the offered events, from 0."""

    published_us: array[int]
    """When each event was published, by place."""
    delivered_us: array[int]
    """When the last byte of each event was sent, by place; LOST for events in digests."""
    digests: int
    """Digests delivered."""
    packs: tuple[PackRecord, ...]
    statistics: QueueStatistics
    """Figures of the queue after it ran empty."""


class Replay:
    """Offer all events in order of time, each as its own object, then call `finish`."""

    def __init__(
        self, queue: BoundedQueue, drain: Drain | ReplayReader, *, digests_on_wire: bool = True
    ) -> None:
        """Digests off the wire take no time: a plain broker reports no drops."""
        self._queue = queue
        self._digests_on_wire = digests_on_wire
        self._reader = None if isinstance(drain, Drain) else drain
        rate = drain if isinstance(drain, Drain) else _WHOLE_US
        self._in_bytes = rate.in_bytes
        self._per_us = rate.per_s.numerator
        """Fractions of a microsecond; one unit of work takes `_work` of them."""
        self._work = SECOND_US * rate.per_s.denominator
        self._free = 0
        """When the drain will be free."""
        self._idle = True
        self._pace = Pace(by_items=not self._in_bytes and self._reader is None)
        queue.follow(self._pace)
        self._timed, self._gathers = queue.timed, queue.gathers
        self._serving = (0, 0)
        """The item that is being drained: its size, or 1, and how long it takes."""
        self._now_us: Instant | None = None
        """Time of the last event; None before the first."""
        self._out: list[Item] | None = None
        """Items that the drain has taken, if somebody collects them."""
        self._places: dict[int, int] = {}
        """Places of waiting events by `id`; the id of a dropped event may be reused by a later one."""
        self._published: array[int] = array("q")
        self._delivered: array[int] = array("q")
        self._digests = 0
        self._packs: list[PackRecord] = []

    def collect(self) -> list[Item]:
        """Put every item that the drain takes from now on into this list, in order."""
        self._out = []
        return self._out

    def offer(self, event: Event) -> None:
        """Publish an event; if older than the one before, at that one's time."""
        self.offer_all((event,))

    def offer_all(self, events: Sequence[Event]) -> None:
        """Publish events one after the other."""
        if not events:
            return
        self._place(events)
        now_us = events[0].ts_us if self._now_us is None else self._now_us
        for start in range(0, len(events), _PART):
            now_us = self._offer_part(events[start : start + _PART], now_us)
            self._packs += self._queue.events()
        self._now_us = now_us

    def _offer_part(self, events: Sequence[Event], now_us: Instant) -> Instant:
        """Publish events; returns the time of the last."""
        offer, per_us, timed, gathers = self._queue.offer, self._per_us, self._timed, self._gathers
        for event in events:
            if event.ts_us > now_us:  # noqa: PLR1730  # for each event
                now_us = event.ts_us
            now = now_us * per_us
            if not self._idle:
                if self._free <= now:
                    self._serve(now)
                if timed:
                    amount, takes = self._serving
                    self._pace.outside = amount * (self._free - now) / takes if takes else 0
            elif gathers:
                self._go_on(now_us)
            offer(event, now_us=now_us)
            if self._idle:
                self._free = now
                self._serve(now)
        return now_us

    def offer_digest(self, digest: Digest) -> None:
        """Offer a digest, at the time of its last event."""
        self.advance(digest.to_us)
        assert self._now_us is not None
        self._queue.offer(digest, now_us=self._now_us)
        if self._idle:
            self._free = self._now_us * self._per_us
            self._serve(self._free)

    def advance(self, now_us: Instant) -> None:
        """Let time pass: the drain takes what it can until then."""
        self._now_us = now_us if self._now_us is None else max(now_us, self._now_us)
        if self._idle:
            self._go_on(self._now_us)
        elif self._free <= self._now_us * self._per_us:
            self._serve(self._now_us * self._per_us)

    def next_us(self) -> Instant | None:
        """When the drain will take the next item; None: nothing waits."""
        if not len(self._queue):
            return None
        return self._queue.due_us if self._idle else -(-self._free // self._per_us)

    def _go_on(self, now_us: Instant) -> None:
        """Serve a digest that the idle drain waited for, if its time is over."""
        due_us = self._queue.due_us
        if due_us is not None and due_us <= now_us:
            self._free = due_us * self._per_us
            self._serve(now_us * self._per_us)

    def _place(self, events: Sequence[Event]) -> None:
        """Give events their places, behind those that have one."""
        first = len(self._published)
        self._published.extend([event.ts_us for event in events])
        self._delivered.extend(repeat(LOST, len(events)))
        self._places.update(zip(map(id, events), count(first), strict=False))

    def state(self) -> ReplayState | None:
        """Where the drain stands; None before the first event."""
        if self._now_us is None:
            return None
        amount, takes = self._serving
        return ReplayState(
            now_us=self._now_us,
            free_us=Fraction(self._free, self._per_us),
            idle=self._idle,
            amount=amount,
            takes_us=Fraction(takes, self._per_us),
            pace=self._pace.state(),
        )

    def restore(self, state: ReplayState, waiting: Sequence[Event]) -> None:
        """Continue where another drain stood; `waiting` are the events that the queue holds, in any order.

        The drain may have another rate: then the item that is being drained takes what it took before.
        """
        self._place(waiting)
        self._now_us, self._idle = state.now_us, state.idle
        self._free = -(-state.free_us * self._per_us // 1)
        self._serving = (state.amount, -(-state.takes_us * self._per_us // 1))
        self._pace.restore(state.pace)

    def finish(self) -> Replayed:
        """Let the queue run empty."""
        self._serve(None)
        self._packs += self._queue.events()
        return Replayed(
            self._published, self._delivered, self._digests, tuple(self._packs), self._queue.statistics()
        )

    def _serve(self, now: int | None) -> None:
        """Take items while the drain is free before `now`."""
        self._idle = False
        take, timed, per_us, free = self._queue.take, self._timed, self._per_us, self._free
        places, delivered, gathers = self._places, self._delivered, self._gathers
        out, by_items, work = self._out, self._pace.by_items, self._work
        try:
            while now is None or free <= now:
                if timed:
                    self._told()
                taken = take(1, now_us=-(-free // per_us)) if gathers else take(1)
                if not taken:
                    due_us = self._queue.due_us if gathers else None
                    if due_us is not None and (now is None or due_us * per_us <= now):
                        free = max(free, due_us * per_us)
                        continue
                    self._idle = True
                    break
                item = taken[0]
                if out is not None:
                    out.append(item)
                takes = work if by_items and item.__class__ is Event else self._takes(item, free)
                free += takes
                if timed:
                    amount = 1 if by_items else self._pace.amount(size=item.size, items=1)
                    self._serving = (amount, takes)
                if isinstance(item, Event):
                    delivered[places.pop(id(item))] = -(-free // per_us)
                else:
                    self._digests += isinstance(item, Digest)
        except OverflowError:
            raise QueueError("the drain is too slow: the queue never empties") from None
        self._free = free
        if self._idle and timed:
            self._pace.rested()
            self._pace.outside = 0

    def _told(self) -> None:
        """Tell the pace of the item that has been drained."""
        amount, takes = self._serving
        if takes:
            self._pace.took(amount, over_us=takes / self._per_us)
        self._serving = (0, 0)

    def _takes(self, item: Item, free: int) -> int:
        """How long the drain needs for an item from `free` on, in its fractions of a microsecond."""
        if self._reader is not None and not isinstance(item, Control):
            return self._reader.takes_us(item, now_us=free)
        if isinstance(item, Event):
            return self._work * max(1, item.size) if self._in_bytes else self._work
        if not self._digests_on_wire:
            return 0
        return self._work * wire_bytes(item) if self._in_bytes else self._work
