"""The packing queue: when it is full, its receiver's policy decides which events are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.queues.bounded import BoundedQueue, QueueOptions
from penstock.core.queues.controllers import Controller, Ladder, PackOutcome, PackRequest
from penstock.core.queues.statistics import PackRecord
from penstock.model.digest import WORST_CASE, Digest
from penstock.model.event import Control, Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.columns import Plan
    from penstock.policy.evaluate import FilterEffect
    from penstock.policy.nodes import Policy


class PackingQueue(BoundedQueue):
    """When full, packs at the level its controller chooses, and climbs until there is room.

    The item that finds the queue full is appended after the pack and is never part of it, and `pack` and
    `absorb` leave an event at the end alone: the newest sample of a burst is always delivered. Without a
    policy every pack is the worst case.
    """

    def __init__(
        self,
        policy: Policy | Plan | None,
        options: QueueOptions | None = None,
        controller: Controller | None = None,
    ) -> None:
        super().__init__(options)
        self._plan = None if policy is None else _plan_of(policy)
        self._highest = 0 if self._plan is None else self._plan.highest
        self._controller: Controller = controller or Ladder()
        self._marks = (0, 0)  # accepted and departed at the last pack

    @property
    def level(self) -> int:
        """Level the next pack would begin with; 0 without a policy."""
        return self._controller.level if self._highest else 0

    def absorb(self, items: Iterable[Item], *, now_us: Instant) -> None:
        """Accept many items at once; if they do not fit they are packed together."""
        for item in items:
            if isinstance(item, Control):
                self._add_control(item)
                continue
            self._accepted += 1 if isinstance(item, Event) else item.count
            if not (isinstance(item, Digest) and self._merged_into_last(item)):
                self._append(item, item.size)
        if self._held > self.options.capacity_events or self._bytes > self.options.capacity_bytes:
            self._pack_but_newest(now_us)

    def pack(self, *, now_us: Instant) -> None:
        """Pack now, full or not, because the owner knows that the link is congested."""
        self._pack_but_newest(now_us)

    def _full(self, item: Event | Digest, size: int, now_us: Instant) -> None:
        if isinstance(item, Event):
            self._pack(size, now_us)
            self._append(item, size)
        else:  # the newest event is at the end of the queue, not this digest
            self._pack_but_newest(now_us, size=size)
            if not self._merged_into_last(item):
                self._append(item, size)

    def _pack_but_newest(self, now_us: Instant, *, size: int = 0) -> None:
        """Pack all but the last event and the items behind it: it may be the last sample of a burst."""
        behind: list[Item] = []
        while self._items and not isinstance(self._items[-1], Event):
            behind.append(self._items.pop())
        behind += [self._items.pop()] if self._items else []
        for item in behind:
            self._account(item, -1)
        counted = [item.size for item in behind if not isinstance(item, Control)]
        self._pack(size + sum(counted), now_us, behind=len(counted))
        for item in reversed(behind):
            self._items.append(item)
            self._account(item, +1)

    def _pack(self, size: int, now_us: Instant, *, behind: int = 0) -> None:
        """Free the headroom, `size` bytes and `behind` places; the worst case always succeeds."""
        before = (self._held, self._bytes)
        events = self._queued
        chosen = level = self._choose(now_us)
        items: Sequence[Item] = list(self._items)
        effects: list[FilterEffect] = []
        done = 0
        while level and level <= self._highest:
            assert self._plan is not None
            # The next level goes on with what is packed so far; no step runs twice (decision 0006).
            packed = self._plan.pack(items, level=level, above=done, now_us=now_us)
            items = packed.items
            effects += packed.effects
            if self._enough(items, size, behind):
                break
            done, level = level, level + 1
        else:
            left = sum(isinstance(item, Event) for item in items)
            items = (self._plan or _plan_of(None)).collapse(items)
            self._count_filter(WORST_CASE, seen=left, dropped=left)
            level = 0
        self._replace(items)
        for effect in effects:
            self._count_filter(effect.cause, seen=effect.seen, dropped=effect.dropped)
        if self._highest:
            self._controller.packed(PackOutcome(now_us, level, events, tuple(effects)))
        self._marks = (self._accepted, self._delivered + self._digested)
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
            )
        )

    def _choose(self, now_us: Instant) -> int:
        if not self._highest:
            return 0
        accepted, departed = self._marks
        request = PackRequest(
            now_us=now_us,
            highest=self._highest,
            arrived=self._accepted - accepted,
            departed=self._delivered + self._digested - departed,
        )
        return self._controller.choose(request)

    def _enough(self, items: Sequence[Item], size: int, behind: int) -> bool:
        """Whether the headroom is free: one item more than `behind`, and `size` more bytes."""
        options = self.options
        # A pack that frees a single place would be repeated at every arrival (decision 0006).
        room = max(1, int(options.headroom * options.capacity_events))
        count = len(items) - self._controls + behind
        if count > options.capacity_events - room:
            return False
        room_bytes = max(size, int(options.headroom * options.capacity_bytes))
        held = sum(item.size for item in items if not isinstance(item, Control))
        return held <= options.capacity_bytes - room_bytes


def _plan_of(policy: Policy | Plan | None) -> Plan:
    """Compile a policy. Imports it here: a queue without a policy that never fills needs no numpy."""
    from penstock.policy.columns import Plan  # noqa: PLC0415

    return policy if isinstance(policy, Plan) else Plan(policy)
