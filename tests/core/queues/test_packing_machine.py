"""Any offers and takes at any pace, with `fresh` and `urgent`: nothing is lost, lanes keep their order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.queues import Ladder, PackingQueue, Predictive, QueueOptions
from penstock.core.queues.pace import Pace
from penstock.model import Control, Event, Item
from penstock.policy.text.python_form import policy, when
from tests.core.queues.account import LEVELS, a_digest, an_event, assert_told, total

URGENT = 4
"""Values from here on are urgent."""


class TimeMachine(RuleBasedStateMachine):
    queue: PackingQueue

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[Item] = []
        self.taken: list[Item] = []
        self.pace = Pace()
        self.now_us = 0
        self.seq = 0
        self.urgent: set[int] = set()
        self.gone = 0
        self.went_before = 0
        """Events that left the queues before this one, those counted in digests included."""

    @initialize(
        data=st.data(),
        chosen=st.sampled_from(sorted(LEVELS)),
        make=st.sampled_from([Ladder, Predictive]),
        fresh=st.sampled_from([None, "1ms", "50ms", "1s"]),
        has_urgent=st.booleans(),
    )
    def make(
        self, data: st.DataObject, chosen: str, make: type[Ladder], fresh: str | None, has_urgent: bool
    ) -> None:
        self.has_urgent = has_urgent
        made = policy(
            *LEVELS[chosen], fresh=fresh, urgent=when.ge(URGENT) if has_urgent else (), digest={"share": 1}
        )
        options = QueueOptions(
            capacity_events=data.draw(st.integers(3, 12)),
            capacity_bytes=data.draw(st.sampled_from([1, 60, 200, 10_000])),
            headroom=data.draw(st.sampled_from([0, 0.02, 0.5])),
        )
        self.made, self.options, self.make_controller = made, options, make
        self.follows = data.draw(st.booleans())
        self.begin()

    def begin(self) -> None:
        self.controller = self.make_controller()
        self.queue = PackingQueue(self.made, self.options, self.controller)
        if self.follows:
            self.queue.follow(self.pace)

    @rule(value=st.integers(0, 6), size=st.sampled_from([0, 0, 0, 30, 500]))
    def offer(self, value: int, size: int) -> None:
        event = an_event(self.seq, value, size=size)
        self.seq += 1
        if self.has_urgent and value >= URGENT:
            self.urgent.add(id(event))
        self.offered.append(event)
        self.queue.events()
        self.queue.offer(event, now_us=self.now_us)
        self.packs_for_time_fit_the_time(event)
        gone = self.dropped_urgent()
        if gone > self.gone:
            waiting = [item for item in self.queue.items() if isinstance(item, Event)]
            others = [item for item in waiting if id(item) not in self.urgent]
            events = [item for item in self.offered if isinstance(item, Event)]
            newest = [item for item in events if id(item) not in self.urgent][-1:]
            assert others in ([], newest), "urgent events are dropped last"
        self.gone = gone

    def packs_for_time_fit_the_time(self, event: Event) -> None:
        """A pack for time leaves no more than is taken in time, or has done what the highest level can."""
        for pack in self.queue.events():
            if pack.in_time and pack.level < self.made.highest:
                per_s, fresh_us = self.pace.per_s, self.made.fresh_us
                assert per_s is not None
                assert fresh_us is not None
                waits_us = (self.pace.outside + pack.bytes_after + event.size) / per_s * 1e6
                assert waits_us <= fresh_us * 1.000001

    @rule(count=st.integers(1, 3))
    def offer_digest(self, count: int) -> None:
        digest = a_digest(self.seq, count)
        self.seq += count
        self.offered.append(digest)
        self.queue.offer(digest, now_us=self.now_us)
        self.gone = self.dropped_urgent()

    @rule()
    def offer_control(self) -> None:
        control = Control(kind="mark", body=b"%d" % len(self.offered))
        self.offered.append(control)
        self.queue.offer(control, now_us=self.now_us)

    @rule()
    def go_on_elsewhere(self) -> None:
        """As a key of a packed stream does from trigger to trigger."""
        shown = self.queue.items()
        if any(isinstance(item, Control) for item in shown):
            return
        before, state, known = self.queue.statistics(), self.queue.state(), self.controller.state()
        self.begin()
        self.controller.restore(known)
        self.queue.restore(state, shown)  # type: ignore[arg-type]  # control items were ruled out
        found = self.queue.statistics()
        assert self.queue.items() == shown
        assert self.queue.state() == state
        names = ("queued", "queued_digested", "items", "bytes", "urgent", "level", "wait_us")
        assert [getattr(found, name) for name in names] == [getattr(before, name) for name in names]
        self.went_before = total(self.taken)

    @rule(values=st.lists(st.integers(0, 6), min_size=3, max_size=12))
    def burst(self, values: list[int]) -> None:
        for value in values:
            self.offer(value=value, size=0)

    @rule(most=st.none() | st.integers(0, 4), over_us=st.sampled_from([1, 1_000, 300_000, 5_000_000]))
    def take(self, most: int | None, over_us: int) -> None:
        shown, departed = self.queue.items(), self.queue.state().departed
        taken = self.queue.take(most)
        self.taken += taken
        assert self.queue.state().departed == departed + sum(item.size for item in taken)
        assert [*taken] == [*shown[: len(taken)]], "items go out as they are shown"
        self.now_us += over_us
        self.pace.took(sum(item.size for item in taken), over_us=over_us)
        if not len(self.queue):
            self.pace.rested()

    @rule(outside=st.sampled_from([0, 0, 10, 10_000]))
    def hand_over(self, outside: int) -> None:
        self.pace.outside = outside

    @rule(values=st.lists(st.integers(0, 6), max_size=15))
    def absorb(self, values: list[int]) -> None:
        events = [an_event(self.seq + number, value) for number, value in enumerate(values)]
        self.seq += len(values)
        self.offered += events
        if self.has_urgent:
            self.urgent |= {id(event) for event, value in zip(events, values, strict=True) if value >= URGENT}
        self.queue.absorb(events, now_us=self.now_us)
        self.gone = self.dropped_urgent()
        self.newest_waits([item for item in events if id(item) not in self.urgent][-1:])

    @rule()
    def pack(self) -> None:
        waiting = [item for item in self.queue.items() if isinstance(item, Event)]
        self.queue.pack(now_us=self.now_us)
        self.newest_waits([item for item in waiting if id(item) not in self.urgent][-1:])

    def newest_waits(self, newest: list[Event]) -> None:
        """A pack leaves the newest event alone."""
        assert {id(item) for item in newest} <= {id(item) for item in self.queue.items()}

    def dropped_urgent(self) -> int:
        left = [item for item in (*self.taken, *self.queue.items()) if id(item) in self.urgent]
        return len(self.urgent) - len(left)

    @invariant()
    def everything_is_accounted_for(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = self.queue.statistics()
        shown = self.queue.items()
        assert found.conserved
        assert found.accepted == total(self.offered) - self.went_before
        assert total(self.offered) == total([*self.taken, *shown])
        assert found.items == len(shown) - found.controls
        assert found.bytes == sum(item.size for item in shown if not isinstance(item, Control))
        assert found.urgent == sum(id(item) in self.urgent for item in shown)

    @invariant()
    def lanes_keep_their_order(self) -> None:
        if not hasattr(self, "queue"):
            return
        shown = self.queue.items()
        out = [item for item in (*self.taken, *shown) if isinstance(item, Event)]
        for lane in (True, False):
            numbers = [item.seq for item in out if (id(item) in self.urgent) is lane]
            assert numbers == sorted(numbers)
        waiting = [id(item) in self.urgent for item in shown if isinstance(item, Event)]
        assert waiting == sorted(waiting, reverse=True), "urgent events stand ahead"
        if not self.has_urgent:
            assert_told(self.offered, [*self.taken, *shown])

    @invariant()
    def it_is_bounded(self) -> None:
        if not hasattr(self, "queue"):
            return
        options = self.queue.options
        held = self.queue.items()
        events = [item for item in held if isinstance(item, Event)]
        controls = self.queue.controls
        assert len(held) - controls <= max(options.capacity_events, controls + 3) + 1
        assert len(events) <= options.capacity_events
        assert len(events) <= 1 or sum(item.size for item in events) <= options.capacity_bytes

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.taken += self.queue.take()
            assert total(self.taken) == total(self.offered)
            assert len(self.queue) == 0


TestTime = TimeMachine.TestCase
TestTime.settings = settings(max_examples=max(30, settings().max_examples))
