"""The lane of a link for events of reserved slots."""

from __future__ import annotations

from penstock.core.cluster.copies import Outgoing
from penstock.core.cluster.reserved import ReservedLane
from penstock.model.event import Event


def outgoing(seq: int, size: int = 10) -> Outgoing:
    return Outgoing(Event("a", b"", seq, seq=seq), bytes(size), number=seq)


def lane_with(*positions: int) -> ReservedLane:
    lane = ReservedLane()
    for seq, position in enumerate(positions, start=1):
        assert lane.offer(outgoing(seq), position, most_events=9, most_bytes=900)
    return lane


def numbers(taken: list[tuple[int, Outgoing]]) -> list[int]:
    return [out.number for _, out in taken]


def test_a_full_lane_takes_no_event_by_number_or_by_bytes() -> None:
    lane = lane_with(5, 5)
    assert not lane.offer(outgoing(3), 5, most_events=2, most_bytes=900)
    assert not lane.offer(outgoing(3), 5, most_events=3, most_bytes=29)
    assert lane.offer(outgoing(3), 5, most_events=3, most_bytes=30)
    assert (len(lane), lane.bytes) == (3, 30)


def test_events_leave_in_order_as_many_as_fit_and_at_least_one() -> None:
    lane = lane_with(1, 1, 1, 1)
    assert numbers(lane.take(1)) == [1]
    assert numbers(lane.take(20)) == [2, 3]
    assert numbers(lane.take(900)) == [4]
    assert (lane.take(900), len(lane), lane.bytes) == ([], 0, 0)


def test_the_oldest_position_is_unsettled_until_its_event_has_landed() -> None:
    lane = lane_with(3, 5, 8)
    assert lane.unsettled == 3
    first, rest = lane.take(10), lane.take(900)
    assert lane.unsettled == 3
    lane.landed(len(first))
    assert lane.unsettled == 5
    lane.landed(len(rest))
    assert lane.unsettled is None


def test_events_that_come_back_leave_first_again() -> None:
    lane = lane_with(3, 5, 8)
    first, second = lane.take(10), lane.take(10)
    lane.give_back(second)
    lane.give_back(first)
    assert (len(lane), lane.bytes, lane.unsettled) == (3, 30, 3)
    assert numbers(lane.take(900)) == [1, 2, 3]


def test_the_lane_of_a_node_that_is_gone_is_empty() -> None:
    lane = lane_with(3, 5, 8)
    lane.take(10)
    assert (lane.abandon(), len(lane), lane.bytes, lane.unsettled) == (2, 0, 0, None)
