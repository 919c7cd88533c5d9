"""The small machines a client is made of."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.client.receipts import Receipts
from penstock.client.sending import common_topic
from penstock.client.transport import read_address
from penstock.core.backoff import pauses_s
from penstock.model.event import stamped
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.topics import matches, overlap


def test_addresses() -> None:
    assert str(read_address("mqtt://h")) == "mqtt://h:1883"
    assert str(read_address("mqtts://[::1]/")) == "mqtts://[::1]:8883"
    assert str(read_address("ws://h:8000")) == "ws://h:8000/mqtt"
    assert str(read_address("wss://h/ws/mqtt")) == "wss://h:443/ws/mqtt"


def test_pauses_grow_to_a_bound_and_are_not_all_alike() -> None:
    found = list(islice(pauses_s(Random(1)), 12))
    bounds = [min(limits.RECONNECT_LEAST_S * 2**n, limits.RECONNECT_MOST_S) for n in range(12)]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(found, bounds, strict=True))
    assert len(set(found)) == 12


levels = st.sampled_from(["a", "b", ""])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    found = draw(st.lists(st.sampled_from(["a", "b", "", "+"]), min_size=1, max_size=4))
    if draw(st.booleans()):
        found.append("#")
    return "/".join(found) or "#"


@given(filters(), filters(), topics)
def test_filters_with_a_topic_in_common_overlap(one: str, other: str, topic: str) -> None:
    if matches(one, topic) and matches(other, topic):
        assert overlap(one, other)
    assert overlap(one, other) == overlap(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [("a", "b"), ("a/+", "a"), ("a/+/c", "a/b/d"), ("$share/g/a", "$share/g/b")]
)
def test_filters_that_have_nothing_in_common(one: str, other: str) -> None:
    assert not overlap(one, other)


def test_a_topic_for_several() -> None:
    assert common_topic("ward/1/pulse", "ward/2/pulse") == "ward/*/pulse"
    assert common_topic("ward/*/pulse", "ward/3/spo2") == "ward/*/*"
    assert common_topic("ward/1", "ward/1/pulse") == "ward/1/*"
    assert common_topic("a", "b/c") == "*"
    assert common_topic("a/b", "a/b") == "a/b"


class Owed:
    """Receipts, and what they acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.receipts = Receipts(self.acknowledged.append)


def message(packet_id: int, *, qos: int = 1, dup: bool = False, tick: int = 0) -> Publish:
    user = stamped((), "s", tick) if tick else ()
    return Publish("a", qos=qos, dup=dup, packet_id=packet_id, properties=Properties(user=user))


def test_a_message_is_acknowledged_when_the_last_has_taken_it() -> None:
    owed = Owed()
    receipt = owed.receipts.arrived(message(1))
    assert receipt is not None
    receipt.holders = 2
    owed.receipts.taken(receipt)
    assert owed.acknowledged == []
    owed.receipts.taken(receipt)
    assert owed.acknowledged == [1]
    assert len(owed.receipts) == 0


def test_a_message_that_comes_again_is_known() -> None:
    owed = Owed()
    waiting, taken = owed.receipts.arrived(message(1)), owed.receipts.arrived(message(2))
    assert waiting is not None
    assert taken is not None
    waiting.holders = taken.holders = 1
    owed.receipts.detached()
    owed.receipts.taken(taken)  # nobody to tell
    assert owed.acknowledged == []
    assert owed.receipts.arrived(message(2, dup=True)) is None
    assert owed.acknowledged == [2]
    assert owed.receipts.arrived(message(1, dup=True)) is None
    owed.receipts.taken(waiting)
    assert owed.acknowledged == [2, 1]


def test_a_message_of_a_stream_is_known_by_its_tick() -> None:
    owed = Owed()
    waiting = owed.receipts.arrived(message(1, tick=7))
    assert waiting is not None
    waiting.holders = 1
    owed.receipts.detached()
    # The node was killed: it gives the number to another message, which has to come twice to be here.
    other = owed.receipts.arrived(message(1, dup=True, tick=6))
    assert other not in (None, waiting)
    assert owed.receipts.arrived(message(2, tick=7)) is waiting
    owed.receipts.taken(waiting)
    assert owed.acknowledged == [2], "it is acknowledged when it is taken, by the number it has now"
    assert len(owed.receipts) == 1


def test_a_message_of_a_stream_that_was_taken_comes_again_under_another_number() -> None:
    owed = Owed()
    taken = owed.receipts.arrived(message(1, tick=7))
    assert taken is not None
    taken.holders = 1
    owed.receipts.detached()
    owed.receipts.taken(taken)
    assert owed.acknowledged == []
    assert owed.receipts.arrived(message(1, dup=True)) is not None, "an ordinary one has the number now"
    assert owed.receipts.arrived(message(2, tick=7)) not in (None, taken)
    assert owed.acknowledged == []


def test_a_number_that_is_used_again_is_a_new_message() -> None:
    owed = Owed()
    receipt = owed.receipts.arrived(message(1))
    assert receipt is not None
    receipt.holders = 1
    owed.receipts.detached()
    owed.receipts.taken(receipt)
    assert owed.receipts.arrived(message(1)) is not None  # not DUP: the node has forgotten the first
    owed.receipts.forget()
    assert owed.receipts.arrived(message(1, dup=True)) is not None
