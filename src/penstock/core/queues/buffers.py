"""Queues behind a link: one shared by all receivers while it has room, otherwise a private one for each.

A link's shared queue sends one copy of an event for all receivers behind the link. When it is full it is
*split*: each receiver's policy packs its content into that receiver's private queue (references, not copies).
New events go to the shared queue again; private queues drain first; when they are empty the link is shared
once more.

One rule keeps the order: the content of the shared queue is for exactly the receivers that are active now,
and comes after everything in their private queues. So the shared queue is split before a receiver becomes
active, and a receiver that stops being active takes its own copy along.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.queues.bounded import QueueOptions
from penstock.errors import ControlOverflow, QueueError
from penstock.model.digest import Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.core.queues.bounded import BoundedQueue
    from penstock.core.queues.packing import PackingQueue
    from penstock.core.queues.statistics import QueueStatistics
    from penstock.model.event import Item
    from penstock.model.instant import Instant


@dataclass(frozen=True, slots=True)
class LinkItem:
    """An item to send over a link."""

    item: Item
    receiver: str | None
    """Receiver of this copy; None for one copy for all active receivers behind the link."""


@dataclass(frozen=True, slots=True)
class ReceiverStatistics:
    """Counts of one receiver over shared and private queue."""

    accepted: int
    delivered: int
    digested: int
    queued: int
    queued_digested: int
    suspended: bool
    private: QueueStatistics

    @property
    def conserved(self) -> bool:
        """Whether every accepted event is accounted for."""
        return self.accepted == self.delivered + self.digested + self.queued + self.queued_digested


@dataclass(slots=True)
class _Count:
    """Events, events summarised in digests, and control items."""

    events: int = 0
    digested: int = 0
    controls: int = 0

    def add(self, item: Item, sign: int = 1) -> None:
        if isinstance(item, Event):
            self.events += sign
        elif isinstance(item, Digest):
            self.digested += sign * item.count
        else:
            self.controls += sign


@dataclass(slots=True)
class _Receiver:
    private: PackingQueue
    shared_base: _Count
    """What the shared queue had delivered when this receiver became active."""
    shared_past: _Count = field(default_factory=_Count)
    """What the shared queue delivered to this receiver in earlier active periods."""

    @property
    def active(self) -> bool:
        return not self.private.suspended


class SharedQueue:
    """The queues for the receivers of one sender behind one link."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        self._options = options or QueueOptions()
        self._shared: deque[Item] = deque()
        self._shared_bytes = 0
        self._shared_out = _Count()
        self._shared_now = _Count()
        self._receivers: dict[str, _Receiver] = {}
        self._turn: deque[str] = deque()

    # -- receivers -------------------------------------------------------------------------------------------

    def subscribe(self, receiver: str, queue: PackingQueue, *, now_us: Instant) -> None:
        """Add a receiver with its private queue, which may hold items from another link."""
        self.check_free(receiver)
        if not queue.suspended:
            self._split(now_us)
        self._receivers[receiver] = _Receiver(queue, shared_base=_copy(self._shared_out))
        self._turn.append(receiver)

    def check_free(self, receiver: str) -> None:
        """Raise QueueError if this receiver cannot subscribe here."""
        if receiver in self._receivers:
            raise QueueError(f"receiver '{receiver}' is already subscribed on this link")
        if len(self._receivers) >= limits.RECEIVERS_PER_LINK:
            raise QueueError(f"{len(self._receivers)} receivers share this link; no more are allowed")

    def release(self, receiver: str, *, now_us: Instant) -> PackingQueue:
        """Remove a receiver; its queue holds all its waiting items and can be subscribed elsewhere."""
        self.suspend(receiver, now_us=now_us)
        found = self._receivers.pop(receiver)
        self._turn.remove(receiver)
        return found.private

    def suspend(self, receiver: str, *, now_us: Instant) -> None:
        """Detach a receiver: its events keep arriving, nothing goes out to it."""
        found = self._found(receiver)
        if not found.active:
            return
        found.private.absorb(self._shared, now_us=now_us)
        _add(found.shared_past, self._shared_out, found.shared_base)
        found.private.suspend()
        if not any(other.active for other in self._receivers.values()):
            self._clear()

    def resume(self, receiver: str, *, now_us: Instant) -> None:
        """Attach a receiver again."""
        found = self._found(receiver)
        if found.active:
            return
        self._split(now_us)
        found.shared_base = _copy(self._shared_out)
        found.private.resume()

    def _found(self, receiver: str) -> _Receiver:
        try:
            return self._receivers[receiver]
        except KeyError:
            raise QueueError(f"receiver '{receiver}' is not subscribed on this link") from None

    # -- in and out ------------------------------------------------------------------------------------------

    def offer(self, item: Item, *, now_us: Instant, receiver: str | None = None) -> None:
        """Accept an item for all receivers, or for one (if it was packed upstream for that one)."""
        if receiver is not None:
            found = self._found(receiver)
            if found.active:
                self._split(now_us)
            found.private.offer(item, now_us=now_us)
            return
        if isinstance(item, Control):
            self._check_controls()
        anyone = False
        for found in self._receivers.values():
            if found.active:
                anyone = True
            else:
                found.private.offer(item, now_us=now_us)
        if anyone:
            self._share(item, now_us)

    def _check_controls(self) -> None:
        """Refuse a control item before any receiver has it, if one receiver's queue has no room for it."""
        for name, found in self._receivers.items():
            waiting = found.private.controls + (self._shared_now.controls if found.active else 0)
            if waiting >= limits.CONTROL_ITEMS:
                raise ControlOverflow(
                    f"queue full: {waiting} control items wait for receiver '{name}', "
                    "and control items are never dropped"
                )

    def _share(self, item: Item, now_us: Instant) -> None:
        if not isinstance(item, Control):
            held = len(self._shared) - self._shared_now.controls
            if held >= self._options.capacity_events or (
                held and self._shared_bytes + item.size > self._options.capacity_bytes
            ):
                self._split(now_us, pack=True)
            self._shared_bytes += item.size
        self._shared.append(item)
        self._shared_now.add(item)

    def take(self, most: int | None = None) -> list[LinkItem]:
        """Remove and return the next items: private queues in turn, then the shared one."""
        taken: list[LinkItem] = []
        while most is None or len(taken) < most:
            out = self._next()
            if out is None:
                break
            taken.append(out)
        return taken

    def _next(self) -> LinkItem | None:
        for _ in range(len(self._turn)):
            receiver = self._turn[0]
            self._turn.rotate(-1)
            items = self._receivers[receiver].private.take(1)
            if items:
                return LinkItem(items[0], receiver)
        if not self._shared:
            return None
        item = self._shared.popleft()
        self._shared_bytes -= 0 if isinstance(item, Control) else item.size
        self._shared_now.add(item, -1)
        self._shared_out.add(item)
        return LinkItem(item, None)

    def _split(self, now_us: Instant, *, pack: bool = False) -> None:
        """Move the shared queue's content into the private queues of the active receivers."""
        if not self._shared:
            return
        for found in self._receivers.values():
            if not found.active:
                continue
            packs = found.private.packs
            found.private.absorb(self._shared, now_us=now_us)
            if pack and found.private.packs == packs:
                found.private.pack(now_us=now_us)
        self._clear()

    def _clear(self) -> None:
        self._shared.clear()
        self._shared_bytes = 0
        self._shared_now = _Count()

    # -- observation -----------------------------------------------------------------------------------------

    @property
    def shared(self) -> bool:
        """Whether the shared queue alone serves all active receivers."""
        return not any(found.active and len(found.private) for found in self._receivers.values())

    def __len__(self) -> int:
        """Items that can go out now."""
        return len(self._shared) + sum(
            len(found.private) for found in self._receivers.values() if found.active
        )

    def receivers(self) -> tuple[str, ...]:
        """Subscribed receivers, active or not."""
        return tuple(self._receivers)

    def statistics(self) -> dict[str, ReceiverStatistics]:
        """Counts of each receiver."""
        return {name: self._account(found) for name, found in self._receivers.items()}

    def _account(self, found: _Receiver) -> ReceiverStatistics:
        private = found.private.statistics()
        passed, waiting = _copy(found.shared_past), _Count()
        if found.active:
            _add(passed, self._shared_out, found.shared_base)
            waiting = self._shared_now
        return ReceiverStatistics(
            accepted=private.accepted + passed.events + passed.digested + waiting.events + waiting.digested,
            delivered=private.delivered + passed.events,
            digested=private.digested + passed.digested,
            queued=private.queued + waiting.events,
            queued_digested=private.queued_digested + waiting.digested,
            suspended=not found.active,
            private=private,
        )


