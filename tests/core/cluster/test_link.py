"""One direction of a link: numbers, acknowledgements, window, sending again."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from penstock import limits
from penstock.core.cluster.frames import Ack, Data, decode_frame
from penstock.core.cluster.link import LinkReceiver, LinkSender


def numbers(frames: list[bytes]) -> list[int]:
    found = [decode_frame(frame) for frame in frames]
    assert all(isinstance(one, Data) for one in found)
    return [one.number for one in found if isinstance(one, Data)]


def test_frames_are_numbered_from_one_and_kept_until_acknowledged() -> None:
    sender = LinkSender()
    sent = [sender.send(b"x", now_us=0) for _ in range(3)]
    assert numbers(sent) == [1, 2, 3]
    assert sender.acknowledged_upto == 0
    sender.acknowledged(Ack(2, 1_000), now_us=500)
    assert (sender.acknowledged_upto, sender.in_flight) == (2, 1)
    assert sender.round_trip_us == 500


def test_no_more_is_on_its_way_than_the_other_end_takes() -> None:
    sender = LinkSender(window_bytes=100)
    assert sender.room == 100
    sender.send(b"x" * 200, now_us=0)  # a frame larger than the window goes alone
    assert sender.room == 0
    sender.acknowledged(Ack(1, 40), now_us=1)
    assert sender.room == 40  # the other end takes less now
    sender.send(b"", now_us=1)
    sender.acknowledged(Ack(2, 1 << 30), now_us=1)
    assert sender.room == 100  # and never more than this node allows


def test_frames_are_sent_again_when_nothing_is_heard_of_them_with_growing_pauses() -> None:
    sender = LinkSender()
    assert sender.timer() is None
    sender.send(b"a", now_us=0)
    sender.send(b"b", now_us=0)
    due = sender.timer()
    assert due == limits.CLUSTER_RETRY_LEAST_US
    assert sender.retry(now_us=due - 1) == []
    assert numbers(sender.retry(now_us=due)) == [1, 2]
    later = sender.timer()
    assert later is not None
    assert later - due == 2 * limits.CLUSTER_RETRY_LEAST_US
    times = [later]
    for _ in range(20):
        sender.retry(now_us=times[-1])
        times.append(sender.timer() or 0)
    last = times[-1]
    assert last - times[-2] == limits.CLUSTER_RETRY_MOST_US
    sender.acknowledged(Ack(2, 1_000), now_us=last)
    assert sender.timer() is None
    assert sender.round_trip_us == 0  # an answer to frames sent twice tells nothing


def test_a_renewed_connection_begins_with_what_is_not_acknowledged() -> None:
    sender = LinkSender()
    for body in (b"a", b"b", b"c"):
        sender.send(body, now_us=0)
    sender.acknowledged(Ack(1, 1_000), now_us=0)
    assert numbers(sender.renewed(now_us=9)) == [2, 3]
    assert sender.resent == 2


def came(receiver: LinkReceiver[int], number: int, size: int = 10) -> list[int]:
    return [] if receiver.knows(number) else receiver.takes(number, number, size)


def test_a_receiver_takes_each_frame_once_and_in_order() -> None:
    receiver: LinkReceiver[int] = LinkReceiver()
    assert came(receiver, 1) == [1]
    assert came(receiver, 1) == []
    assert came(receiver, 4) == came(receiver, 3) == came(receiver, 3) == []
    assert receiver.upto == 1
    assert came(receiver, 2) == [2, 3, 4]
    assert came(receiver, 4) == []
    assert receiver.upto == 4
    assert receiver.repeated == 3


def test_a_receiver_keeps_no_more_early_frames_than_a_window() -> None:
    receiver: LinkReceiver[int] = LinkReceiver(window_bytes=100)
    assert came(receiver, 2, 60) == came(receiver, 3, 60) == came(receiver, 4, 40) == []
    assert came(receiver, 1 + limits.CLUSTER_EARLY_FRAMES, 0) == []
    assert came(receiver, 1, 500) == [1, 2]
    assert came(receiver, 3, 100) == [3, 4]
    assert came(receiver, 6, 100) == []  # there is room again
    assert came(receiver, 5) == [5, 6]


def test_a_receiver_asks_for_what_is_missing_and_not_too_often() -> None:
    receiver: LinkReceiver[int] = LinkReceiver()
    came(receiver, 1)
    receiver.acknowledgement(1)
    assert receiver.ask(now_us=0) is None
    came(receiver, 4)
    asked = receiver.reply(4, now_us=0)
    assert asked is not None
    assert (asked.upto, asked.missing) == (1, (2, 3))
    came(receiver, 6)
    assert receiver.reply(6, now_us=limits.CLUSTER_ASK_US - 1) is None
    assert receiver.reply(6, now_us=limits.CLUSTER_ASK_US) == asked
    again = receiver.reply(1, now_us=0)
    assert again is not None
    assert again.missing is None
    came(receiver, 3)
    came(receiver, 2)
    behind = receiver.ask(now_us=limits.CLUSTER_ASK_US)  # the next gap, at once
    assert behind is not None
    assert behind.missing == (5, 5)


def test_a_frame_that_comes_again_is_not_acknowledged_before_it_is_handled() -> None:
    receiver: LinkReceiver[int] = LinkReceiver()
    came(receiver, 1)
    again = receiver.reply(1, now_us=0)
    assert again is not None
    assert again.upto == 0
    assert receiver.acknowledgement(1).upto == 1


def test_a_sender_sends_the_frames_again_that_are_missing_and_no_others() -> None:
    sender = LinkSender()
    for body in (b"a", b"b", b"c", b"d"):
        sender.send(body, now_us=0)
    assert numbers(sender.acknowledged(Ack(1, 1_000, missing=(2, 3)), now_us=1)) == [2, 3]
    assert numbers(sender.acknowledged(Ack(3, 1_000, missing=(2, 3)), now_us=1)) == []
    assert sender.resent == 2


def test_a_network_that_reorders_costs_little_more_than_one_that_does_not() -> None:
    """Each frame is late by as many as thirty others: none is sent again more than a few times."""
    sender, receiver = LinkSender(window_bytes=1 << 20), LinkReceiver[int]()
    dice = Random(7)
    wire: list[tuple[int, int, bytes | Ack]] = []
    taken: list[int] = []

    def post(now_us: int, what: bytes | Ack) -> None:
        heappush(wire, (now_us + dice.randrange(30_000), dice.getrandbits(32), what))

    for turn in range(2_000):
        now_us = turn * 1_000
        post(now_us, sender.send(b"x", now_us=now_us))
        while wire and wire[0][0] <= now_us:
            what = heappop(wire)[2]
            if isinstance(what, Ack):
                for frame in sender.acknowledged(what, now_us=now_us):
                    post(now_us, frame)
                continue
            (number,) = numbers([what])
            found = came(receiver, number)
            taken += found
            if found:
                post(now_us, receiver.acknowledgement(receiver.upto))
            reply = receiver.ask(now_us=now_us) if found else receiver.reply(number, now_us=now_us)
            if reply is not None:
                post(now_us, reply)
    assert taken == list(range(1, len(taken) + 1))
    assert len(taken) > 1_900
    assert sender.resent < 3 * 2_000


def test_an_acknowledgement_of_frames_never_sent_changes_nothing() -> None:
    sender = LinkSender()
    sender.send(b"a", now_us=0)
    assert sender.acknowledged(Ack(7, 0, missing=(1, 7)), now_us=1) == []
    assert sender.in_flight == 1
    assert sender.room > 0
