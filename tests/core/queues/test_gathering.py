"""When digests leave a queue: `every` and `share`, by examples and by any sequence of offers and takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock import limits
from penstock.core.queues import PackingQueue, Predictive, QueueOptions, Replay, drain
from penstock.core.queues.gathering import Gathering
from penstock.core.queues.pace import Pace
from penstock.model import Control, Digest, Event, Item
from penstock.policy.text.python_form import drop, policy, when
from tests.core.queues.account import LEVELS, a_digest, an_event, total

SECOND_US = 1_000_000


def a_queue(capacity: int = 100, **digest: Any) -> PackingQueue:
    return PackingQueue(policy(drop.every(2), digest=digest), QueueOptions(capacity_events=capacity))


def shape(items: list[Item] | tuple[Item, ...]) -> list[object]:
    """Events by number, digests by (count), control items by kind."""
    return [
        item.seq if isinstance(item, Event) else (item.count,) if isinstance(item, Digest) else item.kind
        for item in items
    ]


def mixed(queue: PackingQueue, *items: Item) -> None:
    for item in items:
        queue.offer(item, now_us=0)


# -- every ---------------------------------------------------------------------------------------------------


def test_digests_are_gathered_for_a_time_and_sent_as_one() -> None:
    queue = a_queue(every="1s")
    mixed(queue, a_digest(0, 2), an_event(2), a_digest(3, 4), an_event(7), a_digest(8, 1), an_event(9))
    assert shape(queue.take(2, now_us=0)) == [2, 7], "events pass a digest that waits"
    assert queue.due_us == SECOND_US
    assert shape(queue.take(2, now_us=999_999)) == [9]
    assert (len(queue), queue.due_us) == (1, SECOND_US)
    assert queue.take(now_us=999_999) == []
    assert shape(queue.take(now_us=SECOND_US)) == [(7,)]
    assert not queue.items()
    assert queue.statistics().conserved


def test_the_next_digest_begins_a_time_of_its_own() -> None:
    queue = a_queue(every="1s")
    mixed(queue, a_digest(0, 2))
    queue.take(now_us=5 * SECOND_US)
    assert shape(queue.take(now_us=6 * SECOND_US)) == [(2,)]
    mixed(queue, a_digest(2, 3), an_event(5))
    assert shape(queue.take(now_us=10 * SECOND_US)) == [5]
    assert queue.due_us == 11 * SECOND_US


def test_a_gathered_digest_goes_out_ahead_of_what_still_waits() -> None:
    queue = a_queue(every="1s")
    mixed(queue, a_digest(0, 2), an_event(2), an_event(3))
    assert shape(queue.take(1, now_us=0)) == [2]
    assert shape(queue.take(1, now_us=SECOND_US)) == [(2,)]
    assert shape(queue.take(1, now_us=SECOND_US)) == [3]


def test_without_a_time_nothing_waits_for_it() -> None:
    queue = a_queue(every="1s")
    mixed(queue, a_digest(0, 2), an_event(2))
    assert shape(queue.take()) == [(2,), 2]


def test_a_clock_that_is_set_back_delays_by_one_time_at_most() -> None:
    queue = a_queue(every="1s")
    mixed(queue, a_digest(0, 2))
    assert queue.take(now_us=100 * SECOND_US) == []
    assert queue.take(now_us=50 * SECOND_US) == []
    assert shape(queue.take(now_us=51 * SECOND_US)) == [(2,)]


def test_a_digest_lets_no_control_item_pass() -> None:
    queue = a_queue(every="1s")
    mixed(queue, an_event(0), a_digest(1, 2), Control(kind="mark"), an_event(3))
    assert shape(queue.take(now_us=0)) == [0, (2,), "mark", 3]


def test_a_pack_makes_one_digest_of_those_within_the_time() -> None:
    """Each digest between two kept events would take a place, and the level would be climbed over."""
    queue = a_queue(capacity=40, every="1s")
    for seq in range(41):
        queue.offer(an_event(seq, ts_us=seq * 100_000), now_us=seq * 100_000)
    digests = [item for item in queue.items() if isinstance(item, Digest)]
    assert [digest.count for digest in digests] == [6, 6, 6, 2]
    assert all(digest.to_us - digest.from_us <= SECOND_US for digest in digests)
    assert queue.statistics().packs_by_level == {1: 1}


def test_what_is_gathered_stays_while_the_receiver_is_away() -> None:
    queue = a_queue(every="1s")
    mixed(queue, a_digest(0, 2), an_event(2))
    queue.take(now_us=0)
    queue.suspend()
    assert queue.take(now_us=9 * SECOND_US) == []
    assert shape(queue.items()) == [(2,)]
    queue.resume()
    assert shape(queue.take(now_us=9 * SECOND_US)) == [(2,)]


def test_the_digests_that_were_merged_are_told() -> None:
    """Their owner has them on disk, by identity."""
    queue = a_queue(every="1s")
    one, other = a_digest(0, 2), a_digest(3, 4)
    mixed(queue, one, an_event(2), other)
    queue.take(now_us=0)
    assert [id(part) for part in queue.gathered] == [id(one), id(other)]
    queue.take(now_us=0)
    assert queue.gathered == []


# -- share ---------------------------------------------------------------------------------------------------


def sent(queue: PackingQueue, count: int, *, size: int = 100) -> tuple[int, int]:
    """Bytes of digests and of everything that left while a digest came with each event."""
    digests = everything = 0
    for seq in range(0, 2 * count, 2):
        mixed(queue, a_digest(seq, 1), an_event(seq + 1, size=size))
        for item in queue.take(1):
            digests += item.size if isinstance(item, Digest) else 0
            everything += item.size
    return digests, everything


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_digests_take_no_more_than_their_share(share: float) -> None:
    queue = a_queue(capacity=10_000, share=share)
    digests, everything = sent(queue, 3_000)
    assert digests <= share * everything + limits.DIGEST_BURST
    assert digests >= 0.8 * share * everything
    assert queue.statistics().conserved


def test_a_tenth_is_the_default_and_one_is_no_bound() -> None:
    usual, tenth, free = (
        sent(a_queue(10_000, **digest), 3_000) for digest in ({}, {"share": 0.1}, {"share": 1})
    )
    assert usual == tenth
    assert free[0] > 1.5 * usual[0]


def test_a_digest_that_is_alone_takes_nothing_from_anybody() -> None:
    queue = a_queue(share=0.001)
    for seq in range(1_000):
        mixed(queue, a_digest(seq, 1))
        assert shape(queue.take()) == [(1,)]


def test_a_digest_larger_than_the_burst_is_sent_and_paid_for() -> None:
    gathering = Gathering(share=0.1)
    large = a_digest(0, 1)
    size = 2 * limits.DIGEST_BURST
    assert gathering.may_leave(size, alone=False, now_us=None)
    gathering.left(large)
    assert not gathering.may_leave(size, alone=False, now_us=None)


def test_a_pack_leaves_digests_in_proportion_to_the_events() -> None:
    queue = a_queue(capacity=500, share=0.05)
    sent(queue, 400)  # the burst is used up
    queue.take()
    for seq in range(2_000):
        queue.offer(an_event(seq, size=60), now_us=seq)
        if seq % 3 == 0:
            queue.take(1)
    waiting = queue.items()
    digests = sum(item.size for item in waiting if isinstance(item, Digest))
    assert digests <= 0.1 * sum(item.size for item in waiting)
    assert queue.statistics().conserved


def test_a_buffer_before_no_link_hands_digests_on_at_once() -> None:
    options = QueueOptions(digests_at_once=True)
    queue = PackingQueue(policy(drop.every(2), digest={"every": "1s", "share": 0.01}), options)
    mixed(queue, a_digest(0, 2), an_event(2), a_digest(3, 2))
    assert shape(queue.take(now_us=0)) == [(2,), 2, (2,)]


def test_urgent_events_pass_too_and_count_as_carried() -> None:
    made = policy(drop.every(2), digest={"every": "1s"}, urgent=when.ge(9))
    queue = PackingQueue(made)
    mixed(queue, a_digest(0, 2), an_event(2, 1), an_event(3, 9))
    assert shape(queue.take(now_us=0)) == [3, 2]
    assert shape(queue.take(now_us=SECOND_US)) == [(2,)]


# -- replayed ------------------------------------------------------------------------------------------------


def test_a_replay_waits_for_a_gathered_digest() -> None:
    queue = a_queue(capacity=4, every="10s")
    replay = Replay(queue, drain("2/s"))
    for seq in range(30):
        replay.offer(an_event(seq, ts_us=seq * 100_000))
    replay.offer(an_event(30, ts_us=60 * SECOND_US))
    found = replay.finish()
    assert found.digests == 1
    assert found.delivered_us[30] == 60 * SECOND_US + SECOND_US // 2, "the digest went out in the pause"
    assert found.statistics.conserved
    assert (found.statistics.queued, found.statistics.queued_digested) == (0, 0)


# -- any sequence --------------------------------------------------------------------------------------------


class GatheringMachine(RuleBasedStateMachine):
    """Events keep their order; every event is delivered or counted; digests keep to time and share."""

    queue: PackingQueue

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[Item] = []
        self.taken: list[Item] = []
        self.pace = Pace()
        self.now_us = 0
        self.seq = 0
        self.digest_us: list[int] = []
        """When digests left that had events or nothing behind them."""
        self.alone_bytes = 0
        """Bytes of digests that left alone, or before a control item: they need no share."""

    @initialize(
        data=st.data(),
        chosen=st.sampled_from(sorted(LEVELS)),
        every=st.sampled_from([None, "1ms", "100ms"]),
        share=st.sampled_from([None, 0.01, 0.5, 1]),
        fresh=st.sampled_from([None, "50ms"]),
    )
    def make(
        self, data: st.DataObject, chosen: str, every: str | None, share: float | None, fresh: str | None
    ) -> None:
        asked: dict[str, Any] = {"$value": ["mean"]}
        asked |= {} if every is None else {"every": every}
        asked |= {} if share is None else {"share": share}
        made = policy(*LEVELS[chosen], digest=asked, fresh=fresh)
        self.every_us = made.digest_every_us or 0
        self.share = limits.DIGEST_SHARE if share is None else share
        options = QueueOptions(
            capacity_events=data.draw(st.integers(3, 30)),
            capacity_bytes=data.draw(st.sampled_from([200, 9_000])),
        )
        self.queue = PackingQueue(made, options, Predictive())
        self.queue.follow(self.pace)

    @rule(values=st.lists(st.integers(0, 4), min_size=1, max_size=12), size=st.sampled_from([0, 0, 40]))
    def offer(self, values: list[int], size: int) -> None:
        for value in values:
            event = an_event(self.seq, value, size=size)
            self.seq += 1
            self.offered.append(event)
            self.queue.offer(event, now_us=self.now_us)

    @rule(count=st.integers(1, 3))
    def offer_digest(self, count: int) -> None:
        digest = a_digest(self.seq, count)
        self.seq += count
        self.offered.append(digest)
        self.queue.offer(digest, now_us=self.now_us)

    @rule()
    def offer_control(self) -> None:
        control = Control(kind="mark", body=b"%d" % len(self.offered))
        self.offered.append(control)
        self.queue.offer(control, now_us=self.now_us)

    @rule(times=st.integers(1, 20), over_us=st.sampled_from([0, 1, 1_000, 60_000, 300_000]))
    def take(self, times: int, over_us: int) -> None:
        for _ in range(times):
            self.now_us += over_us
            waiting = len(self.queue)
            taken = self.queue.take(1, now_us=self.now_us)
            if not taken:
                assert not waiting or self.queue.suspended or self.held_back()
                return
            (item,) = taken
            self.taken.append(item)
            if isinstance(item, Digest):
                left = self.queue.items()
                if left and not isinstance(left[0], Control):
                    self.digest_us.append(self.now_us)
                else:
                    self.alone_bytes += item.size
                    if not left:
                        self.digest_us.append(self.now_us)
            self.pace.took(item.size, over_us=max(over_us, 1))

    def held_back(self) -> bool:
        """Nothing but a digest is left, and its time has not come."""
        (item,) = self.queue.items()
        due_us = self.queue.due_us
        return isinstance(item, Digest) and due_us is not None and self.now_us < due_us

    @rule(most=st.integers(0, 5), most_bytes=st.none() | st.sampled_from([0, 40, 100]))
    def take_without_time(self, most: int, most_bytes: int | None) -> None:
        taken = self.queue.take(most, most_bytes=most_bytes)
        self.taken += taken
        self.digest_us.clear()
        self.alone_bytes += sum(item.size for item in taken if isinstance(item, Digest))
        assert len(taken) <= most
        if most_bytes is not None and len(taken) > 1:
            assert sum(item.size for item in taken) <= most_bytes

    @rule()
    def suspend(self) -> None:
        self.queue.suspend()

    @rule()
    def resume(self) -> None:
        self.queue.resume()

    @rule()
    def move_to_another_queue(self) -> None:
        """As for a policy that is installed, or a session that is restored from disk."""
        before = self.queue.items()
        self.queue = PackingQueue(self.queue._climber.plan, self.queue.options, Predictive())
        self.queue.follow(self.pace)
        self.queue.absorb(before, now_us=self.now_us)
        assert total(self.queue.items()) == total(before)
        self.offered, self.taken = list(before), []
        self.digest_us.clear()
        self.alone_bytes = 0

    @invariant()
    def everything_is_accounted_for(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = self.queue.statistics()
        shown = self.queue.items()
        assert found.conserved
        assert found.accepted == total(self.offered) == total([*self.taken, *shown])
        assert found.items + found.controls == len(shown) == len(self.queue)
        assert found.bytes == sum(item.size for item in shown if not isinstance(item, Control))

    @invariant()
    def events_and_control_items_keep_their_order(self) -> None:
        if not hasattr(self, "queue"):
            return
        out = [id(item) for item in (*self.taken, *self.queue.items()) if not isinstance(item, Digest)]
        alive = set(out)
        assert out == [id(item) for item in self.offered if id(item) in alive]
        assert all(id(item) in alive for item in self.offered if isinstance(item, Control))

    @invariant()
    def digests_stay_between_the_same_control_items(self) -> None:
        if not hasattr(self, "queue"):
            return

        def counts(items: list[Item]) -> list[int]:
            found = [0]
            for item in items:
                if isinstance(item, Control):
                    found.append(0)
                else:
                    found[-1] += total([item])
            return found

        assert counts([*self.taken, *self.queue.items()]) == counts(self.offered)

    @invariant()
    def digests_keep_to_their_time(self) -> None:
        if hasattr(self, "queue") and self.every_us:
            pairs = zip(self.digest_us, self.digest_us[1:], strict=False)
            assert all(after - before >= self.every_us for before, after in pairs)

    @invariant()
    def digests_keep_to_their_share(self) -> None:
        if not hasattr(self, "queue"):
            return
        digests = [item.size for item in self.taken if isinstance(item, Digest)]
        carried = sum(item.size for item in self.taken if not isinstance(item, Control))
        most = self.share * carried + limits.DIGEST_BURST + self.alone_bytes + max(digests, default=0)
        assert sum(digests) <= most

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.resume()
            self.taken += self.queue.take()
            assert total(self.taken) == total(self.offered)
            assert len(self.queue) == 0


TestGathering = GatheringMachine.TestCase
TestGathering.settings = settings(max_examples=max(30, settings().max_examples // 2))