class RemoteBuffer:
    """Two-level index of queues: sender (topic), then link."""

    def __init__(self, options: QueueOptions | None = None) -> None:
        self._options = options or QueueOptions()
        self._index: dict[str, dict[str, SharedQueue]] = {}
        self._turns: dict[str, dict[str, None]] = {}
        """Senders of each link, the next in turn first."""

    def subscribe(
        self, sender: str, link: str, receiver: str, queue: PackingQueue, *, now_us: Instant
    ) -> None:
        """Subscribe a receiver behind `link` to a sender."""
        links = self._index.setdefault(sender, {})
        if link not in links:
            links[link] = SharedQueue(self._options)
            self._turns.setdefault(link, {})[sender] = None
        links[link].subscribe(receiver, queue, now_us=now_us)

    def release(self, sender: str, link: str, receiver: str, *, now_us: Instant) -> PackingQueue:
        """Remove a receiver with its queue; empty index entries are deleted."""
        entry = self._entry(sender, link)
        queue = entry.release(receiver, now_us=now_us)
        if not entry.receivers():
            del self._index[sender][link]
            del self._turns[link][sender]
            if not self._index[sender]:
                del self._index[sender]
            if not self._turns[link]:
                del self._turns[link]
        return queue

    def move(self, sender: str, receiver: str, *, from_link: str, to_link: str, now_us: Instant) -> None:
        """Move the queue of a receiver that attached elsewhere to its new link."""
        there = self._index.get(sender, {}).get(to_link)
        if there is not None and to_link != from_link:
            there.check_free(receiver)
        queue = self.release(sender, from_link, receiver, now_us=now_us)
        queue.resume()
        self.subscribe(sender, to_link, receiver, queue, now_us=now_us)

    def suspend(self, sender: str, link: str, receiver: str, *, now_us: Instant) -> None:
        """Detach a receiver."""
        self._entry(sender, link).suspend(receiver, now_us=now_us)

    def resume(self, sender: str, link: str, receiver: str, *, now_us: Instant) -> None:
        """Attach a receiver again on the same link."""
        self._entry(sender, link).resume(receiver, now_us=now_us)

    def offer(self, sender: str, item: Item, *, now_us: Instant) -> None:
        """Queue an item for all receivers of a sender, if any."""
        overflow: ControlOverflow | None = None
        for entry in self._index.get(sender, {}).values():
            try:
                entry.offer(item, now_us=now_us)
            except ControlOverflow as error:  # the other links still get the item
                overflow = error
        if overflow is not None:
            raise overflow

    def offer_one(self, sender: str, link: str, receiver: str, item: Item, *, now_us: Instant) -> None:
        """Queue an item that was packed upstream for one receiver."""
        self._entry(sender, link).offer(item, now_us=now_us, receiver=receiver)

    def take(self, link: str, most: int | None = None) -> list[tuple[str, LinkItem]]:
        """Remove and return the next items of a link, its senders in turn."""
        turns = self._turns.get(link, {})
        taken: list[tuple[str, LinkItem]] = []
        idle = 0
        while idle < len(turns) and (most is None or len(taken) < most):
            sender = next(iter(turns))
            turns[sender] = turns.pop(sender)
            found = self._index[sender][link].take(1)
            idle = 0 if found else idle + 1
            taken += [(sender, out) for out in found]
        return taken

    def links(self, sender: str) -> tuple[str, ...]:
        """Links with a receiver of a sender."""
        return tuple(self._index.get(sender, {}))

    def statistics(self) -> Iterator[tuple[str, str, str, ReceiverStatistics]]:
        """(sender, link, receiver, counts) of every subscription."""
        for sender, links in self._index.items():
            for link, entry in links.items():
                for receiver, account in entry.statistics().items():
                    yield sender, link, receiver, account

    def _entry(self, sender: str, link: str) -> SharedQueue:
        try:
            return self._index[sender][link]
        except KeyError:
            raise QueueError(f"nobody behind link '{link}' is subscribed to '{sender}'") from None


