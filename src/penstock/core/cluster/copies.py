"""Copies of events for classes of receivers, and how those of one class wait: packed by a policy, or not."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, Protocol

from penstock.core.queues.bounded import QueueOptions
from penstock.core.queues.packing import PackingQueue
from penstock.model.digest import Digest
from penstock.model.digest_wire import digest_in
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy


class Outgoing:
    """An event on its way to other nodes; one object for all links."""

    __slots__ = ("data", "event", "number", "retained")

    count: ClassVar[int] = 1

    def __init__(self, event: Event, data: bytes, *, number: int = 0, retained: bool = False) -> None:
        self.event = event
        self.number = number
        """Number of the event among those of this node."""
        self.data = data
        """The event as an item of a frame."""
        self.retained = retained
        """Whether every node has to know it, sooner or later."""

    @property
    def ts_us(self) -> Instant:
        """When the event was published."""
        return self.event.ts_us


class OutgoingRun:
    """Events on their way to other nodes as the bytes they came in; one object for all links."""

    __slots__ = ("_open", "_opened", "count", "data", "ts_us")

    def __init__(
        self, count: int, data: bytes, open_: Callable[[], list[Outgoing]], *, ts_us: Instant = 0
    ) -> None:
        """`open_` makes the events one by one, for a link that is behind."""
        self.count = count
        self.ts_us = ts_us
        self.data = data
        """The events as one item of a frame."""
        self._open = open_
        self._opened: list[Outgoing] | None = None

    def events(self) -> list[Outgoing]:
        """The events one by one, made once for all links."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened


class Copies:
    """An event in private queues, and what became of its copies."""

    __slots__ = ("digested", "flying", "handed", "out", "serial", "waiting")

    def __init__(self, out: Outgoing, serial: int) -> None:
        self.out = out
        self.serial = serial
        self.waiting = 0
        """Queues that hold it."""
        self.flying = 0
        """Items on their way that bring it."""
        self.handed = False
        self.digested = False


class Waiting(Protocol):
    """Copies that wait for one class."""

    def absorb(self, copies: Iterable[Copies], *, now_us: Instant) -> list[Copies]:
        """Take copies in order; returns those that had to go, these or others, into digests."""
        ...

    def bound(self, options: QueueOptions, *, now_us: Instant) -> list[Copies]:
        """Change the capacity; returns those that had to go."""
        ...

    def next(self) -> int | None:
        """Serial number of the next event; 0: a digest, or an urgent event; None: nothing waits."""
        ...

    def pop(self) -> Copies | Digest:
        """Remove the next item."""
        ...

    def clear(self) -> list[Copies]:
        """Remove everything."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes waiting."""
        ...

    @property
    def level(self) -> int:
        """Level at which the next pack begins; 0 without a policy."""
        ...


class PackedCopies:
    """Copies for receivers with a policy, which packs them."""

    def __init__(self, policy: Policy) -> None:
        # Digests leave in their places: the queue of each receiver at the other node keeps its `every`.
        self._queue = PackingQueue(policy, QueueOptions(digests_at_once=True))
        self._kept: dict[int, Copies] = {}
        """Copies in the queue, by the identity of their events."""
        self._one_by_one = bool(policy.urgent)

    def absorb(self, copies: Iterable[Copies], *, now_us: Instant) -> list[Copies]:
        """Take copies in order; what a publisher sent as a digest stays one."""
        items: list[Event | Digest] = []
        gone: list[Copies] = []
        for one in copies:
            event = one.out.event
            digest = digest_in(event)
            if digest is None:
                self._kept[id(event)] = one
                items.append(event)
            else:
                gone.append(one)
                items.append(digest)
        before = self._queue.dropped
        if self._one_by_one:  # the lane of urgent events is bounded as each one comes
            for item in items:
                self._queue.offer(item, now_us=now_us)
        else:
            self._queue.absorb(items, now_us=now_us)
        return gone + self._dropped() if self._queue.dropped != before else gone

    def _dropped(self) -> list[Copies]:
        left = {id(item) for item in self._queue.items()}
        gone = [key for key in self._kept if key not in left]
        return [self._kept.pop(key) for key in gone]

    def bound(self, options: QueueOptions, *, now_us: Instant) -> list[Copies]:
        """Change the capacity, and pack if it is exceeded."""
        self._queue.rebound(options)
        return self.absorb((), now_us=now_us)

    def next(self) -> int | None:
        """Serial number of the next event; 0: a digest, or an urgent event."""
        head = self._queue.head()
        if head is None:
            return None
        return self._kept[id(head)].serial if isinstance(head, Event) and not self._queue.urgent else 0

    def pop(self) -> Copies | Digest:
        """Remove the next item."""
        (item,) = self._queue.take(1)
        if isinstance(item, Event):
            return self._kept.pop(id(item))
        assert isinstance(item, Digest)
        return item

    def clear(self) -> list[Copies]:
        """Remove everything."""
        self._queue.take()
        gone, self._kept = list(self._kept.values()), {}
        return gone

    @property
    def bytes(self) -> int:
        """Bytes waiting."""
        return self._queue.bytes

    @property
    def level(self) -> int:
        """Level at which the next pack begins."""
        return self._queue.level


class PlainCopies:
    """Copies for receivers without a policy: the oldest go, and the owner counts them by filter."""

    level = 0

    def __init__(self) -> None:
        self._copies: deque[Copies] = deque()
        self._options = QueueOptions()
        self.bytes = 0

    def absorb(self, copies: Iterable[Copies], *, now_us: Instant) -> list[Copies]:  # noqa: ARG002
        """Take copies in order."""
        for one in copies:
            self._copies.append(one)
            self.bytes += len(one.out.data)
        gone: list[Copies] = []
        while len(self._copies) > self._options.capacity_events or (
            self.bytes > self._options.capacity_bytes and len(self._copies) > 1
        ):
            gone.append(self._copies.popleft())
            self.bytes -= len(gone[-1].out.data)
        return gone

    def bound(self, options: QueueOptions, *, now_us: Instant) -> list[Copies]:
        """Change the capacity; the oldest go if it is exceeded."""
        self._options = options
        return self.absorb((), now_us=now_us)

    def next(self) -> int | None:
        """Serial number of the next event."""
        return self._copies[0].serial if self._copies else None

    def pop(self) -> Copies | Digest:
        """Remove the next event."""
        one = self._copies.popleft()
        self.bytes -= len(one.out.data)
        return one

    def clear(self) -> list[Copies]:
        """Remove everything."""
        gone = list(self._copies)
        self._copies.clear()
        self.bytes = 0
        return gone
