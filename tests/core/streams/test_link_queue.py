"""The queue of a link: control overtakes, streams take turns, and messages without room are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.streams.link_queue import QUANTUM_BYTES, LinkQueue
from penstock.core.streams.messages import Ack, Data, Message, Nack
from penstock.errors import StreamError


def data(pubend: str, tick: int, size: int = 100) -> Data:
    return Data(pubend, tick, tick, bytes(size))


def drained(queue: LinkQueue) -> list[Message]:
    found = []
    while (one := queue.take()) is not None:
        found.append(one[0])
    return found


def test_control_overtakes_data() -> None:
    queue = LinkQueue(10_000)
    queue.offer(data("p", 1))
    queue.offer(Nack("p", ((1, 2),)))
    queue.offer(Ack("p", 1))
    assert drained(queue) == [Nack("p", ((1, 2),)), Ack("p", 1), data("p", 1)]


def test_what_finds_no_place_is_refused_and_counted_but_control_gets_in() -> None:
    queue = LinkQueue(500, header_bytes=200)
    assert queue.offer(data("p", 1))
    assert not queue.offer(data("p", 2))
    assert queue.offer(Ack("p", 1))
    assert queue.statistics().refused == 1
    assert len(queue) == 2
    drained(queue)
    assert queue.bytes == 0
    assert queue.offer(data("p", 3))


def test_one_message_larger_than_the_queue_gets_in() -> None:
    queue = LinkQueue(500)
    assert queue.offer(Ack("p", 1))
    assert queue.offer(data("p", 1, 100_000))
    assert not queue.offer(data("q", 1))
    assert not queue.offer(data("p", 2, 100_000))
    assert queue.urgent_bytes == 41
    assert drained(queue) == [Ack("p", 1), data("p", 1, 100_000)]
    assert queue.bytes == queue.urgent_bytes == 0
    assert queue.offer(data("q", 1))
    assert queue.offer(data("p", 2, 100_000))


def test_a_stream_with_much_to_send_leaves_the_others_their_share() -> None:
    queue = LinkQueue(1 << 20)
    for tick in range(1_000):
        queue.offer(data("greedy", tick))
    for name in ("b", "c"):
        for tick in range(100):
            queue.offer(data(name, tick))
    sent = [queue.take() for _ in range(300)]
    counts = {
        name: sum(one is not None and one[0].pubend == name for one in sent) for name in ("greedy", "b", "c")
    }
    assert counts["b"] == counts["c"] == pytest.approx(100, abs=20)


def test_first_come_first_served_lets_it_take_the_link() -> None:
    queue = LinkQueue(1 << 20, fair=False)
    for tick in range(300):
        queue.offer(data("greedy", tick))
    queue.offer(data("b", 1))
    assert [one.pubend for one in drained(queue)] == ["greedy"] * 300 + ["b"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3 * QUANTUM_BYTES), st.booleans()), max_size=60
    ),
    st.booleans(),
)
def test_nothing_is_lost_inside_and_each_stream_keeps_its_order(
    steps: list[tuple[str, int, bool]], fair: bool
) -> None:
    queue = LinkQueue(1 << 24, fair=fair)
    put: list[Message] = []
    got: list[Message] = []
    for number, (name, size, take) in enumerate(steps):
        message = data(name, number, size)
        assert queue.offer(message)
        put.append(message)
        if take:
            found = queue.take()
            assert found is not None
            got.append(found[0])
    got += drained(queue)
    assert len(queue) == queue.bytes == 0
    for name in "abc":
        assert [one for one in got if one.pubend == name] == [one for one in put if one.pubend == name]


def test_a_queue_holds_at_least_a_byte() -> None:
    with pytest.raises(StreamError, match="capacity_bytes"):
        LinkQueue(0)
    queue = LinkQueue(1_000)
    queue.offer(data("p", 1))
    queue.clear()
    assert queue.take() is None
    assert queue.bytes == 0
