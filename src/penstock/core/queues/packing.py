"""The packing queue: its receiver's policy decides which events are dropped when it is full, or late.

A queue is full by its capacity. It is late if an arriving event would wait longer than the policy's `fresh`,
by the pace of its receiver. Urgent events wait in a lane of their own ahead of all others, which no level
packs: only when nothing but the newest of the others is left to drop, the oldest urgent event makes room for
the newest.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.core.queues.climbing import Climber
from penstock.core.queues.controllers import Controller, PackOutcome, Predictive
from penstock.core.queues.pace import Lateness
from penstock.core.queues.sparing import Sparing
from penstock.core.queues.statistics import PackingState, PackRecord
from penstock.model.digest import WORST_CASE, Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.queues.climbing import Climbed
    from penstock.core.queues.pace import Pace
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.columns import Plan
    from penstock.policy.nodes import Policy


class PackingQueue(BoundedQueue):
    """When full or late, packs at the level its controller chooses, and climbs until there is room.

    The item that finds the queue full is appended after the pack and is never part of it, and `pack` and
    `absorb` leave an event at the end alone: the newest sample of a burst is always delivered, unless urgent
    events leave no room for it. Without a policy every pack is the worst case. Without a pace, or before one
    is known, the queue is never late.
    """

    def __init__(
        self,
        policy: Policy | Plan | None,
        options: QueueOptions | None = None,
        controller: Controller | None = None,
        *,
        asked_us: int | None = None,
        fresh_us: int | None = None,
    ) -> None:
        """Make an empty queue; `follow` says whose pace counts.

        `asked_us` takes the place of the policy's `fresh`, `fresh_us` stands in for a policy that has none.
        """
        super().__init__(options)
        self._climber = Climber(
            policy, controller or Predictive(), digests_at_once=self.options.digests_at_once
        )
        self._gathering = self._climber.gathering
        plan = self._climber.plan
        own = None if plan is None else plan.fresh_us
        self.fresh_us = (asked_us or own or fresh_us) if self._climber.highest else None
        """Time that no event should wait longer; None: any time."""
        self._pace: Pace | None = None
        self._timed: Lateness | None = None
        """None: the queue is never late."""
        self._sparing: Sparing | None = None
        self._is_urgent: Callable[[Event], bool] | None = plan.urgent if plan else None
        self._first: deque[Item] = deque()
        """Urgent events, behind the digest of those that were dropped."""

    @property
    def level(self) -> int:
        """Level the next pack would begin with; 0 without a policy."""
        return self._climber.controller.level if self._climber.highest else 0

    @property
    def urgent(self) -> int:
        """Events waiting that go ahead of the others."""
        first = self._first
        return len(first) - (bool(first) and isinstance(first[0], Digest))

    @property
    def timed(self) -> bool:
        """Whether the pace of the receiver decides when to pack."""
        return self._timed is not None

    def follow(self, pace: Pace) -> None:
        """Keep the time of a receiver that takes items at this pace."""
        self._pace = pace
        if self.fresh_us is None:
            return
        if self._timed is None:
            self._timed = Lateness(pace, self.fresh_us)
            self._sparing = Sparing()
        else:
            self._timed.pace = pace

    def wait_us(self) -> int | None:
        """How long an event that arrives now will wait; None: not known."""
        pace = self._pace
        return None if pace is None else pace.wait_us(pace.amount(size=self._bytes, items=self._held))

    def state(self) -> PackingState:
        """State of the queue besides its items."""
        held, departed = self._climber.marks
        return PackingState(
            first=len(self._first),
            held=held,
            departed=self._departed_bytes - departed,
            settled=0.0 if self._timed is None else self._timed.settled,
            last_pack_us=self._last_pack_us,
            gathering=None if self._gathering is None else self._gathering.state(),
            sent=() if self._sparing is None else self._sparing.state(),
        )

    def restore(self, state: PackingState, items: Sequence[Event | Digest]) -> None:
        """Continue as another queue, which held these items; this one is empty and follows a pace."""
        self._first.extend(items[: state.first])
        self._items.extend(items[state.first :])
        for item in items:
            self._account(item, +1)
            self._accepted += 1 if isinstance(item, Event) else item.count
        self._climber.marks = (state.held, -state.departed)
        self._last_pack_us = state.last_pack_us
        if self._timed is not None:
            self._timed.settled = state.settled
        if self._gathering is not None and state.gathering is not None:
            self._gathering.restore(state.gathering)
        if self._sparing is not None:
            self._sparing.restore(state.sent)

    # -- in and out ------------------------------------------------------------------------------------------

    def offer(self, item: Item, *, now_us: Instant) -> None:
        """Accept an item; if the queue is full or late, pack."""
        if isinstance(item, Event):
            if self._is_urgent is not None and self._is_urgent(item):
                self._accepted += 1
                self._add_urgent(item, now_us)
                return
            timed = self._timed
            if (
                timed is not None
                and timed.late(self._held, self._bytes, item)
                and len(self._items) > self._controls
            ):
                self._pack(item.size, now_us, in_time=True)
        super().offer(item, now_us=now_us)

    def absorb(self, items: Iterable[Item], *, now_us: Instant) -> None:
        """Accept many items at once; if they do not fit they are packed together."""
        for item in items:
            if isinstance(item, Control):
                self._add_control(item)
                continue
            self._accepted += 1 if isinstance(item, Event) else item.count
            if isinstance(item, Event) and self._is_urgent is not None and self._is_urgent(item):
                self._first.append(item)
                self._account(item, +1)
            elif not (isinstance(item, Digest) and self._merged_into_last(item)):
                self._append(item, item.size)
        if self._held > self.options.capacity_events or self._bytes > self.options.capacity_bytes:
            self._pack_but_newest(now_us)
        elif (
            self._timed is not None
            and self._timed.late(self._held, self._bytes)
            and len(self._items) > self._controls
        ):
            self._pack_but_newest(now_us, in_time=True)
        while self.urgent and (
            len(self._first) > self.options.capacity_events - 2
            or self._held > self.options.capacity_events
            or self._bytes > self.options.capacity_bytes
        ):
            self._drop_urgent()

    def take(
        self, most: int | None = None, *, most_bytes: int | None = None, now_us: Instant | None = None
    ) -> list[Item]:
        """Remove and return the next items, urgent ones first; a digest may have to wait (`gathering`)."""
        lane = self._first or self._items
        if most == 1 and lane and lane[0].__class__ is Event and not self.suspended:
            return [self._take_one(lane)]
        taken = self._take(most, most_bytes, now_us)
        if self._sparing is not None:
            for item in taken:
                if isinstance(item, Event):
                    self._sparing.left(item)
        return taken

    def _take_one(self, lane: deque[Item]) -> Event:
        """Take the event at the head of a lane: how a slow link takes items."""
        event = self._next(lane)
        if self.gathered:
            self.gathered.clear()
        if self._gathering is not None:
            self._gathering.left(event)
        if self._sparing is not None:
            self._sparing.left(event)
        return event

    def _take(self, most: int | None, most_bytes: int | None, now_us: Instant | None) -> list[Item]:
        gathering = self._gathering
        if gathering is None and (not self._first or self.suspended):
            return super().take(most, most_bytes=most_bytes)
        taken: list[Item] = []
        if self.gathered:
            self.gathered.clear()
        if self.suspended:
            return taken
        size = self._move(self._first, taken, most, most_bytes)
        if gathering is not None:
            for item in taken:
                gathering.left(item)
        if self._first:
            return taken
        most_bytes = None if most_bytes is None else most_bytes - size
        if gathering is None:
            self._move(self._items, taken, most, most_bytes)
        else:
            gathering.take(
                self._items,
                taken,
                most,
                most_bytes,
                move=self._move,
                merge=self._merge_first_two,
                now_us=now_us,
            )
        return taken

    def gather_until(self, due_us: Instant) -> None:
        """Go on gathering as another queue did, whose digest is at the head now."""
        if self._gathering is not None:
            self._gathering.until(due_us)

    def _merge_first_two(self, one: Digest, other: Digest) -> None:
        """Merge the two digests at the head."""
        merged = one.merge(other)
        for item in (one, other):
            self._account(item, -1)
            self._items.popleft()
            self.gathered.append(item)
        self._items.appendleft(merged)
        self._account(merged, +1)

    @property
    def gathers(self) -> bool:
        """Whether digests are held back for a time, so that `take` needs to know the time."""
        return self._gathering is not None and self._gathering.every_us > 0

    @property
    def due_us(self) -> Instant | None:
        """When the digest at the head may leave that `take` held back for its time; None: there is none."""
        if self._gathering is None or not isinstance(super().head(), Digest):
            return None
        return self._gathering.due_us

    def pick(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """Remove events as if they had never been accepted, because a lane sends them."""
        return [*self._pick(self._first, wanted), *self._pick(self._items, wanted)]

    def items(self) -> tuple[Item, ...]:
        """All waiting items, in the order in which they go out."""
        return (*self._first, *self._items)

    def head(self) -> Item | None:
        """The next item to go out, or None."""
        return self._first[0] if self._first else super().head()

    def oldest(self) -> Item | None:
        """The item that came first of those waiting, or None: urgent ones hardly wait."""
        return self._items[0] if self._items else self.head()

    def pack(self, *, now_us: Instant) -> None:
        """Pack now, full or not, because the owner knows that the link is congested."""
        self._pack_but_newest(now_us)

    # -- urgent events ---------------------------------------------------------------------------------------

    def _add_urgent(self, item: Event, now_us: Instant) -> None:
        size = item.size
        if not self._fits(size) and len(self._items) > self._controls:
            self._pack(size, now_us)
        # Two places stay free for others: a digest, and the newest event.
        while self.urgent and (not self._fits(size) or len(self._first) >= self.options.capacity_events - 2):
            self._drop_urgent()
        self._first.append(item)
        self._account(item, +1)

    def _fits(self, size: int) -> bool:
        return self._held < self._most_items and self._bytes + size <= self._most_bytes

    def _drop_urgent(self) -> None:
        """Count the oldest urgent event in the digest ahead of the others."""
        digest = self._first.popleft() if isinstance(self._first[0], Digest) else None
        oldest = self._first.popleft()
        assert isinstance(oldest, Event)
        both: list[Item] = [oldest] if digest is None else [digest, oldest]
        (merged,) = self._climber.collapse(both)
        for item in both:
            self._account(item, -1)
        self._first.appendleft(merged)
        self._account(merged, +1)
        self._count_filter(WORST_CASE, seen=1, dropped=1)

    # -- packing ---------------------------------------------------------------------------------------------

    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:
        if isinstance(item, Event):
            self._pack(size, now_us)
            if self._first and not self._fits(size):  # urgent events take all the room
                self._digest_alone(item)
            else:
                self._append(item, size)
        else:  # the newest event is at the end of the queue, not this digest
            self._pack_but_newest(now_us, size=size)
            if not self._merged_into_last(item):
                self._append(item, size)
            # A digest counts what is lost already, so it stays; urgent events make room for it.
            while self.urgent and self._held > self.options.capacity_events:
                self._drop_urgent()

    def _digest_alone(self, item: Event) -> None:
        (digest,) = self._climber.collapse([item])
        assert isinstance(digest, Digest)
        self._count_filter(WORST_CASE, seen=1, dropped=1)
        if not self._merged_into_last(digest):
            self._append(digest, digest.size)

    def _pack_but_newest(self, now_us: Instant, *, size: int = 0, in_time: bool = False) -> None:
        """Pack all but the last event and the items behind it: it may be the last sample of a burst."""
        behind: list[Item] = []
        while self._items and not isinstance(self._items[-1], Event):
            behind.append(self._items.pop())
        behind += [self._items.pop()] if self._items else []
        for item in behind:
            self._account(item, -1)
        counted = [item.size for item in behind if not isinstance(item, Control)]
        self._pack(size + sum(counted), now_us, behind=len(counted), in_time=in_time)
        for item in reversed(behind):
            self._items.append(item)
            self._account(item, +1)

    def _pack(self, size: int, now_us: Instant, *, behind: int = 0, in_time: bool = False) -> None:
        """Free the headroom, `size` bytes and `behind` places; the worst case always succeeds.

        For time: make the queue so short that an event of `size` bytes waits no longer than `fresh`. If no
        level can, the highest has done what it can: only the capacity calls for the worst case.
        """
        before = (self._held, self._bytes)
        events = self._queued
        packed_bytes = self._bytes - sum(item.size for item in self._first)
        timed = self._timed if in_time else None
        most, amount = None, 0
        if timed is not None:
            amount = timed.pace.amount(size=self._bytes, items=self._held)
            most = timed.most(amount, ahead=self._first, behind=behind, behind_bytes=size)
        chosen = self._climber.choose(
            now_us,
            held=self._bytes,
            departed=self._departed_bytes,
            last_us=self._last_pack_us,
            fresh_us=self.fresh_us or 0,
            amount=amount,
            most=most,
        )
        found = self._climbed(chosen, size, behind, most, now_us)
        if found.collapsed is not None:
            self._count_filter(WORST_CASE, seen=found.collapsed, dropped=found.collapsed)
        self._replace(found.items)
        for effect in found.effects:
            self._count_filter(effect.cause, seen=effect.seen, dropped=effect.dropped)
        if self._climber.highest:
            left_bytes = self._bytes - sum(item.size for item in self._first) - found.spared_bytes
            kept = left_bytes / packed_bytes if packed_bytes else None
            self._climber.controller.packed(
                PackOutcome(now_us, found.level, events - self.urgent, found.effects, kept)
            )
        self._climber.marks = (self._bytes, self._departed_bytes)
        if self._timed is not None:
            self._timed.settled = self._timed.pace.amount(size=self._bytes, items=self._held)
        self._remember(
            PackRecord(
                at_us=now_us,
                level=found.level,
                chosen=chosen,
                turnaround_us=None if self._last_pack_us is None else now_us - self._last_pack_us,
                events_before=events,
                events_dropped=events - self._queued,
                items_before=before[0],
                items_after=self._held,
                bytes_before=before[1],
                bytes_after=self._bytes,
                in_time=in_time,
            )
        )

    def _climbed(self, level: int, size: int, behind: int, most: float | None, now_us: Instant) -> Climbed:
        """Pack from a level on until there is room; with `most`, until what is left takes at most that."""
        items = list(self._items)
        if most is None:
            return self._climber.climb(
                items, level, now_us=now_us, enough=lambda left: self._enough(left, size, behind)
            )
        assert self._timed is not None
        assert self._sparing is not None
        return self._climber.climb_in_time(
            items,
            level,
            ahead=self._first,
            pace=self._timed.pace,
            sparing=self._sparing,
            most=most,
            now_us=now_us,
        )

    def _enough(self, items: Sequence[Item], size: int, behind: int) -> bool:
        """Whether the headroom is free: one item more than `behind`, and `size` more bytes."""
        options = self.options
        if len(items) + len(self._first) - self._controls + behind > options.most_packed:
            return False
        room_bytes = max(size, int(options.headroom * options.capacity_bytes))
        held = sum(item.size for item in items if not isinstance(item, Control))
        held += sum(item.size for item in self._first)
        return held <= options.capacity_bytes - room_bytes

    def _replace(self, items: Iterable[Item]) -> None:
        """Replace all waiting items but the urgent ones."""
        super()._replace(items)
        for item in self._first:
            self._account(item, +1)
