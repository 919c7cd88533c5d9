"""What waits for a link: bounded, and what goes is counted for each filter that matches it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster.backlog import LINK_FULL, Backlog, Outgoing
from penstock.core.cluster.frames import Carried, Told, decode_items, encode_item
from penstock.model.digest import OLDEST, Digest
from penstock.model.digest_wire import JSON_MARK, from_bytes, to_message
from penstock.model.event import Event

FILTERS = {"a": ["a", "#"], "b": ["#"], "nobody": []}


def outgoing(topic: str, seq: int, size: int = 1) -> Outgoing:
    event = Event(topic, b"x" * size, ts_us=seq, seq=seq)
    return Outgoing(event, encode_item(Carried(seq, topic, event.payload, seq)))


def backlog(events: int = 3, size: int = 1 << 20) -> Backlog:
    return Backlog(FILTERS.__getitem__, capacity_events=events, capacity_bytes=size)


def test_events_leave_in_order_as_many_as_fit_in_a_frame_and_at_least_one() -> None:
    queue = backlog(10)
    for seq in range(4):
        queue.offer(outgoing("a", seq))
    each = len(outgoing("a", 0).data)
    taken = queue.take(2 * each)
    found = [one.number for one in decode_items(b"".join(taken.items)) if isinstance(one, Carried)]
    assert (len(taken.events), found) == (2, [0, 1])
    assert len(queue.take(1).events) == 1
    assert (queue.head, len(queue)) == (4, 1)


def test_the_oldest_go_and_digests_of_each_filter_leave_first() -> None:
    queue = backlog(2)
    for seq, topic in enumerate(["a", "b", "a", "a"]):
        queue.offer(outgoing(topic, seq))
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
    queue.offer(Outgoing(event, b"\0\0\0\0"))
    queue.offer(outgoing("b", 2))
    told = next(iter(decode_items(b"".join(queue.take(1).items[:1]))))
    assert isinstance(told, Told)
    assert from_bytes(told.digest).count == 40


def test_events_that_nobody_wants_any_more_are_abandoned() -> None:
    queue = backlog(1)
    queue.offer(outgoing("nobody", 1))
    queue.offer(outgoing("nobody", 2))
    assert (queue.abandoned, queue.digested) == (1, 0)
    queue.abandon()
    assert (queue.abandoned, queue.empty) == (2, True)


def test_one_event_larger_than_the_queue_is_kept() -> None:
    queue = backlog(3, size=10)
    queue.offer(outgoing("a", 1, size=100))
    assert len(queue) == 1
    queue.offer(outgoing("a", 2, size=100))
    assert (len(queue), queue.digested) == (1, 1)


def test_a_queue_takes_over_what_waits_for_the_link_before() -> None:
    before, after = backlog(2), backlog(2)
    for seq, topic in enumerate(["a", "b", "a"]):
        before.offer(outgoing(topic, seq))
    after.offer(outgoing("b", 9))
    after.inherit(before)
    assert (before.accepted, before.digested, before.empty, before.bytes) == (1, 1, True, 0)
    assert (after.accepted, after.digested, len(after)) == (3, 1, 2)
    told = {filter_: digest.count for filter_, digest in after.take(1 << 20).told}
    assert told == {"a": 1, "#": 2}


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
            queue.give_back(found)
            return
        left += len(found.events)
        for one in decode_items(b"".join(found.items)):
            if isinstance(one, Told):
                seen[one.filter] += from_bytes(one.digest).count
            else:
                assert isinstance(one, Carried)
                for filter_ in FILTERS[one.topic]:
                    seen[filter_] += 1

    for number, step in enumerate(steps):
        if isinstance(step, str):
            offered[step] += 1
            queue.offer(outgoing(step, number))
        elif not queue.empty:
            taken(step)
        assert len(queue) <= capacity
        assert queue.accepted == left + queue.digested + len(queue)
    while not queue.empty:
        taken(50)
    assert seen == {"a": offered["a"], "#": offered["a"] + offered["b"]}
