"""What waits for a link: bounded, and what goes is counted for each filter that matches it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.backlog import Backlog, Outgoing
from penstock.core.cluster.copies import OutgoingRun
from penstock.core.cluster.frames import Carried, CarriedRun, Told, Wants, decode_items, encode_item
from penstock.core.cluster.interest import PeerInterest
from penstock.core.cluster.losses import LINK_FULL
from penstock.model.digest import OLDEST, Digest
from penstock.model.digest_wire import JSON_MARK, from_bytes, to_message
from penstock.model.event import Event

FILTERS = {"a": ["a", "#"], "b": ["#"], "nobody": []}


def outgoing(topic: str, seq: int, size: int = 1) -> Outgoing:
    event = Event(topic, b"x" * size, ts_us=seq, seq=seq)
    return Outgoing(event, encode_item(Carried(seq, topic, event.payload, seq)))


def backlog(events: int = 3, size: int = 1 << 20, interest: PeerInterest | None = None) -> Backlog:
    return Backlog(FILTERS.__getitem__, interest, capacity_events=events, capacity_bytes=size)


def test_events_leave_in_order_as_many_as_fit_in_a_frame_and_at_least_one() -> None:
    queue = backlog(10)
    for seq in range(4):
        queue.offer(outgoing("a", seq), now_us=0)
    each = len(outgoing("a", 0).data)
    taken = queue.take(2 * each)
    found = [one.number for one in decode_items(b"".join(taken.items)) if isinstance(one, Carried)]
    assert (len(taken.events), found) == (2, [0, 1])
    assert len(queue.take(1).events) == 1
    assert (queue.head, len(queue)) == (4, 1)


def test_the_oldest_go_and_digests_of_each_filter_leave_first() -> None:
    queue = backlog(2)
    for seq, topic in enumerate(["a", "b", "a", "a"]):
        queue.offer(outgoing(topic, seq), now_us=0)
    taken = queue.take(1 << 20)
    found = list(decode_items(b"".join(taken.items)))
    told = {one.filter: from_bytes(one.digest) for one in found if isinstance(one, Told)}
    assert isinstance(found[0], Told)
    assert {filter_: digest.count for filter_, digest in told.items()} == {"a": 1, "#": 2}
    assert told["#"].causes == ((LINK_FULL, 2),)
    assert (len(taken.events), queue.digested, queue.empty) == (2, 2, True)


def test_a_digest_of_a_publisher_stays_what_it_stands_for() -> None:
    queue = backlog(1)
    digest = Digest(40, 0, 9, 1, 40, ((OLDEST, 40),))
    payload = to_message(digest, filter_="a", compact=False).payload
    event = Event("b", payload, ts_us=1, properties=(JSON_MARK,))
    queue.offer(Outgoing(event, b"\0\0\0\0"), now_us=0)
    queue.offer(outgoing("b", 2), now_us=0)
    told = next(iter(decode_items(b"".join(queue.take(1).items[:1]))))
    assert isinstance(told, Told)
    assert from_bytes(told.digest).count == 40


def test_events_that_nobody_wants_any_more_are_abandoned() -> None:
    queue = backlog(1)
    queue.offer(outgoing("nobody", 1), now_us=0)
    queue.offer(outgoing("nobody", 2), now_us=0)
    assert (queue.abandoned, queue.digested) == (1, 0)
    queue.abandon()
    assert (queue.abandoned, queue.empty) == (2, True)


def test_one_event_larger_than_the_queue_is_kept() -> None:
    queue = backlog(3, size=10)
    queue.offer(outgoing("a", 1, size=100), now_us=0)
    assert len(queue) == 1
    queue.offer(outgoing("a", 2, size=100), now_us=0)
    assert (len(queue), queue.digested) == (1, 1)


def test_a_queue_takes_over_what_waits_for_the_link_before() -> None:
    interest = PeerInterest()
    before, after = backlog(2), backlog(2, interest=interest)
    for seq, topic in enumerate(["a", "b", "a"]):
        before.offer(outgoing(topic, seq), now_us=0)
    after.offer(outgoing("b", 9), now_us=0)
    after.inherit(before, now_us=0)
    assert (before.accepted, before.digested, before.empty, before.bytes) == (1, 1, True, 0)
    assert (after.accepted, after.digested, len(after)) == (3, 1, 2)
    assert not after.take(1 << 20).items, "the node has not said what it wants"
    interest.apply(Wants(1, True, ["a", "#"], []))
    told = {filter_: digest.count for (_, filter_), digest in after.take(1 << 20).told}
    assert told == {"a": 1, "#": 2}


def run_of(topics: str, seq: int) -> OutgoingRun:
    """Messages on these topics that came together."""
    data = encode_item(CarriedRun(seq, len(topics), topics.encode(), 4, 0))
    return OutgoingRun(
        len(topics), data, lambda: [outgoing(topic, seq + at) for at, topic in enumerate(topics)]
    )


def test_a_run_crosses_as_it_came_and_is_counted_by_its_events() -> None:
    queue = backlog(10)
    queue.offer(outgoing("a", 1), now_us=0)
    queue.offer(run_of("abab", 2), now_us=0)
    assert (queue.serial, queue.accepted, len(queue), queue.head) == (5, 5, 5, 1)
    taken = queue.take(1 << 20)
    assert [type(one) for one in decode_items(b"".join(taken.items))] == [Carried, CarriedRun]
    assert (taken.shared, queue.head, queue.bytes, queue.empty) == (5, 6, 0, True)
    queue.landed(taken)
    assert queue.account().handed == 5


def test_a_run_larger_than_the_queue_loses_its_oldest_events_only() -> None:
    queue = backlog(3)
    queue.offer(run_of("ababab", 1), now_us=0)
    found = list(decode_items(b"".join(queue.take(1 << 20).items)))
    assert [one.number for one in found if isinstance(one, Carried)] == [4, 5, 6]
    assert {one.filter: from_bytes(one.digest).count for one in found if isinstance(one, Told)} == {
        "a": 2,
        "#": 3,
    }
    assert queue.bytes == 0


def numbers(items: list[bytes]) -> list[int]:
    return [one.number for one in decode_items(b"".join(items)) if isinstance(one, Carried)]


def test_the_reserved_lane_goes_ahead_and_settles_with_what_came_before_it() -> None:
    queue = backlog(80)
    for seq in range(1, 4):
        queue.offer(outgoing("a", seq), now_us=0)
    assert queue.offer_ahead(outgoing("a", 4), after_us=0)
    assert (queue.serial, queue.accepted, len(queue), queue.unsettled) == (3, 4, 4, 1)
    first = queue.take(1)
    assert (numbers(first.items), first.shared) == ([4], 1)
    rest = queue.take(1 << 20)
    assert (numbers(rest.items), queue.unsettled, queue.bytes) == ([1, 2, 3], 3, 0)
    queue.landed(first)
    queue.landed(rest)
    assert (queue.unsettled, queue.account().handed, queue.empty) == (4, 4, True)


def test_a_lone_event_of_the_reserved_lane_is_unsettled_until_it_has_landed() -> None:
    queue = backlog(80)
    assert queue.offer_ahead(outgoing("a", 1), after_us=5)
    assert queue.unsettled <= queue.serial
    taken = queue.take(1)
    assert queue.unsettled <= queue.serial
    queue.give_back(taken, now_us=0)
    assert (len(queue), queue.unsettled <= queue.serial) == (1, True)
    queue.landed(queue.take(1))
    assert queue.unsettled > queue.serial


def test_a_flow_stays_in_order_and_its_lane_is_bounded() -> None:
    queue = backlog(16)
    queue.offer(outgoing("a", 5), now_us=0)
    assert not queue.offer_ahead(outgoing("a", 6), after_us=5), "one of its events may wait there"
    assert queue.offer_ahead(outgoing("a", 6), after_us=4)
    assert queue.offer_ahead(outgoing("a", 7), after_us=4)
    assert not queue.offer_ahead(outgoing("a", 8), after_us=4), "an eighth of the queue"
    interest = PeerInterest()
    after = Backlog(FILTERS.__getitem__, interest, capacity_events=16)
    after.inherit(queue, now_us=0)
    assert not after.take(1 << 20).items, "the restarted node says first what it wants"
    interest.apply(Wants(1, True, ["a"]))
    assert (after.accepted, len(after), numbers(after.take(1 << 20).items)) == (3, 3, [6, 7, 5])
    assert (queue.accepted, queue.empty, queue.bytes) == (0, True, 0)
    assert after.offer_ahead(outgoing("a", 9), after_us=0)
    after.abandon()
    assert (after.abandoned, after.empty) == (1, True)


STEPS = st.lists(
    st.one_of(st.text("ab", min_size=1, max_size=4), st.integers(1, 200)),
    max_size=60,
)


def test_nothing_is_sent_to_a_node_that_was_started_anew_before_it_says_what_it_wants() -> None:
    interest = PeerInterest()
    after = backlog(9, interest=interest)
    after.inherit(backlog(9), now_us=0)
    after.offer(outgoing("nobody", 1), now_us=0)
    after.offer(outgoing("a", 2), now_us=0)
    assert not after.take(1 << 20).items
    interest.apply(Wants(1, True, ["a"], []))
    assert (numbers(after.take(1 << 20).items), after.abandoned) == ([2], 1)


def test_what_waited_for_a_node_that_does_not_want_it_after_a_restart_is_abandoned() -> None:
    interest = PeerInterest()
    before, after = backlog(9), backlog(9, interest=interest)
    for seq, topic in enumerate(["nobody", "a", "nobody", "b"]):
        before.offer(outgoing(topic, seq), now_us=0)
    after.inherit(before, now_us=0)
    interest.apply(Wants(1, True, ["a", "#"], []))
    taken = after.take(1 << 20).events
    assert [out.event.topic for out in taken if isinstance(out, Outgoing)] == ["a", "b"]
    assert (after.account(2).balanced, after.abandoned, after.bytes) == (True, 2, 0)


STEPS = st.lists(st.one_of(st.sampled_from("ab"), st.integers(1, 200)), max_size=60)


@given(STEPS, st.integers(1, 5))
def test_every_event_has_left_or_waits_or_is_counted_for_each_of_its_filters(
    steps: list[str | int], capacity: int
) -> None:
    queue = backlog(capacity)
    offered = {"a": 0, "b": 0}
    seen = dict.fromkeys(["a", "#"], 0)
    left = 0

    def taken(most: int) -> None:
        nonlocal left
        found = queue.take(most)
        if most % 3 == 0:  # the other node has not had it
            queue.give_back(found, now_us=0)
            return
        left += found.shared
        for one in decode_items(b"".join(found.items)):
            if isinstance(one, Told):
                seen[one.filter] += from_bytes(one.digest).count
                continue
            assert isinstance(one, Carried | CarriedRun)
            topics = one.topic if isinstance(one, Carried) else one.data.decode()
            for filter_ in (filter_ for topic in topics for filter_ in FILTERS[topic]):
                seen[filter_] += 1

    for number, step in enumerate(steps):
        if isinstance(step, str):
            offered = {topic: count + step.count(topic) for topic, count in offered.items()}
            queue.offer(outgoing(step, number) if len(step) == 1 else run_of(step, number), now_us=0)
        elif not queue.empty:
            taken(step)
        assert len(queue) <= capacity
        assert queue.accepted == left + queue.digested + len(queue)
    while not queue.empty:
        taken(50)
    assert seen == {"a": offered["a"], "#": offered["a"] + offered["b"]}
