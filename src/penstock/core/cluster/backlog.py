"""The queue of a link: events in order, bounded; what the bound takes is counted in digests.

The queue is shared while the link keeps up: an event waits, and crosses the link, once for all its receivers
behind it. If it is full and receivers behind it have policies, it is split into private queues (see
`private`); new events are shared again and split when an eighth of the capacity is full, and the link is
shared once more when the private queues are drained. Where no receiver has a policy, the oldest events go:
they are counted in digests (see `losses`), which go ahead of the events that are left.

Events that came as a run wait, and cross, as the bytes they are. A run is taken apart when the queue is split
or drops some of its events.

Events of flows with reserved slots go ahead of all this, in a lane of their own (see `reserved`): for
everybody, and unpacked.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.copies import Copies, Outgoing, OutgoingRun
from penstock.core.cluster.frames import AHEAD, For, Told, encode_item
from penstock.core.cluster.interest import PeerInterest, ReceiverClass
from penstock.core.cluster.losses import Losses
from penstock.core.cluster.private import LinkAccount, PrivateQueues, Sent, Summed
from penstock.core.cluster.reserved import ReservedLane
from penstock.model.digest_wire import to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.core.cluster.frames import Wants
    from penstock.core.cluster.private import PrivateQueue
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant


class Taken(NamedTuple):
    """The items that go into one frame."""

    items: list[bytes]
    events: list[Outgoing | OutgoingRun]
    """The events among the items that are for everybody."""
    told: list[tuple[tuple[int, str], Digest]]
    """The digests for receivers without a policy, by class and filter."""
    private: list[Sent | Summed]
    """The events and digests for some classes only."""
    ahead: list[tuple[int, Outgoing]]
    """Events of the reserved lane with their positions."""

    @property
    def shared(self) -> int:
        """How many events are for everybody."""
        return sum(one.count for one in self.events) + len(self.ahead)


class Backlog:
    """The queue of one link. Events have serial numbers in the order in which they were accepted."""

    def __init__(
        self,
        filters_of: Callable[[str], Iterable[str]],
        interest: PeerInterest | None = None,
        *,
        capacity_events: int = limits.CLUSTER_QUEUE_EVENTS,
        capacity_bytes: int = limits.CLUSTER_QUEUE_BYTES,
    ) -> None:
        """`filters_of` finds the filters of the other node that match a topic; `interest`: who is behind."""
        self._filters_of = filters_of
        self._interest = PeerInterest() if interest is None else interest
        self._most_events = self._bound_events = capacity_events
        self._most_bytes = self._bound_bytes = capacity_bytes
        self._waiting: deque[Outgoing | OutgoingRun] = deque()
        self._shared = 0
        """Events that wait there."""
        self._shared_bytes = 0
        self._front: deque[Outgoing | Sent | Summed] = deque()
        """Events and digests that were sent while the link was split and came back; they leave first."""
        self._lane = ReservedLane()
        self.private = PrivateQueues(self._count)
        self._losses = Losses()
        self.owed: dict[str, None] = {}
        """Topics whose retained message was dropped here: the other node has to get the present one later."""
        self.relieve: Callable[[], None] = lambda: None
        """Called before the bound takes something: the owner may send what the link has room for."""
        self._inherited = False
        """Whether the other node was started anew, and what is for it waits until it says what it wants."""
        self.serial = 0
        """Serial number of the last event accepted."""
        self.accepted = 0
        self._handed = 0
        self._digested = 0
        self._abandoned = 0

    def __len__(self) -> int:
        return self._shared + self.private.queued + self._shared_in_front + len(self._lane)

    @property
    def _shared_in_front(self) -> int:
        return sum(isinstance(one, Outgoing) for one in self._front)

    @property
    def bytes(self) -> int:
        """Bytes of the events that wait, each counted once."""
        return self._shared_bytes + self.private.bytes + self._lane.bytes

    @property
    def split(self) -> bool:
        """Whether private queues wait for the link."""
        return self.private.pending or bool(self._front)

    @property
    def empty(self) -> bool:
        """Whether nothing waits, neither events nor digests."""
        return not self._waiting and not self._losses and not self._lane and not self.split

    @property
    def head(self) -> int:
        """Serial number of the next shared event to leave; all before it have left."""
        return self.serial - self._shared + 1

    @property
    def unsettled(self) -> int:
        """Lowest serial number of an event that waits, or one of whose copies is on its way.

        An event of the reserved lane has none of its own: the last event before it counts as unsettled too.
        """
        found = next(iter(self.private.open), self.head)
        reserved = self._lane.unsettled
        return found if reserved is None else min(found, reserved)

    @property
    def digested(self) -> int:
        """Events that are in digests, and were handed over to nobody."""
        return self._digested + self.private.digested

    @property
    def abandoned(self) -> int:
        """Events that had no receiver any more."""
        return self._abandoned + self.private.abandoned

    def account(self, shared_in_flight: int = 0) -> LinkAccount:
        """Every event that was accepted, and what became of it."""
        return LinkAccount(
            accepted=self.accepted,
            handed=self._handed + self.private.handed,
            digested=self.digested,
            queued=len(self),
            in_flight=shared_in_flight + len(self.private.open) - self.private.queued,
            abandoned=self.abandoned,
        )

    # -- in --------------------------------------------------------------------------------------------------

    def offer(self, out: Outgoing | OutgoingRun, *, now_us: Instant) -> None:
        """Accept events; if they do not fit, the queue is split, or the oldest events go."""
        self.serial += out.count
        self.accepted += out.count
        self._shared += out.count
        self._waiting.append(out)
        self._shared_bytes += len(out.data)
        if self._over:
            self.relieve()
            if self._over:
                self._fit(now_us)

    def offer_ahead(self, out: Outgoing, *, after_us: Instant) -> bool:
        """Accept an event of a flow with reserved slots; False: it has to wait with the others.

        `after_us` is when the last event of the flow came that had to: the flow stays in order.
        """
        oldest_us = self._oldest_us
        if oldest_us is not None and oldest_us <= after_us:
            return False
        part = limits.CLUSTER_SHARED_PART
        most_events, most_bytes = max(1, self._most_events // part), max(1, self._most_bytes // part)
        if not self._lane.offer(out, self.serial, most_events=most_events, most_bytes=most_bytes):
            return False
        self.accepted += 1
        return True

    @property
    def _oldest_us(self) -> Instant | None:
        """When the oldest event that waits was published; None if none does."""
        if self._front:
            return 0  # it came back, and may be older than all others
        copies = next(iter(self.private.open.values()), None)
        if copies is not None:
            return copies.out.ts_us
        return self._waiting[0].ts_us if self._waiting else None

    def rebound(self, capacity_events: int, capacity_bytes: int, *, now_us: Instant) -> None:
        """Change the capacity; private queues have theirs when the queue is split again."""
        self._most_events, self._most_bytes = capacity_events, capacity_bytes
        if self.split:
            self._narrow()
        else:
            self._share()
        if self._over:
            self._fit(now_us)

    @property
    def _over(self) -> bool:
        return self._shared > self._bound_events or self._shared_bytes > self._bound_bytes

    def _oldest(self) -> Outgoing:
        """Remove the oldest event; a run is taken apart."""
        out = self._waiting.popleft()
        self._shared_bytes -= len(out.data)
        if isinstance(out, OutgoingRun):
            out, *rest = out.events()
            self._waiting.extendleft(reversed(rest))
            self._shared_bytes += sum(len(one.data) for one in rest)
        self._shared -= 1
        return out

    def _fit(self, now_us: Instant) -> None:
        """Make room; one event may be larger than the capacity."""
        if self._shared <= 1:
            return
        if self._interest.classes or (self.split and self._interest.known):
            self._split(now_us)
            return
        if not self.split:
            self._share()
        while self._over and self._shared > 1:
            out = self._oldest()
            if self._count(out, self._interest.plain):
                self._digested += 1
            else:
                self._abandoned += 1

    def _share(self) -> None:
        """The private queues are drained: the shared one has all the room."""
        self._bound_events, self._bound_bytes = self._most_events, self._most_bytes

    def _narrow(self) -> None:
        """The shared queue has a small part of the room, the private ones have the rest."""
        self._bound_events = max(1, self._most_events // limits.CLUSTER_SHARED_PART)
        self._bound_bytes = max(1, self._most_bytes // limits.CLUSTER_SHARED_PART)

    def _split(self, now_us: Instant) -> None:
        """Give what is shared to the private queues of those who want it."""
        interest, serial = self._interest, self.head
        plain = ReceiverClass(interest.plain, "", "")
        shares: dict[PrivateQueue, list[Copies]] = {}
        for out in (one for waiting in self._waiting for one in _one_by_one(waiting)):
            copies = Copies(out, serial)
            serial += 1
            wanted = {
                one: None
                for filter_ in self._filters_of(out.event.topic)
                for one in self._behind(filter_, plain)
            }
            if out.retained:
                wanted[plain] = None
            for one in wanted:
                queue = self.private.queue(one, interest.policies.get(one.policy))
                shares.setdefault(queue, []).append(copies)
            self._abandoned += not wanted
        self._waiting.clear()
        self._shared = self._shared_bytes = 0
        self._narrow()
        self.private.split(
            shares,
            most_events=self._most_events - self._bound_events,
            most_bytes=self._most_bytes - self._bound_bytes,
            now_us=now_us,
        )

    def _behind(self, filter_: str, plain: ReceiverClass) -> Iterator[ReceiverClass]:
        behind = self._interest.filters.get(filter_)
        if behind is None or behind.plain:
            yield plain
        if behind is not None:
            yield from behind.classes

    def _count(self, out: Outgoing, number: int) -> bool:
        """Count an event that goes for each filter with receivers that have no policy; whether one has."""
        if out.retained:
            self.owed[out.event.topic] = None
        wanted = [
            (number, filter_)
            for filter_ in self._filters_of(out.event.topic)
            if (behind := self._interest.filters.get(filter_)) is None or behind.plain
        ]
        self._losses.count(out, wanted)
        return bool(wanted)

    def changed(self, wants: Wants, removed: Iterable[str]) -> None:
        """The other node's interest has changed; nobody is left to tell of the filters that were removed."""
        self._losses.forget(removed)
        for number in wants.ended:
            self.private.ended(number, moved=False)
        for number in wants.moved:
            self.private.ended(number, moved=True)
        if wants.full:
            interest = self._interest
            self.private.renumber([*interest.classes.values(), ReceiverClass(interest.plain, "", "")])

    # -- out -------------------------------------------------------------------------------------------------

    def take(self, most_bytes: int) -> Taken:
        """Take items for one frame, at least one if something may leave."""
        taken = Taken([], [], [], [], [])
        if self._inherited:
            if not self._interest.known:
                return taken
            self._sift()
        items, size = taken.items, 0
        if self._lane:
            taken.ahead.extend(self._lane.take(most_bytes))
            items.extend(AHEAD + first.data for _, first in taken.ahead)
            size = sum(len(first.data) for _, first in taken.ahead)
        while self._losses and size < most_bytes:
            key, digest, item = self._losses.take()
            taken.told.append((key, digest))
            items.append(item)
            size += len(item)
        if self.split:
            size = self._take_private(taken, size, most_bytes)
            if self._front or self.private.pending:
                return taken
            self._share()
        waiting = self._waiting
        while waiting and (not items or size + len(waiting[0].data) <= most_bytes):
            out = waiting.popleft()
            items.append(out.data)
            size += len(out.data)
            self._shared -= out.count
            self._shared_bytes -= len(out.data)
            taken.events.append(out)
        return taken

    def _sift(self) -> None:
        """Give up what was for receivers of an earlier incarnation, and nobody at this one wants."""
        self._inherited = False
        before = self._shared
        wanted = [
            out
            for each in self._waiting
            for out in _one_by_one(each)
            if out.retained or any(self._filters_of(out.event.topic))
        ]
        self._waiting = deque(wanted)
        self._shared = len(wanted)
        self._shared_bytes = sum(len(out.data) for out in wanted)
        self._abandoned += before - len(wanted)

    def _take_private(self, taken: Taken, size: int, most_bytes: int) -> int:
        """Take what came back, then from the private queues; returns the bytes of the frame."""
        if self.private.unresolved and not self._interest.known:
            return size  # a restarted node says first which classes it has
        items = taken.items

        def fits(more: int) -> bool:
            return not items or size + more < most_bytes

        while self._front and fits(0):
            one = self._front.popleft()
            if isinstance(one, Outgoing):
                items.append(one.data)
                size += len(one.data)
                self._shared_bytes -= len(one.data)
                taken.events.append(one)
                continue
            if isinstance(one, Sent):
                again = self.private.sent_again(one)
                if again is not None:
                    size += _add(taken, again)
            elif one.queue.receivers is not None:
                size += _add(taken, one)
        if not self._front:
            for each in self.private.take(fits):
                size += _add(taken, each)
        return size

    def landed(self, taken: Taken) -> None:
        """The other node has what was taken."""
        self._handed += taken.shared
        self._lane.landed(len(taken.ahead))
        for one in taken.private:
            if isinstance(one, Sent):
                self.private.landed(one)

    def give_back(self, taken: Taken, *, now_us: Instant) -> None:
        """Queue what was taken again, in front: the other node has not had it."""
        private = bool(taken.private) or self.split
        self._lane.give_back(taken.ahead)
        for one in reversed(taken.private):
            if isinstance(one, Sent):
                self.private.came_back(one)
            self._front.appendleft(one)
        for out in reversed(taken.events):
            if private:
                for event in reversed(_one_by_one(out)):
                    self._front.appendleft(event)
                    self._shared_bytes += len(event.data)
            else:
                self._waiting.appendleft(out)
                self._shared += out.count
                self._shared_bytes += len(out.data)
        for key, digest in taken.told:
            self._losses.merge(key, digest)
        if private:
            self._narrow()
        if self._over:
            self._fit(now_us)

    def inherit(self, before: Backlog, *, now_us: Instant) -> None:
        """Take over what waits in the queue of a link that has ended: the same node has been restarted."""
        queued = len(before)
        if before.split:
            self.serial = before.serial
            self.accepted += queued - before._shared - len(before._lane)
            before.private.move_to(self.private)
            self._front, before._front = before._front, self._front
            self._shared_bytes = sum(len(one.data) for one in self._front if isinstance(one, Outgoing))
            self._narrow()
            self.serial -= before._shared
        self._inherited = True
        for first in before._lane.drain():
            if not self.offer_ahead(first, after_us=0):
                self.offer(first, now_us=now_us)
        for out in before._waiting:
            self.offer(out, now_us=now_us)
        self._losses.inherit(before._losses)
        before.accepted -= queued
        before._waiting.clear()
        before._shared = before._shared_bytes = 0

    def untold(self, flights: Iterable[Taken]) -> int:
        """Most events that digests on their way, or waiting here, count for one class and filter."""
        counts: Counter[tuple[int, str]] = Counter()
        for taken in flights:
            for key, digest in taken.told:
                counts[key] += digest.count
            for one in taken.private:
                if isinstance(one, Summed):
                    counts[one.queue.number, one.queue.was.filter] += one.digest.count
        for key, count in self._losses.counts():
            counts[key] += count
        return max(counts.values(), default=0)

    def abandon(self) -> None:
        """Give up what waits: the other node is gone."""
        self._abandoned += self._shared + self._shared_in_front + self._lane.abandon()
        for one in self._front:
            if isinstance(one, Sent):
                self.private.lost(one)
        self._front.clear()
        self._waiting.clear()
        self._losses.clear()
        self._shared = self._shared_bytes = 0
        self.private.abandon()


def _one_by_one(out: Outgoing | OutgoingRun) -> list[Outgoing]:
    return out.events() if isinstance(out, OutgoingRun) else [out]


def _add(taken: Taken, one: Sent | Summed) -> int:
    """Add an item for some classes to a frame; returns its bytes."""
    if isinstance(one, Sent):
        data = encode_item(For([queue.number for queue in one.queues])) + one.copies.out.data
    else:
        queue, digest = one
        data = encode_item(Told(queue.was.filter, to_bytes(digest), queue.number, queue.dropped))
    taken.items.append(data)
    taken.private.append(one)
    return len(data)


__all__ = ["Backlog", "LinkAccount", "Outgoing", "Taken"]
