"""The queue of a link: events in order, bounded; events beyond the bound are counted in digests by filter.

The queue of a link is shared: an event waits, and crosses the link, once for all its receivers behind it. If
the queue is full, the oldest events go. Each one is counted for every filter of the other node that matches
it, so that each subscription there learns exactly what it misses. The digests go ahead of the events that
are left.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock import limits
from penstock.core.cluster.frames import Told, encode_item
from penstock.core.queues.dropping import Tally
from penstock.errors import DigestError
from penstock.model.digest import Cause
from penstock.model.digest_wire import from_message, is_marked, to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.model.digest import Digest
    from penstock.model.event import Event

LINK_FULL: Final = Cause(0, 0, "link-full")
"""Says in a digest that the link between two nodes could not carry the events."""


class Outgoing:
    """An event on its way to other nodes; one object for all links."""

    __slots__ = ("data", "event", "retained")

    def __init__(self, event: Event, data: bytes, *, retained: bool = False) -> None:
        self.event = event
        self.data = data
        """The event as an item of a frame."""
        self.retained = retained
        """Whether every node has to know it, sooner or later."""


class Taken(NamedTuple):
    """The items that go into one frame."""

    items: list[bytes]
    events: list[Outgoing]
    """The events among the items."""
    told: list[tuple[str, Digest]]
    """The digests among the items, by filter."""


@dataclass(frozen=True, slots=True)
class LinkAccount:
    """Every event that was accepted for a link, and what became of it."""

    accepted: int = 0
    handed: int = 0
    """Events that the other node has acknowledged."""
    digested: int = 0
    """Events dropped from the full queue, counted in digests."""
    queued: int = 0
    in_flight: int = 0
    """Events sent and not acknowledged."""
    abandoned: int = 0
    """Events that had no receiver any more, or whose node was given up."""

    @property
    def balanced(self) -> bool:
        """Whether every event is accounted for."""
        return self.accepted == (self.handed + self.digested + self.queued + self.in_flight + self.abandoned)

    def __add__(self, other: LinkAccount) -> LinkAccount:
        return LinkAccount(
            self.accepted + other.accepted,
            self.handed + other.handed,
            self.digested + other.digested,
            self.queued + other.queued,
            self.in_flight + other.in_flight,
            self.abandoned + other.abandoned,
        )


class Backlog:
    """The queue of one link. Events have serial numbers in the order in which they were accepted."""

    def __init__(
        self,
        filters_of: Callable[[str], Iterable[str]],
        *,
        capacity_events: int = limits.CLUSTER_QUEUE_EVENTS,
        capacity_bytes: int = limits.CLUSTER_QUEUE_BYTES,
    ) -> None:
        """`filters_of` finds the filters of the other node that match a topic."""
        self._filters_of = filters_of
        self._most_events = capacity_events
        self._most_bytes = capacity_bytes
        self._waiting: deque[Outgoing] = deque()
        self._tallies: dict[str, Tally] = {}
        self.owed: dict[str, None] = {}
        """Topics whose retained message was dropped here: the other node has to get the present one later."""
        self.bytes = 0
        self.accepted = 0
        """Events accepted; the serial number of the last one."""
        self.digested = 0
        self.abandoned = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def empty(self) -> bool:
        """Whether nothing waits, neither events nor digests."""
        return not self._waiting and not self._tallies

    @property
    def head(self) -> int:
        """Serial number of the next event to leave; all before it have left."""
        return self.accepted - len(self._waiting) + 1

    def offer(self, out: Outgoing) -> None:
        """Accept an event; the oldest ones go if it does not fit."""
        self.accepted += 1
        self._waiting.append(out)
        self.bytes += len(out.data)
        self._fit()

    def _fit(self) -> None:
        while len(self._waiting) > self._most_events or (
            self.bytes > self._most_bytes and len(self._waiting) > 1
        ):
            self._drop(self._waiting.popleft())

    def _drop(self, out: Outgoing) -> None:
        self.bytes -= len(out.data)
        if out.retained:
            self.owed[out.event.topic] = None
        wanted, digest = False, _digest_in(out.event)
        for filter_ in self._filters_of(out.event.topic):
            wanted = True
            if digest is not None:
                self._merge(filter_, digest)
                continue
            tally = self._tallies.get(filter_)
            if tally is None:
                tally = self._tallies[filter_] = Tally(LINK_FULL)
            tally.add(out.event)
        if wanted:
            self.digested += 1
        else:
            self.abandoned += 1

    def forget(self, filter_: str) -> None:
        """The other node does not want a filter any more: nobody is left to tell."""
        self._tallies.pop(filter_, None)

    def take(self, most_bytes: int) -> Taken:
        """Take items for one frame, at least one."""
        items: list[bytes] = []
        events: list[Outgoing] = []
        told: list[tuple[str, Digest]] = []
        size = 0
        while self._tallies and size < most_bytes:
            filter_ = next(iter(self._tallies))
            digest = self._tallies.pop(filter_).settle()
            assert digest is not None
            told.append((filter_, digest))
            items.append(encode_item(Told(filter_, to_bytes(digest))))
            size += len(items[-1])
        waiting = self._waiting
        while waiting and (not items or size + len(waiting[0].data) <= most_bytes):
            out = waiting.popleft()
            items.append(out.data)
            size += len(out.data)
            self.bytes -= len(out.data)
            events.append(out)
        return Taken(items, events, told)

    def give_back(self, taken: Taken) -> None:
        """Queue what was taken again, in front: the other node has not had it."""
        for out in reversed(taken.events):
            self._waiting.appendleft(out)
            self.bytes += len(out.data)
        for filter_, digest in taken.told:
            self._merge(filter_, digest)
        self._fit()

    def inherit(self, before: Backlog) -> None:
        """Take over what waits in the queue of a link that has ended: the same node has been restarted."""
        for out in before._waiting:
            self.offer(out)
        for filter_, tally in before._tallies.items():
            digest = tally.settle()
            assert digest is not None
            self._merge(filter_, digest)
        before.accepted -= len(before._waiting)
        before._waiting.clear()
        before._tallies.clear()
        before.bytes = 0

    def _merge(self, filter_: str, digest: Digest) -> None:
        tally = self._tallies.get(filter_)
        if tally is None:
            tally = self._tallies[filter_] = Tally(LINK_FULL)
        tally.merge(digest)

    def abandon(self) -> None:
        """Give up what waits: the other node is gone."""
        self.abandoned += len(self._waiting)
        self._waiting.clear()
        self._tallies.clear()
        self.bytes = 0


def _digest_in(event: Event) -> Digest | None:
    """The digest that a publisher sent in the place of events: it stays what it stands for."""
    if not is_marked(event.properties):
        return None
    try:
        return from_message(event.payload)[0]
    except DigestError:
        return None