class LocalBuffer:
    """Two-level index of the queues on a client: sender, then receiver."""

    def __init__(self, make_queue: Callable[[str, str], BoundedQueue]) -> None:
        self._make_queue = make_queue
        self._index: dict[str, dict[str, BoundedQueue]] = {}

    def subscribe(self, sender: str, receiver: str) -> BoundedQueue:
        """Queue of a subscription, made on first use."""
        queues = self._index.setdefault(sender, {})
        if receiver not in queues:
            queues[receiver] = self._make_queue(sender, receiver)
        return queues[receiver]

    def unsubscribe(self, sender: str, receiver: str) -> BoundedQueue | None:
        """Remove a subscription; returns its queue with the items still waiting."""
        queues = self._index.get(sender, {})
        queue = queues.pop(receiver, None)
        if not queues:
            self._index.pop(sender, None)
        return queue

    def offer(self, sender: str, item: Item, *, now_us: Instant, receiver: str | None = None) -> None:
        """Queue an item for all receivers of a sender, or for one."""
        for name, queue in self._index.get(sender, {}).items():
            if receiver is None or name == receiver:
                queue.offer(item, now_us=now_us)

    def queue(self, sender: str, receiver: str) -> BoundedQueue | None:
        """Queue of a subscription, or None."""
        return self._index.get(sender, {}).get(receiver)

    def statistics(self) -> Iterator[tuple[str, str, QueueStatistics]]:
        """(sender, receiver, counts) of every subscription."""
        for sender, queues in self._index.items():
            for receiver, queue in queues.items():
                yield sender, receiver, queue.statistics()


def _copy(count: _Count) -> _Count:
    return _Count(count.events, count.digested, count.controls)


def _add(total: _Count, now: _Count, base: _Count) -> None:
    total.events += now.events - base.events
    total.digested += now.digested - base.digested
