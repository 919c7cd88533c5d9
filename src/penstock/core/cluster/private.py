"""Private queues of a link that is behind: one for each class of receivers, packed by their policy.

The queue of a link is shared while the link keeps up: an event waits, and crosses, once for all its
receivers. If it is full it is *split*: each event goes to the queue of every class that wants it, by
reference. There the policy of the class decides what is dropped into which digest; in the queue of receivers
without a policy the oldest go. What is left leaves in the order in which it came, over all queues: copies of
one event meet, and cross the link as one event that names its classes.

An event is *open* until each of its copies has been handed over, or is counted in a digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.copies import PackedCopies, PlainCopies
from penstock.core.queues.bounded import QueueOptions
from penstock.model.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.core.cluster.copies import Copies, Outgoing, Waiting
    from penstock.core.cluster.interest import ReceiverClass
    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy


@dataclass(frozen=True, slots=True)
class LinkAccount:
    """Every event that was accepted for a link or for a class of receivers, and what became of it."""

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


class PrivateQueue:
    """The queue of one class of receivers, and its account."""

    def __init__(self, receivers: ReceiverClass, waiting: Waiting) -> None:
        self.receivers: ReceiverClass | None = receivers
        """None: the other node was restarted and has not said yet which classes it has."""
        self.was = receivers
        self.waiting = waiting
        self.live = True
        """Whether new events come; the receivers of a class that is not live have moved to others."""
        self.dropped = 0
        """Highest number of an event that is in a digest of it."""
        self.accepted = self.handed = self.digested = self.queued = self.in_flight = self.abandoned = 0

    @property
    def number(self) -> int:
        """Number of the class at the other node; 0 until it is known."""
        return 0 if self.receivers is None else self.receivers.number

    def account(self) -> LinkAccount:
        """Every copy that was accepted for the class, and what became of it."""
        return LinkAccount(
            self.accepted, self.handed, self.digested, self.queued, self.in_flight, self.abandoned
        )


class Sent(NamedTuple):
    """An event for some classes on its way."""

    copies: Copies
    queues: tuple[PrivateQueue, ...]


class Summed(NamedTuple):
    """A digest for one class on its way."""

    queue: PrivateQueue
    digest: Digest


class PrivateQueues:
    """All private queues of one link."""

    def __init__(self, count: Callable[[Outgoing, int], bool]) -> None:
        """`count` counts a dropped event for the filters without a policy, in the class of this number."""
        self._count = count
        self._queues: dict[PrivateQueue, None] = {}
        self._live: dict[int, PrivateQueue] = {}
        self.open: dict[int, Copies] = {}
        """Events with copies that wait or are on their way, by serial number, in order."""
        self.queued = 0
        """Open events with copies that wait."""
        self.bytes = 0
        """Bytes of the events that wait, each counted once."""
        self.handed = self.digested = self.abandoned = 0
        """Events that are not open any more: handed over to some receivers, else in digests, else neither."""
        self.splits = 0

    def __iter__(self) -> Iterator[PrivateQueue]:
        return iter(self._queues)

    @property
    def pending(self) -> bool:
        """Whether events or digests wait in private queues: the link is split."""
        return bool(self._queues) and any(queue.waiting.next() is not None for queue in self._queues)

    @property
    def unresolved(self) -> bool:
        """Whether a restarted node has to tell its classes before anything can leave."""
        return any(queue.receivers is None for queue in self._queues)

    # -- in --------------------------------------------------------------------------------------------------

    def queue(self, receivers: ReceiverClass, policy: Policy | None) -> PrivateQueue:
        """The queue of a class, made on first use; without a policy the oldest go."""
        found = self._live.get(receivers.number)
        if found is None:
            waiting = PlainCopies() if policy is None else PackedCopies(policy)
            found = self._live[receivers.number] = PrivateQueue(receivers, waiting)
            self._queues[found] = None
        return found

    def split(
        self,
        shares: dict[PrivateQueue, list[Copies]],
        *,
        most_events: int,
        most_bytes: int,
        now_us: Instant,
    ) -> None:
        """Give events to the queues of their classes; all queues together have this capacity."""
        self.splits += 1
        for queue, copies in shares.items():
            queue.accepted += len(copies)
            queue.queued += len(copies)
            for one in copies:
                if one.serial not in self.open:
                    self.open[one.serial] = one
                    self.queued += 1
                    self.bytes += len(one.out.data)
                one.waiting += 1
        busy = [queue for queue in self._queues if queue in shares or queue.waiting.next() is not None]
        each = max(1, len(busy))
        options = QueueOptions(
            capacity_events=max(limits.QUEUE_EVENTS_LEAST, most_events // each),
            capacity_bytes=max(1, most_bytes // each),
            digests_at_once=True,
        )
        for queue in busy:
            gone = queue.waiting.bound(options, now_us=now_us)
            gone += queue.waiting.absorb(shares.get(queue, ()), now_us=now_us)
            for one in gone:
                queue.queued -= 1
                queue.digested += 1
                one.digested = True
                queue.dropped = max(queue.dropped, one.out.number)
                if not queue.was.policy:
                    self._count(one.out, queue.number)
                self._left(one)

    def _left(self, one: Copies) -> None:
        """A copy waits no longer."""
        one.waiting -= 1
        if not one.waiting:
            self.queued -= 1
            self.bytes -= len(one.out.data)
            self._settle(one)

    def _settle(self, one: Copies) -> None:
        if one.waiting or one.flying:
            return
        del self.open[one.serial]
        if one.handed:
            self.handed += 1
        elif one.digested:
            self.digested += 1
        else:
            self.abandoned += 1

    # -- out -------------------------------------------------------------------------------------------------

    def take(self, fits: Callable[[int], bool]) -> Iterator[Sent | Summed]:
        """Take items one by one, those that came first ahead, as long as events of their size fit."""
        heads = [
            (serial, order, queue)
            for order, queue in enumerate(self._queues)
            if (serial := queue.waiting.next()) is not None
        ]
        heapify(heads)
        while heads:
            serial = heads[0][0]
            if not fits(len(self.open[serial].out.data) if serial else 0):
                return
            same = [heappop(heads)]
            while serial and heads and heads[0][0] == serial:
                same.append(heappop(heads))
            items = []
            for _, order, queue in same:
                items.append(queue.waiting.pop())
                after = queue.waiting.next()
                if after is not None:
                    heappush(heads, (after, order, queue))
            if isinstance(items[0], Digest):
                yield Summed(same[0][2], items[0])
            else:
                yield self._send(Sent(items[0], tuple(queue for _, _, queue in same)))

    def _send(self, sent: Sent) -> Sent:
        one = sent.copies
        one.flying += 1
        for queue in sent.queues:
            queue.queued -= 1
            queue.in_flight += 1
            self._left(one)
        return sent

    def landed(self, sent: Sent) -> None:
        """The other node has an event."""
        sent.copies.flying -= 1
        sent.copies.handed = True
        for queue in sent.queues:
            queue.in_flight -= 1
            queue.handed += 1
        self._settle(sent.copies)

    def came_back(self, sent: Sent) -> None:
        """The other node has not had an event: it waits again, ahead of all queues."""
        one = sent.copies
        if not one.waiting:
            self.queued += 1
            self.bytes += len(one.out.data)
        one.flying -= 1
        one.waiting += len(sent.queues)
        for queue in sent.queues:
            queue.in_flight -= 1
            queue.queued += 1

    def sent_again(self, sent: Sent) -> Sent | None:
        """An event that came back leaves, to those of its classes that are there; None if none is."""
        there = tuple(queue for queue in sent.queues if queue.receivers is not None)
        self.lost(Sent(sent.copies, tuple(queue for queue in sent.queues if queue.receivers is None)))
        return self._send(Sent(sent.copies, there)) if there else None

    def lost(self, sent: Sent) -> None:
        """An event that came back has no receivers any more."""
        for queue in sent.queues:
            queue.queued -= 1
            queue.abandoned += 1
            self._left(sent.copies)

    # -- classes end -----------------------------------------------------------------------------------------

    def ended(self, number: int, *, moved: bool) -> None:
        """A class has ended. What waits goes out if its receivers have moved to others, else it is
        abandoned."""
        queue = self._live.pop(number, None)
        if queue is None:
            return
        queue.live = False
        if not moved:
            self._drop(queue)
        drained = [one for one in self._queues if not one.live]
        for one in drained:
            if one.waiting.next() is None:
                del self._queues[one]
        past = [one for one in drained if one in self._queues]
        for one in past[: max(0, len(past) - limits.CLUSTER_CLASSES)]:
            self._drop(one)

    def _drop(self, queue: PrivateQueue) -> None:
        for one in queue.waiting.clear():
            queue.queued -= 1
            queue.abandoned += 1
            self._left(one)

    def renumber(self, classes: Iterable[ReceiverClass]) -> None:
        """A restarted node has told its classes: queues of those that it has again are theirs."""
        found = {(one.filter, one.policy): one for one in classes}
        for queue in [queue for queue in self._queues if queue.receivers is None]:
            queue.receivers = found.get((queue.was.filter, queue.was.policy))
            if queue.receivers is None:
                self._drop(queue)
                del self._queues[queue]
            elif queue.live:
                self._live[queue.receivers.number] = queue

    def move_to(self, other: PrivateQueues) -> None:
        """Leave what waits to the queues of the link to the next incarnation of the same node."""
        for serial, one in list(self.open.items()):
            if one.waiting:
                del self.open[serial]
                one.flying = 0
                other.open[serial] = one
        other.queued, other.bytes = self.queued, self.bytes
        self.queued = self.bytes = 0
        for queue in self._queues:
            queue.receivers = None
            queue.abandoned += queue.in_flight
            queue.in_flight = 0
        other._queues, self._queues = self._queues, {}
        self._live = {}

    def abandon(self) -> None:
        """Give up what waits."""
        for queue in self._queues:
            self._drop(queue)
