"""Any sequence of offers and takes, against the plain list of what was offered."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.queues import (
    BoundedQueue,
    DropNewestQueue,
    DropOldestQueue,
    Ladder,
    PackingQueue,
    Predictive,
    QueueOptions,
    Smoothing,
)
from penstock.model import Control, Digest, Event, Item
from tests.core.queues.account import POLICIES, a_digest, an_event, assert_told, total

CONTROLLERS: list[Any] = [
    Ladder,
    Predictive,
    lambda: Ladder(smoothing=Smoothing.PRINTED),
]


class QueueMachine(RuleBasedStateMachine):
    """Invariants of every kind of queue."""

    queue: BoundedQueue
    extra = 0
    """Digests beyond the capacity that this kind documents."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[Item] = []
        self.taken: list[Item] = []
        self.seq = 0
        self.now_us = 0

    def options(self, data: st.DataObject) -> QueueOptions:
        return QueueOptions(
            capacity_events=data.draw(st.integers(3, 6)),
            capacity_bytes=data.draw(st.sampled_from([1, 60, 200, 10_000])),
            headroom=data.draw(st.sampled_from([0, 0.02, 0.5])),
        )

    def offer(self, item: Item) -> None:
        self.offered.append(item)
        self.queue.offer(item, now_us=self.now_us)

    @rule(value=st.integers(0, 4), size=st.sampled_from([0, 0, 0, 30, 500]))
    def offer_event(self, value: int, size: int) -> None:
        self.offer(an_event(self.seq, value, size=size))
        self.seq += 1

    @rule(count=st.integers(4, 12))
    def burst(self, count: int) -> None:
        for value in range(count):
            self.offer_event(value=value % 3, size=0)

    @rule(count=st.integers(1, 3), asked=st.sampled_from(sorted(POLICIES)))
    def offer_digest(self, count: int, asked: str) -> None:
        self.offer(a_digest(self.seq, count, POLICIES[asked]))
        self.seq += count

    @rule()
    def offer_control(self) -> None:
        self.offer(Control(kind="mark", body=b"%d" % len(self.offered)))

    @rule(most=st.none() | st.integers(0, 4), most_bytes=st.none() | st.sampled_from([0, 40, 100]))
    def take(self, most: int | None, most_bytes: int | None) -> None:
        waiting = len(self.queue)
        taken = self.queue.take(most, most_bytes=most_bytes)
        self.taken += taken
        if self.queue.suspended:
            assert taken == []
            return
        if most is not None:
            assert len(taken) <= most
        if most_bytes is not None and len(taken) > 1:
            assert sum(item.size for item in taken) <= most_bytes
        if most != 0:
            assert bool(taken) is bool(waiting), "what waits can be taken"

    @rule()
    def suspend(self) -> None:
        self.queue.suspend()

    @rule()
    def resume(self) -> None:
        self.queue.resume()

    @rule(passed=st.sampled_from([0, 1, 1000, 50_000]))
    def wait(self, passed: int) -> None:
        self.now_us += passed

    @rule()
    def look(self) -> None:
        """`items` shows the queue and changes nothing that counts."""
        before = self.queue.statistics()
        shown = self.queue.items()
        assert_told(self.offered, [*self.taken, *shown])
        after = self.queue.statistics()
        assert (after.queued, after.queued_digested) == (before.queued, before.queued_digested)
        assert after.items <= before.items
        assert len(shown) == after.items + after.controls == len(self.queue)

    @invariant()
    def everything_is_accounted_for(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = self.queue.statistics()
        assert found.conserved
        assert found.accepted == total(self.offered)
        assert found.delivered == sum(isinstance(item, Event) for item in self.taken)
        assert found.digested == total(self.taken) - found.delivered
        controls = sum(isinstance(item, Control) for item in self.offered)
        assert found.controls == controls - sum(isinstance(item, Control) for item in self.taken)

    @invariant()
    def it_is_bounded(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = self.queue.statistics()
        options = self.queue.options
        assert 0 <= found.items <= max(options.capacity_events, found.controls + 3) + self.extra
        assert len(self.queue) == found.items + found.controls
        held = [item for item in self.queue._items if not isinstance(item, Control)]
        events = [item for item in held if isinstance(item, Event)]
        assert len(events) == found.queued <= options.capacity_events
        assert len(events) <= 1 or sum(item.size for item in events) <= options.capacity_bytes
        grown = sum(item.size for item in held if isinstance(item, Digest))
        assert len(events) <= 1 or found.bytes - grown <= options.capacity_bytes
        assert found.bytes >= sum(item.size for item in held)

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.resume()
        self.taken += self.queue.take()
        assert_told(self.offered, self.taken)
        assert len(self.queue) == 0
        found = self.queue.statistics()
        assert (found.items, found.bytes, found.controls, found.queued_digested) == (0, 0, 0, 0)
        self.check_newest()

    def check_newest(self) -> None:
        """The last sample of a burst is delivered."""
        data = [item for item in self.offered if not isinstance(item, Control)]
        if data and isinstance(data[-1], Event):
            assert data[-1] in self.taken


class PackingMachine(QueueMachine):
    @initialize(data=st.data(), chosen=st.sampled_from(sorted(POLICIES)), make=st.sampled_from(CONTROLLERS))
    def make(self, data: st.DataObject, chosen: str, make: Any) -> None:
        self.queue: PackingQueue = PackingQueue(POLICIES[chosen], self.options(data), make())

    @rule()
    def pack(self) -> None:
        self.queue.pack(now_us=self.now_us)

    @rule(count=st.integers(0, 12), with_control=st.booleans())
    def absorb(self, count: int, with_control: bool) -> None:
        items: list[Item] = [an_event(self.seq + n, n % 4) for n in range(count)]
        self.seq += count
        if with_control:
            items.insert(count // 2, Control(kind="mark"))
            items.append(Control(kind="end"))
        self.offered += items
        self.queue.absorb(items, now_us=self.now_us)

    @invariant()
    def records_add_up(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = self.queue.statistics()
        assert found.packs == sum(found.packs_by_level.values())
        for record in self.queue.events():
            assert record.events_dropped <= record.events_before <= record.items_before
            assert 0 <= record.level <= self.queue._climber.highest
            assert record.level == 0 or record.chosen <= record.level
            assert record.items_after <= max(record.items_before, 1)


class DropOldestMachine(QueueMachine):
    @initialize(data=st.data())
    def make(self, data: st.DataObject) -> None:
        self.queue: DropOldestQueue = DropOldestQueue(self.options(data))


class DropNewestMachine(QueueMachine):
    extra = 1

    @initialize(data=st.data())
    def make(self, data: st.DataObject) -> None:
        self.queue: DropNewestQueue = DropNewestQueue(self.options(data))

    @invariant()
    def it_is_bounded(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = self.queue.statistics()
        options = self.queue.options
        assert found.queued <= options.capacity_events
        assert found.items <= options.capacity_events + 1 + found.controls
        events = [item for item in self.queue._items if isinstance(item, Event)]
        assert len(events) <= 1 or sum(item.size for item in events) <= options.capacity_bytes

    def check_newest(self) -> None:
        """The first of what waited is delivered; the newest is what goes."""
        events = [item for item in self.offered if not isinstance(item, Control)]
        if events and isinstance(events[0], Event):
            assert events[0] in self.taken


TestPacking = PackingMachine.TestCase
TestDropOldest = DropOldestMachine.TestCase
TestDropNewest = DropNewestMachine.TestCase
TestPacking.settings = TestDropOldest.settings = TestDropNewest.settings = settings(
    max_examples=max(15, settings().max_examples // 3)
)
