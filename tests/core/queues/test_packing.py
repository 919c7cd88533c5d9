"""Time and urgency: a queue that packs before its events wait too long, and sends what is critical first."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.queues import DropOldestQueue, Ladder, PackingQueue, QueueOptions, Replay, drain
from penstock.core.queues.pace import Pace
from penstock.model import Control, Digest, Event, Item
from penstock.model.digest import WORST_CASE
from penstock.model.instant import SECOND_US
from penstock.policy import evaluate
from penstock.policy.text.python_form import drop, keep, policy, when

CRITICAL = policy(
    drop.within(0, 5),
    drop.within(0, 20),
    keep.latest(2),
    fresh="1s",
    urgent=when.gt(100),
)


def an_event(seq: int, value: float = 0, *, ts_us: int = 0, size: int = 0) -> Event:
    return Event("t", str(value).encode().ljust(size), ts_us, sender="s", seq=seq)


def shape(items: list[Item] | tuple[Item, ...]) -> list[object]:
    """Numbers of events; (count,) of digests; kinds of control items."""
    return [
        item.seq if isinstance(item, Event) else (item.count,) if isinstance(item, Digest) else item.kind
        for item in items
    ]


def of_pace(bytes_per_s: int) -> Pace:
    pace = Pace()
    pace.took(bytes_per_s, over_us=SECOND_US)
    return pace


# -- urgent --------------------------------------------------------------------------------------------------


def test_urgent_events_go_ahead_in_their_own_order() -> None:
    queue = PackingQueue(CRITICAL)
    for seq, value in enumerate([1, 2, 120, 3, 130, 4]):
        queue.offer(an_event(seq, value), now_us=0)
    assert queue.urgent == 2
    assert shape(queue.items()) == [2, 4, 0, 1, 3, 5]
    assert queue.head() is queue.items()[0]
    assert shape(queue.take(3)) == [2, 4, 0]
    assert shape(queue.take(most_bytes=4)) == [1, 3]
    assert shape(queue.take()) == [5]
    assert queue.statistics().conserved


def test_no_level_drops_an_urgent_event() -> None:
    queue = PackingQueue(CRITICAL, QueueOptions(capacity_events=10))
    for seq in range(100):
        queue.offer(an_event(seq, 120 if seq % 10 == 0 and seq < 40 else 1), now_us=seq)
    assert shape(queue.items())[:4] == [0, 10, 20, 30]
    found = queue.statistics()
    assert found.packs > 0
    assert found.urgent == 4
    assert found.conserved


def test_urgent_events_are_dropped_last_and_the_oldest_first() -> None:
    queue = PackingQueue(CRITICAL, QueueOptions(capacity_events=10))
    for seq in range(20):
        queue.offer(an_event(seq, seq % 2 * 200), now_us=seq)
    for seq in range(20, 40):
        queue.offer(an_event(seq, 200), now_us=seq)
    shown = shape(queue.items())
    assert shown[1:8] == [33, 34, 35, 36, 37, 38, 39]
    assert isinstance(queue.items()[0], Digest)
    found = queue.statistics()
    assert found.conserved
    assert found.filters[WORST_CASE].dropped > 0
    # One that is not urgent has a place all the same: it is the newest.
    queue.offer(an_event(40, 1), now_us=40)
    assert shape(queue.items())[-1] == 40


def test_an_event_that_is_not_urgent_gives_way_where_urgent_bytes_fill_the_queue() -> None:
    queue = PackingQueue(CRITICAL, QueueOptions(capacity_bytes=1_000))
    for seq in range(9):
        queue.offer(an_event(seq, 200, size=100), now_us=seq)
    queue.offer(an_event(9, 1, size=400), now_us=9)
    assert shape(queue.items()) == [*range(9), (1,)]
    assert queue.statistics().conserved


def test_an_event_that_cannot_be_read_is_not_urgent() -> None:
    queue = PackingQueue(policy(drop.uniq(), attribute="pulse", urgent=when.gt(100)))
    queue.offer(Event("t", b"no json", 0, seq=0), now_us=0)
    queue.offer(Event("t", b'{"pulse": 120}', 0, seq=1), now_us=0)
    queue.offer(Event("t", b'{"pulse": "high"}', 0, seq=2), now_us=0)
    assert shape(queue.items()) == [1, 0, 2]


def test_several_predicates_and_other_attributes() -> None:
    made = policy(drop.uniq(), attribute="a", urgent=[when.gt(5), when(attribute="$topic").match("^alarm")])
    queue = PackingQueue(made)
    for seq, (topic, value) in enumerate([("x", 1), ("x", 9), ("alarm/1", 1)]):
        queue.offer(Event(topic, b'{"a": %d}' % value, 0, seq=seq), now_us=0)
    assert shape(queue.items()) == [1, 2, 0]


@pytest.mark.parametrize("last", ["absorbed", "a digest"])
def test_the_capacity_holds_where_control_items_keep_digests_apart(last: str) -> None:
    """Such digests can neither be merged nor dropped, so urgent events have to make room."""
    options = QueueOptions(capacity_events=5, capacity_bytes=10_000, headroom=0)
    queue = PackingQueue(policy(drop.every(2), urgent=when.gt(100), digest={"share": 1}), options)
    for start in (0, 10, 20):
        values = enumerate([1, 2, 120, 130] if last == "absorbed" else [1, 120])
        queue.absorb([an_event(start + seq, value) for seq, value in values], now_us=0)
        if last == "a digest":
            (digest,) = evaluate.collapse(None, [an_event(start + 5)], cause=WORST_CASE)
            queue.offer(digest, now_us=0)
        assert queue.statistics().items <= max(5, queue.controls + 3)
        queue.offer(Control(kind="mark", body=b""), now_us=0)
    assert queue.statistics().conserved


def test_absorbing_picking_and_control_items() -> None:
    queue = PackingQueue(CRITICAL)
    queue.absorb([an_event(0, 1), Control(kind="mark"), an_event(1, 150), an_event(2, 160)], now_us=0)
    assert shape(queue.items()) == [1, 2, 0, "mark"]
    assert [event.seq for event in queue.pick(lambda event: event.seq in (0, 2))] == [2, 0]
    assert shape(queue.items()) == [1, "mark"]
    assert queue.statistics().accepted == 1
    assert queue.statistics().conserved


# -- fresh ---------------------------------------------------------------------------------------------------


def test_a_queue_packs_before_an_event_would_wait_too_long() -> None:
    queue = PackingQueue(CRITICAL)
    queue.follow(of_pace(1_000))
    for seq in range(10):
        queue.offer(an_event(seq, 30 if seq == 4 else 10 if seq % 2 else 1, size=99), now_us=seq)
    assert queue.statistics().packs == 0  # ten times 100 bytes: the last waits a second
    assert queue.wait_us() == SECOND_US
    queue.offer(an_event(10, 1, size=99), now_us=10)
    (record,) = queue.events()
    assert record.in_time
    # The lowest level is enough; a quarter of the time stays free, so none of its four events is spared.
    assert (record.level, record.events_dropped) == (1, 4)
    assert queue.statistics().packs_in_time == 1
    assert queue.statistics().conserved


@pytest.mark.parametrize("urgent", [0, 4])
def test_urgent_events_that_wait_take_of_the_time(urgent: int) -> None:
    """Ten items are taken in time: level 1 leaves six, which is too many behind four urgent ones."""
    pace = Pace(by_items=True)
    pace.took(10, over_us=SECOND_US)
    queue = PackingQueue(
        policy(drop.eq(0), keep.latest(2), fresh="1s", urgent=when.ge(9), digest={"share": 1})
    )
    queue.follow(pace)
    for seq in range(urgent):
        queue.offer(an_event(seq, 9), now_us=0)
    for seq, value in enumerate([1, 1, 1, 0, 1, 1, *[0] * (4 - urgent)], start=10):
        queue.offer(an_event(seq, value), now_us=0)
    assert queue.packs == 0
    queue.offer(an_event(20, 1), now_us=0)
    assert [(pack.level, pack.in_time) for pack in queue.events()] == [(2 if urgent else 1, True)]
    assert len(queue) <= 10


def test_the_capacity_stays_the_last_bound() -> None:
    queue = PackingQueue(CRITICAL, QueueOptions(capacity_events=5))
    queue.follow(of_pace(1_000_000))
    for seq in range(20):
        queue.offer(an_event(seq, 1), now_us=seq)
    assert queue.statistics().packs > 0
    assert queue.statistics().packs_in_time == 0


def test_a_stalled_receiver_does_not_lose_everything_for_time() -> None:
    """No level makes a queue in time that is not drained at all: the highest does what it can."""
    queue = PackingQueue(CRITICAL, QueueOptions(capacity_events=1_000))
    queue.follow(of_pace(0))
    walked = 0
    for seq in range(2_000):
        queue.offer(an_event(seq, 50, size=50), now_us=seq)
        walked += sum(record.items_before for record in queue.events())
    found = queue.statistics()
    assert found.packs_by_level.keys() == {3}
    assert found.queued >= 2
    assert found.conserved
    assert walked <= 2_000 * 50, "an arriving event pays for a bounded number of others"


def test_a_default_stands_in_for_a_policy_without_a_time() -> None:
    plain = policy(keep.latest(1))
    assert PackingQueue(plain, fresh_us=500).fresh_us == 500
    assert PackingQueue(CRITICAL, fresh_us=500).fresh_us == SECOND_US
    assert PackingQueue(None, fresh_us=500).fresh_us is None


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 400_000), st.integers(0, 150), st.integers(1, 300)), min_size=1, max_size=80
)


def events(arrivals: list[tuple[int, int, int]]) -> list[Event]:
    now_us, made = 1_000_000, []
    for seq, (gap_us, value, size) in enumerate(arrivals):
        now_us += gap_us
        made.append(an_event(seq, value, ts_us=now_us, size=size))
    return made


def waits_us(queue: object, made: list[Event], rate: str) -> tuple[list[int], int]:
    replay = Replay(queue, drain(rate))  # type: ignore[arg-type]
    for event in made:
        replay.offer(event)
    found = replay.finish()
    waits = [at - came for at, came in zip(found.delivered_us, found.published_us, strict=True) if at >= 0]
    return waits, found.statistics.packs


@given(ARRIVALS, st.sampled_from(["500B/s", "2kB/s", "20kB/s", "7/s"]), st.sampled_from([0.2, 1, 5]))
def test_a_receiver_that_keeps_up_is_never_packed(
    arrivals: list[tuple[int, int, int]], rate: str, fresh_s: float
) -> None:
    made = events(arrivals)
    plain, _ = waits_us(DropOldestQueue(), made, rate)
    timed = policy(keep.latest(1), fresh=fresh_s)
    waits, packs = waits_us(PackingQueue(timed), made, rate)
    if max(plain) <= fresh_s * SECOND_US - 2:
        assert packs == 0
        assert waits == plain


@given(
    lump_us=st.sampled_from([5_000, 100_000, 350_000, 450_000]),
    burst=st.sampled_from([5, 40, 50]),
    into=st.sampled_from([0.0, 0.5, 0.9]),
    rested=st.booleans(),
)
def test_a_burst_that_drains_in_time_loses_nothing(
    lump_us: int, burst: int, into: float, rested: bool
) -> None:
    """A receiver of 100 events a second that takes them in lumps, as radio links and small windows do."""
    pace, lump = Pace(by_items=True), lump_us * 100 / SECOND_US
    for _ in range(8):
        pace.took(0, over_us=lump_us - 1)
        pace.took(lump, over_us=1)
    if rested:
        pace.rested()
    queue = PackingQueue(policy(keep.latest(1), fresh="1s"))
    queue.follow(pace)
    queue.offer(an_event(0), now_us=0)
    taken, owed, at_us = 0, 0.0, lump_us * into
    for now_us in range(5_000, 2 * SECOND_US, 5_000):  # the last of them is taken within a second
        comes = now_us // lump_us > (now_us - 5_000) // lump_us
        if len(queue):
            pace.took(lump if comes else 0, over_us=5_000)
            owed += lump if comes else 0.0
        while owed >= 1 and queue.take(1):
            owed -= 1
            taken += 1
        if now_us - 5_000 <= at_us < now_us:
            for seq in range(1, burst + 1):
                queue.offer(an_event(seq, ts_us=now_us), now_us=now_us)
    assert queue.statistics().packs == 0
    assert taken + len(queue) == burst + 1


@pytest.mark.parametrize("rate", ["30/s", "37/s", "50/s", "80/s"])
@pytest.mark.parametrize("fresh_s", [0.25, 1])
def test_sources_take_turns(rate: str, fresh_s: float) -> None:
    """A hundred sources with a reading a second each, and fewer readings a second that are taken."""
    timed = policy(drop.within(0, 50), fresh=fresh_s)
    made = [
        Event(f"t/{seq % 100}", b"7", seq * 10_000 + (seq * 7_919) % 10_000, sender="s", seq=seq)
        for seq in range(6_000)
    ]
    queue = PackingQueue(timed)
    replay = Replay(queue, drain(rate), digests_on_wire=False)
    replay.offer_all(made)
    found = replay.finish()
    assert found.statistics.conserved
    gaps: dict[str, list[int]] = {}
    for event, at_us in zip(made, found.delivered_us, strict=True):
        if at_us >= 0 and event.ts_us > 10 * SECOND_US:
            gaps.setdefault(event.topic, []).append(event.ts_us)
    assert len(gaps) == 100
    fair_s = 100 / int(rate[:-2])  # seconds between two readings of a source if all were served alike
    longest_us = max(b - a for times in gaps.values() for a, b in pairwise(times))
    assert longest_us <= (int(fair_s) + 2) * SECOND_US


def test_a_late_queue_loses_no_more_than_it_must() -> None:
    """A level that may drop everything: what is taken in time stays, in order and evenly."""
    timed = policy(drop.within(0, 50), fresh="1s")
    made = [an_event(seq, 1, ts_us=seq * 10_000) for seq in range(3_000)]
    queue = PackingQueue(timed)
    replay = Replay(queue, drain("50/s"), digests_on_wire=False)
    replay.offer_all(made)
    found = replay.finish()
    arrived = [seq for seq, at_us in enumerate(found.delivered_us) if at_us >= 0]
    assert len(arrived) >= 0.98 * 50 * 30  # the drain had always something to take
    assert sorted(arrived, key=found.delivered_us.__getitem__) == arrived
    assert max(b - a for a, b in pairwise(arrived[100:])) <= 4


@pytest.mark.parametrize("make", [None, Ladder])
@pytest.mark.parametrize("fresh_s", [0.5, 1, 2])
def test_nothing_waits_longer_than_fresh(make: type[Ladder] | None, fresh_s: float) -> None:
    """Three times what the drain takes: a level that shrinks the queue enough holds the time."""
    timed = policy(drop.every(3), drop.older(fresh_s / 2), keep.latest(3), fresh=fresh_s)
    made = [an_event(seq, seq, ts_us=seq * 10_000, size=119) for seq in range(6_000)]
    queue = PackingQueue(timed, QueueOptions(capacity_events=10_000), make() if make else None)
    waits, packs = waits_us(queue, made, "4kB/s")
    assert packs > 0
    begun = len(waits) // 10  # until the pace is known
    # A 16th beyond it before the next pack, and an item that is being sent.
    assert max(waits[begun:]) <= fresh_s * SECOND_US * 17 / 16 + 30_000
    assert Counter(packed.level for packed in queue.events()).keys() <= {1, 2, 3}
