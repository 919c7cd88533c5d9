"""The packing queue: its receiver's policy decides which events are dropped when it is full, or late.

A queue is full by its capacity. It is late if an arriving event would wait longer than the policy's `fresh`,
by the pace of its receiver. Urgent events wait in a lane of their own ahead of all others, which no level
packs: only when nothing but the newest of the others is left to drop, the oldest urgent event makes room for
the newest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.core.queues.controllers import Controller, PackOutcome, PackRequest, Predictive
from penstock.core.queues.gathering import gathering_of
from penstock.core.queues.sparing import Fitting, Sparing
from penstock.core.queues.statistics import PackRecord
from penstock.model.digest import WORST_CASE, Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.queues.gathering import Gathering
    from penstock.core.queues.pace import Pace
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.columns import Plan
    from penstock.policy.evaluate import FilterEffect
    from penstock.policy.nodes import Policy

_STEP: Final = 16
"""A late queue is packed again when it has grown by a 16th: an arriving event then pays for about 16 items
looked at by each filter, also if no level can make the queue as short as it should be."""

_SPARE: Final = 4
"""Where events are spared, a quarter of the time stays free: a pack looks at all that waits, so it should
not be needed again at once."""

_HOLD: Final = 8
"""The controller asks for a level that holds for an eighth of `fresh`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingState:
    """State of a queue besides its items and its controller, to continue elsewhere or later."""

    first: int = 0
    """Number of the items that wait in the lane of urgent events."""
    held: int = 0
    """Bytes held after the last pack."""
    departed: int = 0
    """Bytes that left since then."""
    settled: float = 0.0
    last_pack_us: int | None = None
    gathering: tuple[float, int | None] | None = None
    sent: tuple[tuple[str, str, int], ...] = ()
    """Topic and sender of each source that a queue which keeps time remembers, and when it sent last."""


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
        self._plan = None if policy is None else _plan_of(policy)
        self._highest = 0 if self._plan is None else self._plan.highest
        self._controller: Controller = controller or Predictive()
        own = None if self._plan is None else self._plan.fresh_us
        self.fresh_us = (asked_us or own or fresh_us) if self._highest else None
        """Time that no event should wait longer; None: any time."""
        self._pace: Pace | None = None
        self._timed: Pace | None = None
        """The pace, if the queue can be late."""
        self._sparing: Sparing | None = None
        self._is_urgent: Callable[[Event], bool] | None = self._plan.urgent if self._plan else None
        self._first: deque[Item] = deque()
        """Urgent events, behind the digest of those that were dropped."""
        own_policy = None if self._plan is None else self._plan.policy
        self._gathering = (
            None if own_policy is None or self.options.digests_at_once else gathering_of(own_policy)
        )
        self._marks = (0, 0)  # bytes held after the last pack, and bytes departed until then
        self._settled = 0.0  # what the last pack for time left, or less if it has been taken since

    @property
    def level(self) -> int:
        """Level the next pack would begin with; 0 without a policy."""
        return self._controller.level if self._highest else 0

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
        self._timed = pace if self.fresh_us is not None else None
        if self._timed is not None and self._sparing is None:
            self._sparing = Sparing()

    def wait_us(self) -> int | None:
        """How long an event that arrives now will wait; None: not known."""
        pace = self._pace
        return None if pace is None else pace.wait_us(pace.amount(size=self._bytes, items=self._held))

    def state(self) -> PackingState:
        """State of the queue besides its items."""
        held, departed = self._marks
        return PackingState(
            first=len(self._first),
            held=held,
            departed=self._departed_bytes - departed,
            settled=self._settled,
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
        self._marks = (state.held, -state.departed)
        self._settled, self._last_pack_us = state.settled, state.last_pack_us
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
            pace = self._timed
            if pace is not None and self._late(pace, 0 if pace.by_items else item.size):
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
        elif self._timed is not None and self._late(self._timed, 0):
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
            self._move_gathering(gathering, taken, most, most_bytes, now_us)
        return taken

    def _move_gathering(
        self,
        gathering: Gathering,
        taken: list[Item],
        most: int | None,
        most_bytes: int | None,
        now_us: Instant | None,
    ) -> None:
        items, size = self._items, 0
        while items and (most is None or len(taken) < most):
            passes = gathering.passes(items, self._merge_first_two, now_us=now_us)
            if passes is None:
                return
            waits = items.popleft() if passes else None
            before = len(taken)
            size += self._move(items, taken, before + 1, None if most_bytes is None else most_bytes - size)
            if waits is not None:
                items.appendleft(waits)
            if len(taken) == before:
                return
            gathering.left(taken[-1])

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
        (merged,) = (self._plan or _plan_of(None)).collapse(both)
        for item in both:
            self._account(item, -1)
        self._first.appendleft(merged)
        self._account(merged, +1)
        self._count_filter(WORST_CASE, seen=1, dropped=1)

    # -- packing ---------------------------------------------------------------------------------------------

    def _late(self, pace: Pace, size: int) -> bool:
        """Whether an event that arrives now would wait too long, and a pack may help."""
        assert self.fresh_us is not None
        held = self._held if pace.by_items else pace.amount(size=self._bytes, items=self._held)
        if held < self._settled:  # noqa: PLR1730  # for each event
            self._settled = held
        room = pace.room(self.fresh_us)
        if room is None:
            return False
        more = 1 if pace.by_items else size + pace.overhead
        if max(held, pace.beside) + more <= room:
            return False
        step = max(held, room + pace.outside) / _STEP
        return held + more > self._settled + step and len(self._items) > self._controls

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
        (digest,) = (self._plan or _plan_of(None)).collapse([item])
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
        most = self._most(size, behind) if in_time else None
        chosen = level = self._choose(now_us, most)
        items: Sequence[Item] = list(self._items)
        effects: list[FilterEffect] = []
        spared_bytes = done = 0
        while level and level <= self._highest:
            assert self._plan is not None
            # The next level goes on with what is packed so far; no step runs twice (decision 0006).
            if most is None:
                packed = self._plan.pack(items, level=level, above=done, now_us=now_us)
                items = self._gathered(packed.items)
                enough = self._enough(items, size, behind)
            else:
                assert self._timed is not None
                fitting = self._fitting(items, most)
                packed, items = fitting.packed(self._plan, level=level, above=done, now_us=now_us)
                spared_bytes = fitting.spared_bytes
                enough = self._timed.total(items) <= most
            effects += packed.effects
            if enough:
                break
            done, level = level, level + 1
        else:
            if most is None:
                left = sum(isinstance(item, Event) for item in items)
                items = (self._plan or _plan_of(None)).collapse(items)
                self._count_filter(WORST_CASE, seen=left, dropped=left)
                level = 0
            else:
                level = done
        self._replace(items)
        for effect in effects:
            self._count_filter(effect.cause, seen=effect.seen, dropped=effect.dropped)
        if self._highest:
            left_bytes = self._bytes - sum(item.size for item in self._first) - spared_bytes
            kept = left_bytes / packed_bytes if packed_bytes else None
            self._controller.packed(PackOutcome(now_us, level, events - self.urgent, tuple(effects), kept))
        self._marks = (self._bytes, self._departed_bytes)
        if self._timed is not None:
            self._settled = self._timed.amount(size=self._bytes, items=self._held)
        self._remember(
            PackRecord(
                at_us=now_us,
                level=level,
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

    def _gathered(self, items: list[Item]) -> list[Item]:
        return items if self._gathering is None else self._gathering.merged(items)

    def _fitting(self, items: Sequence[Item], most: float) -> Fitting:
        """Packs items so that what is left takes at most so much, and spares what fits."""
        assert self._sparing is not None
        assert self._timed is not None
        most -= most / _SPARE  # or the next event would find the queue late again
        return Fitting(
            self._sparing, self._first, items, pace=self._timed, gathered=self._gathered, most=most
        )

    def _most(self, size: int, behind: int) -> float:
        """How much of what is packed may stay, in the unit of the pace."""
        assert self._timed is not None
        assert self.fresh_us is not None
        pace = self._timed
        room = pace.room(self.fresh_us) or 0.0
        first = pace.amount(size=sum(item.size for item in self._first), items=len(self._first))
        own = pace.amount(size=self._bytes, items=self._held)
        beside = max(0, pace.beside - own)
        return max(0.0, room - first - beside - pace.amount(size=size, items=max(1, behind)))

    def _choose(self, now_us: Instant, most: float | None) -> int:
        if not self._highest:
            return 0
        held, departed = self._marks
        left = self._departed_bytes - departed
        amount = 0
        if most is not None:
            assert self._timed is not None
            amount = self._timed.amount(size=self._bytes, items=self._held)
        request = PackRequest(
            now_us=now_us,
            highest=self._highest,
            arrived=max(0, self._bytes - held + left),
            departed=left,
            over_us=0 if self._last_pack_us is None else now_us - self._last_pack_us,
            held=amount,
            most=most,
            hold_us=(self.fresh_us or 0) // _HOLD,
        )
        return self._controller.choose(request)

    def _enough(self, items: Sequence[Item], size: int, behind: int) -> bool:
        """Whether the headroom is free: one item more than `behind`, and `size` more bytes."""
        options = self.options
        # A pack that frees a single place would be repeated at every arrival (decision 0006).
        room = max(1, int(options.headroom * options.capacity_events))
        count = len(items) + len(self._first) - self._controls + behind
        if count > options.capacity_events - room:
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


def _plan_of(policy: Policy | Plan | None) -> Plan:
    """Compile a policy. Imports it here: a queue without a policy that never fills needs no numpy."""
    from penstock.policy.columns import Plan  # noqa: PLC0415

    return policy if isinstance(policy, Plan) else Plan(policy)
