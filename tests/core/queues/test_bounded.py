"""The queues, situation by situation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.queues import (
    BoundedQueue,
    DropNewestQueue,
    DropOldestQueue,
    Ladder,
    PackingQueue,
    QueueOptions,
)
from penstock.errors import ControlOverflow, QueueError
from penstock.model import Control, Digest, Event, Item
from penstock.model.digest import NEWEST, OLDEST, WORST_CASE
from penstock.policy import evaluate, filters
from penstock.policy.filters import Verb
from tests.core.queues.account import POLICIES, a_digest, an_event, policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.queues.controllers import PackOutcome, PackRequest

MARK = Control(kind="mark")


def shape(items: tuple[Item, ...] | list[Item]) -> list[object]:
    """Events by number, digests by (count), control items by kind."""
    return [
        item.seq if isinstance(item, Event) else (item.count,) if isinstance(item, Digest) else item.kind
        for item in items
    ]


def fill(queue: BoundedQueue, count: int, *, first: int = 0, step_us: int = 1000, size: int = 0) -> None:
    for seq in range(first, first + count):
        queue.offer(an_event(seq, seq, size=size), now_us=seq * step_us)


def options(capacity: int = 4, **more: float) -> QueueOptions:
    return QueueOptions(capacity_events=capacity, **more)  # type: ignore[arg-type]


# -- options -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity_events": 1},
        {"capacity_events": 0},
        {"capacity_events": -5},
        {"capacity_bytes": 0},
        {"headroom": -0.01},
        {"headroom": 0.51},
        {"headroom": float("nan")},
    ],
)
def test_options_that_make_no_queue(wrong: dict[str, int]) -> None:
    with pytest.raises(QueueError, match=next(iter(wrong))):
        QueueOptions(**wrong)  # type: ignore[arg-type]


def test_options_at_their_ends() -> None:
    QueueOptions(capacity_events=limits.QUEUE_EVENTS_LEAST, capacity_bytes=1, headroom=0)
    QueueOptions(headroom=0.5)


# -- in and out ----------------------------------------------------------------------------------------------

QUEUES: dict[str, Callable[[], BoundedQueue]] = {
    "packing": lambda: PackingQueue(POLICIES["ladder"], options()),
    "without policy": lambda: PackingQueue(None, options()),
    "oldest": lambda: DropOldestQueue(options()),
    "newest": lambda: DropNewestQueue(options()),
}


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> BoundedQueue:
    return QUEUES[request.param]()


def test_what_fits_comes_out_as_it_went_in(queue: BoundedQueue) -> None:
    fill(queue, 2)
    queue.offer(MARK, now_us=0)
    fill(queue, 2, first=2)
    assert len(queue) == 5
    assert shape(queue.take(3)) == [0, 1, "mark"]
    assert shape(queue.take()) == [2, 3]
    assert queue.take() == []
    assert queue.statistics().packs == 0


def test_take_by_bytes_gives_at_least_one(queue: BoundedQueue) -> None:
    fill(queue, 3, size=50)  # and one byte of topic
    assert shape(queue.take(most_bytes=10)) == [0]
    assert shape(queue.take(most_bytes=102)) == [1, 2]
    assert queue.take(0) == []


def test_a_suspended_queue_accepts_and_gives_nothing(queue: BoundedQueue) -> None:
    queue.suspend()
    fill(queue, 40)
    assert queue.take() == []
    assert queue.statistics().suspended
    assert queue.statistics().queued + queue.statistics().queued_digested == 40
    queue.resume()
    assert queue.take()
    assert queue.statistics().conserved


def test_digests_alone_never_fill_a_queue() -> None:
    for make in (PackingQueue, None):
        small = options(3)
        queue: BoundedQueue = make(None, small) if make else DropOldestQueue(small)
        for seq in range(100):
            queue.offer(a_digest(seq), now_us=seq)
        assert shape(queue.items()) == [(100,)]
        queue.offer(an_event(100), now_us=100)
        assert shape(queue.items()) == [(100,), 100]


def test_an_event_too_large_for_the_queue_is_delivered() -> None:
    for queue in (
        PackingQueue(None, options(capacity_bytes=100)),
        DropOldestQueue(options(capacity_bytes=100)),
    ):
        fill(queue, 2)
        queue.offer(an_event(2, size=5000), now_us=2)
        assert shape(queue.items()) == [(2,), 2]
        queue.offer(an_event(3), now_us=3)
        assert shape(queue.items()) == [(3,), 3]
    newest = DropNewestQueue(options(capacity_bytes=100))
    newest.offer(an_event(0, size=5000), now_us=0)
    newest.offer(an_event(1), now_us=1)
    assert shape(newest.items()) == [0, (1,)]


def test_control_items_are_refused_rather_than_dropped(queue: BoundedQueue) -> None:
    for _ in range(limits.CONTROL_ITEMS):
        queue.offer(MARK, now_us=0)
    with pytest.raises(ControlOverflow):
        queue.offer(MARK, now_us=0)
    fill(queue, 20)
    found = queue.statistics()
    assert (found.controls, found.conserved) == (limits.CONTROL_ITEMS, True)
    assert shape(queue.take(3)) == ["mark"] * 3
    queue.offer(MARK, now_us=0)
    assert queue.statistics().controls == limits.CONTROL_ITEMS - 2


# -- drop oldest, drop newest --------------------------------------------------------------------------------


def test_drop_oldest_holds_its_capacity_with_the_digest_at_the_head() -> None:
    queue = DropOldestQueue(options(4))
    fill(queue, 10)
    assert queue.statistics().items == len(queue) == 4
    assert queue.statistics().filters[OLDEST].dropped == 7
    out = queue.take()
    assert shape(out) == [(7,), 7, 8, 9]
    assert isinstance(out[0], Digest)
    assert (out[0].seq_first, out[0].seq_last, out[0].causes) == (0, 6, ((OLDEST, 7),))


def test_drop_oldest_drops_past_control_items_without_losing_their_place() -> None:
    queue = DropOldestQueue(options(3))
    fill(queue, 2)
    queue.offer(MARK, now_us=0)
    fill(queue, 5, first=2)
    assert (queue.statistics().items, queue.statistics().controls, len(queue)) == (3, 1, 4)
    assert shape(queue.take()) == [(2,), "mark", (4,), 6]


def test_drop_newest_counts_at_the_tail_until_there_is_room() -> None:
    queue = DropNewestQueue(options(3))
    fill(queue, 5)
    assert len(queue) == 4
    assert shape(queue.take(1)) == [0]
    fill(queue, 1, first=5)  # the digest holds the place
    assert shape(queue.take(1)) == [1]
    fill(queue, 1, first=6)
    assert shape(queue.take()) == [2, (3,), 6]
    assert queue.statistics().filters[NEWEST].dropped == 3


def test_drop_newest_keeps_order_for_an_event_too_large() -> None:
    queue = DropNewestQueue(options(capacity_bytes=50))
    fill(queue, 2, size=40)
    assert shape(queue.take(1)) == [0]
    assert len(queue) == 1  # the digest still waits
    queue.offer(an_event(2, size=5000), now_us=2)
    assert shape(queue.take()) == [(1,), 2]


# -- packing -------------------------------------------------------------------------------------------------


def levels(*shares: float) -> list[tuple[Verb, filters.Filter]]:
    return [(Verb.DROP, filters.Random(fraction=share, seed=n)) for n, share in enumerate(shares)]


def test_without_a_policy_a_pack_is_the_worst_case() -> None:
    queue = PackingQueue(None, options(3))
    fill(queue, 4)
    assert shape(queue.items()) == [(3,), 3]
    (record,) = queue.events()
    assert (record.level, record.chosen, record.events_before, record.events_dropped) == (0, 0, 3, 3)
    assert (record.items_before, record.items_after, record.turnaround_us, record.ratio) == (3, 1, None, 1.0)
    assert queue.statistics().packs_by_level == {0: 1}
    assert queue.level == 0
    assert queue.events() == []


def test_a_level_that_frees_nothing_is_climbed_over_at_once() -> None:
    never = (Verb.DROP, filters.Eq(value="never"))
    queue = PackingQueue(policy(never, never, (Verb.KEEP, filters.Latest(n=1))), options(4))
    fill(queue, 5)
    assert shape(queue.items()) == [(3,), 3, 4]
    (record,) = queue.events()
    assert (record.level, record.chosen) == (3, 1)
    assert queue.level == 3
    counts = {str(cause): (count.seen, count.dropped) for cause, count in queue.statistics().filters.items()}
    assert counts == {"1.1 eq": (4, 0), "2.1 eq": (4, 0), "3.1 latest": (4, 3)}


def test_dropping_single_events_frees_no_place() -> None:
    """Each dropped event leaves a digest: the queue must look at places, not at events."""
    queue = PackingQueue(POLICIES["every other"], options(6))
    fill(queue, 7)
    assert shape(queue.items()) == [(6,), 6]
    assert queue.statistics().packs_by_level == {0: 1}
    assert queue.statistics().filters[WORST_CASE].dropped == 3


def test_bytes_make_a_queue_full_too() -> None:
    queue = PackingQueue(POLICIES["latest"], QueueOptions(capacity_bytes=700))
    fill(queue, 7, size=99)
    assert queue.statistics().packs == 0
    fill(queue, 1, first=7, size=99)
    assert shape(queue.items()) == [(5,), 5, 6, 7]
    assert queue.statistics().bytes == sum(item.size for item in queue.items()) <= 700


def test_a_pack_makes_room_for_the_bytes_of_what_arrives() -> None:
    steps = policy((Verb.KEEP, filters.Latest(n=7)), (Verb.KEEP, filters.Latest(n=2)))
    queue = PackingQueue(steps, QueueOptions(capacity_bytes=1000))
    fill(queue, 9, size=99)
    queue.offer(an_event(9, size=599), now_us=9)
    assert shape(queue.items()) == [(7,), 7, 8, 9]  # level 1 would have left 700 bytes
    assert queue.statistics().bytes <= 1000


def test_the_newest_sample_survives_whatever_the_policy() -> None:
    for name, found in POLICIES.items():
        queue = PackingQueue(found, options(5))
        fill(queue, 5)
        assert shape(queue.items())[-1] == 4, name
        fill(queue, 18, first=5)
        queue.pack(now_us=0)
        assert shape(queue.items())[-1] == 22, name
        queue.absorb([*(an_event(seq) for seq in range(23, 40)), MARK], now_us=0)
        assert shape(queue.items())[-2:] == [39, "mark"], name


def test_a_reader_that_keeps_up_is_never_packed() -> None:
    queue = PackingQueue(POLICIES["drops all"], options(3))
    for seq in range(50):
        fill(queue, 1, first=seq)
        assert shape(queue.take()) == [seq]
    assert queue.statistics().packs == 0


@pytest.mark.parametrize("capacity", [3, 10, 50, 75, 100, 300])
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_work_per_arrival_is_bounded(name: str, capacity: int) -> None:
    """A pack must free its headroom, so an event pays for 1/headroom walked items at most."""
    queue = PackingQueue(POLICIES[name], options(capacity))
    walked = 0
    offered = 6 * capacity
    for seq in range(offered):
        queue.offer(an_event(seq, seq % 7), now_us=seq)
        walked += sum(record.items_before for record in queue.events())
    assert walked <= offered / limits.HEADROOM
    assert queue.statistics().packs > 0


def test_work_is_bounded_by_the_headroom_not_by_luck() -> None:
    """A policy that frees one place at a time would pack at every arrival: it must climb instead."""
    greedy = policy((Verb.KEEP, filters.Latest(n=198)), (Verb.KEEP, filters.Latest(n=100)))
    queue = PackingQueue(greedy, options(200, headroom=0.02))
    fill(queue, 400)
    assert queue.statistics().packs <= 4
    assert queue.statistics().packs_by_level == {2: queue.statistics().packs}
    lazy = PackingQueue(greedy, options(200, headroom=0), Ladder())
    fill(lazy, 400)
    assert lazy.statistics().packs > 100


def test_a_pack_frees_bytes_for_its_headroom_too() -> None:
    queue = PackingQueue(POLICIES["conflate"], QueueOptions(capacity_bytes=100_000, headroom=0.1))
    for seq in range(1000):
        queue.offer(an_event(seq, seq % 3, size=999), now_us=seq)
    assert queue.statistics().packs <= 1000 * 1000 / 10_000 + 1


class Scripted:
    """A controller that notes what it was told."""

    def __init__(self) -> None:
        self.level = 1
        self.requests: list[PackRequest] = []
        self.outcomes: list[PackOutcome] = []

    def choose(self, request: PackRequest) -> int:
        self.requests.append(request)
        return self.level

    def packed(self, outcome: PackOutcome) -> None:
        self.outcomes.append(outcome)


def test_what_a_controller_is_told() -> None:
    controller = Scripted()
    queue = PackingQueue(policy((Verb.KEEP, filters.Latest(n=1))), options(4), controller)
    fill(queue, 5)
    queue.take(2)
    fill(queue, 4, first=5)
    first, second = controller.requests
    # In bytes, of which an event has two: four arrived before the one that asks.
    assert (first.now_us, first.highest, first.arrived, first.departed) == (4000, 1, 8, 0)
    # Since the first pack that one arrived and three more; an event went out, and a digest of 60 bytes.
    assert (second.now_us, second.arrived, second.departed, second.over_us) == (8000, 8, 62, 4000)
    assert (first.most, second.most) == (None, None)
    assert [(one.level, one.events) for one in controller.outcomes] == [(1, 4), (1, 4)]
    assert [effect.dropped for effect in controller.outcomes[0].effects] == [3]


def test_statistics_of_packs() -> None:
    queue = PackingQueue(policy((Verb.KEEP, filters.Latest(n=1))), options(4))
    fill(queue, 11)
    found = queue.statistics()
    records = queue.events()
    assert found.packs == len(records) == 4
    assert [record.at_us for record in records] == [4000, 6000, 8000, 10_000]
    assert (found.last_turnaround_us, found.mean_turnaround_us) == (2000, 2000.0)
    assert found.mean_ratio == pytest.approx((3 / 4 + 3 * 2 / 3) / 4)
    assert found.accepted == 11
    assert found.queued + found.queued_digested == 11


def test_records_are_bounded() -> None:
    queue = PackingQueue(None, options(3))
    fill(queue, 3000)
    assert queue.statistics().packs > limits.PACK_RECORDS
    assert len(queue.events()) == limits.PACK_RECORDS


@pytest.mark.parametrize("chosen", sorted(POLICIES))
def test_a_digest_that_meets_a_full_queue_leaves_the_newest_event(chosen: str) -> None:
    queue = PackingQueue(POLICIES[chosen], options(4))
    fill(queue, 4)
    (digest,) = evaluate.collapse(None, [an_event(99)])
    queue.offer(digest, now_us=10)
    events = [item for item in queue.take() if isinstance(item, Event)]
    assert events[-1].seq == 3
    assert queue.statistics().conserved
