"""Buffers, situation by situation."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.core.queues import DropOldestQueue, PackingQueue, QueueOptions
from penstock.core.queues.buffers import LocalBuffer, RemoteBuffer, SharedQueue
from penstock.errors import ControlOverflow, QueueError
from penstock.model import Control, Digest, Event
from tests.core.queues.account import POLICIES, an_event

MARK = Control(kind="mark")


def private(name: str = "latest", capacity: int = 100) -> PackingQueue:
    return PackingQueue(POLICIES[name], QueueOptions(capacity_events=capacity))


def link_of(*receivers: str, capacity: int = 4) -> SharedQueue:
    link = SharedQueue(QueueOptions(capacity_events=capacity))
    for receiver in receivers:
        link.subscribe(receiver, private(), now_us=0)
    return link


def is_shared(link: SharedQueue) -> bool:
    """A call, so that the type checker does not take the answer for constant."""
    return link.shared


def told(link: SharedQueue, most: int | None = None) -> list[tuple[object, str | None]]:
    """What goes out: events by number, digests by (count), with their receiver."""
    return [
        (
            out.item.seq
            if isinstance(out.item, Event)
            else (out.item.count,)
            if isinstance(out.item, Digest)
            else out.item.kind,
            out.receiver,
        )
        for out in link.take(most)
    ]


def offer(link: SharedQueue, *numbers: int, receiver: str | None = None) -> None:
    for seq in numbers:
        link.offer(an_event(seq), now_us=seq, receiver=receiver)


def test_one_copy_on_the_wire_while_the_link_keeps_up() -> None:
    link = link_of("a", "b", "c")
    offer(link, 1, 2)
    assert is_shared(link)
    assert told(link) == [(1, None), (2, None)]
    for found in link.statistics().values():
        assert (found.accepted, found.delivered, found.queued) == (2, 2, 0)


def test_a_full_link_is_split_by_each_receivers_policy_and_shared_again_when_drained() -> None:
    link = SharedQueue(QueueOptions(capacity_events=4))
    link.subscribe("a", private("latest"), now_us=0)
    link.subscribe("b", private("drops nothing"), now_us=0)
    offer(link, 1, 2, 3, 4, 5)
    assert not is_shared(link)
    offer(link, 6)
    assert told(link, 3) == [((1,), "a"), (1, "b"), (2, "a")]
    assert told(link) == [(2, "b"), (3, "a"), (3, "b"), (4, "a"), (4, "b"), (5, None), (6, None)]
    assert is_shared(link)
    offer(link, 7)
    assert told(link) == [(7, None)]


def test_a_unicast_event_splits_first_so_order_is_kept() -> None:
    link = link_of("a", "b")
    offer(link, 1, 2)
    offer(link, 3, receiver="a")
    offer(link, 4)
    assert told(link) == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (4, None)]


def test_who_sleeps_keeps_what_was_shared_and_what_comes() -> None:
    link = link_of("a", "b")
    offer(link, 1)
    link.suspend("a", now_us=0)
    link.suspend("a", now_us=0)  # twice is once
    offer(link, 2)
    assert told(link) == [(1, None), (2, None)]  # for b alone
    assert link.statistics()["a"].queued == 2
    offer(link, 3)
    link.resume("a", now_us=0)
    link.resume("a", now_us=0)
    offer(link, 4)
    assert told(link) == [(1, "a"), (3, "b"), (2, "a"), (3, "a"), (4, None)]
    assert {name: found.delivered for name, found in link.statistics().items()} == {"a": 4, "b": 4}


def test_a_link_of_sleepers_sends_nothing_and_loses_nothing() -> None:
    link = link_of("a")
    offer(link, 1)
    link.suspend("a", now_us=0)
    offer(link, 2)
    assert (len(link), told(link)) == (0, [])
    link.resume("a", now_us=0)
    assert told(link) == [(1, "a"), (2, "a")]


def test_a_newcomer_gets_only_what_comes_after() -> None:
    link = link_of("a")
    offer(link, 1)
    link.subscribe("b", private(), now_us=0)
    offer(link, 2)
    assert told(link) == [(1, "a"), (2, None)]
    assert link.statistics()["b"].accepted == 1


def test_the_last_sample_survives_going_to_sleep() -> None:
    link = SharedQueue(QueueOptions(capacity_events=50))
    link.subscribe("a", private("drops all", capacity=5), now_us=0)
    offer(link, *range(20))
    link.suspend("a", now_us=0)
    link.resume("a", now_us=0)
    assert told(link) == [((19,), "a"), (19, "a")]


def test_control_items_take_no_room_in_the_shared_queue() -> None:
    link = link_of("a", capacity=3)
    for _ in range(10):
        link.offer(MARK, now_us=0)
    offer(link, 1, 2, 3)
    assert is_shared(link)
    offer(link, 4)
    assert not is_shared(link)


def test_a_control_item_too_many_is_refused_before_anyone_has_it() -> None:
    link = link_of("a", "b", "c")
    for _ in range(limits.CONTROL_ITEMS - 1):
        link.offer(MARK, now_us=0)
    link.suspend("c", now_us=0)
    link.offer(MARK, now_us=0, receiver="c")
    with pytest.raises(ControlOverflow, match="'c'"):
        link.offer(MARK, now_us=0)
    link.subscribe("d", private(), now_us=0)  # splits
    with pytest.raises(ControlOverflow):
        link.offer(MARK, now_us=0)
    link.resume("c", now_us=0)
    counts = dict.fromkeys("abcd", 0)
    for out in link.take():
        for receiver in "abcd" if out.receiver is None else out.receiver:
            counts[receiver] += 1
    full = limits.CONTROL_ITEMS
    assert counts == {"a": full - 1, "b": full - 1, "c": full, "d": 0}


def test_a_control_item_refused_by_one_link_reaches_the_others() -> None:
    buffer = RemoteBuffer()
    buffer.subscribe("s", "east", "a", private(), now_us=0)
    buffer.subscribe("s", "west", "b", private(), now_us=0)
    for _ in range(limits.CONTROL_ITEMS):
        buffer.offer_one("s", "east", "a", MARK, now_us=0)
    with pytest.raises(ControlOverflow):
        buffer.offer("s", MARK, now_us=0)
    assert len(buffer.take("west")) == 1


def test_senders_take_turns_on_a_link_however_little_is_taken() -> None:
    buffer = RemoteBuffer()
    for sender in ("s", "t", "u"):
        buffer.subscribe(sender, "east", "a", private(), now_us=0)
        for seq in range(3):
            buffer.offer(sender, an_event(seq), now_us=0)
    assert [buffer.take("east", 1)[0][0] for _ in range(6)] == ["s", "t", "u"] * 2
    assert [sender for sender, _ in buffer.take("east", 2)] == ["s", "t"]
    assert [sender for sender, _ in buffer.take("east")] == ["u"]
    assert buffer.take("east") == []
    assert buffer.take("nowhere") == []


def test_a_move_that_cannot_be_leaves_everything_where_it_is() -> None:
    buffer = RemoteBuffer()
    for link in ("east", "west"):
        buffer.subscribe("s", link, "a", private(), now_us=0)
    buffer.offer("s", an_event(1), now_us=0)
    with pytest.raises(QueueError, match="already"):
        buffer.move("s", "a", from_link="east", to_link="west", now_us=0)
    assert [len(buffer.take(link)) for link in ("east", "west")] == [1, 1]


def test_a_move_takes_what_waits_along_and_the_index_is_cleaned() -> None:
    buffer = RemoteBuffer()
    buffer.subscribe("s", "east", "a", private(), now_us=0)
    buffer.offer("s", an_event(1), now_us=0)
    buffer.suspend("s", "east", "a", now_us=0)
    buffer.offer("s", an_event(2), now_us=0)
    buffer.move("s", "a", from_link="east", to_link="west", now_us=0)
    assert buffer.links("s") == ("west",)
    buffer.offer("s", an_event(3), now_us=0)
    assert [out.item.seq for _, out in buffer.take("west") if isinstance(out.item, Event)] == [1, 2, 3]
    buffer.release("s", "west", "a", now_us=0)
    assert buffer.links("s") == ()
    assert list(buffer.statistics()) == []
    buffer.offer("s", an_event(4), now_us=0)  # nobody is there: nothing happens


def test_what_a_buffer_is_asked_wrongly() -> None:
    buffer = RemoteBuffer()
    buffer.subscribe("s", "east", "a", private(), now_us=0)
    with pytest.raises(QueueError, match="already"):
        buffer.subscribe("s", "east", "a", private(), now_us=0)
    with pytest.raises(QueueError, match="'west'"):
        buffer.release("s", "west", "a", now_us=0)
    with pytest.raises(QueueError, match="'b'"):
        buffer.suspend("s", "east", "b", now_us=0)
    with pytest.raises(QueueError, match="'b'"):
        buffer.offer_one("s", "east", "b", MARK, now_us=0)


def test_receivers_of_a_link_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECEIVERS_PER_LINK", 2)
    link = link_of("a", "b")
    with pytest.raises(QueueError, match="2 receivers"):
        link.subscribe("c", private(), now_us=0)


def test_a_local_buffer_has_one_queue_per_sender_and_receiver() -> None:
    made: list[tuple[str, str]] = []

    def make(sender: str, receiver: str) -> DropOldestQueue:
        made.append((sender, receiver))
        return DropOldestQueue()

    buffer = LocalBuffer(make)
    first = buffer.subscribe("s", "a")
    assert buffer.subscribe("s", "a") is first
    second = buffer.subscribe("s", "b")
    buffer.offer("s", an_event(1), now_us=0)
    buffer.offer("s", an_event(2), now_us=0, receiver="b")
    buffer.offer("unknown", an_event(3), now_us=0)
    assert made == [("s", "a"), ("s", "b")]
    assert (len(first), len(second)) == (1, 2)
    assert buffer.queue("s", "b") is second
    assert [(sender, receiver, found.accepted) for sender, receiver, found in buffer.statistics()] == [
        ("s", "a", 1),
        ("s", "b", 2),
    ]
    assert buffer.unsubscribe("s", "b") is second
    assert buffer.unsubscribe("s", "b") is None
    assert buffer.queue("s", "b") is None
    assert buffer.unsubscribe("s", "a") is first
    assert list(buffer.statistics()) == []
