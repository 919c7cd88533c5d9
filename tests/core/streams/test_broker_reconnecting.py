"""A link above comes back: what was asked for on it is asked for again, at once and once."""

from __future__ import annotations

import pytest

from penstock.core.streams import MemoryLog, StreamBroker, StreamOptions
from penstock.core.streams.messages import Ack, Data, Nack, Query
from penstock.errors import StreamError

S = 1_000_000


def middle() -> StreamBroker:
    node = StreamBroker("IB", StreamOptions())
    node.follow("p", "PB")
    node.attach("p", "SB1")
    node.attach("p", "SB2")
    return node


def nacks(node: StreamBroker) -> list[tuple[str, Nack]]:
    return [(peer, one) for peer, one in node.outgoing() if isinstance(one, Nack)]


def test_what_those_below_lack_is_asked_for_again() -> None:
    node = middle()
    node.receive(Nack("p", ((10, 20),)), peer="SB1", now_us=S)
    node.receive(Nack("p", ((15, 30), (40, 50))), peer="SB2", now_us=S)
    assert sum(until - since for _, one in nacks(node) for since, until in one.spans) == 30
    node.receive(Data("p", 10, 19, b"x"), peer="PB", now_us=S)
    node.outgoing()
    node.again("p", now_us=S + 1)
    assert nacks(node) == [("PB", Nack("p", ((20, 30), (40, 50))))]


def test_without_anybody_who_lacks_something_nothing_is_asked() -> None:
    node = middle()
    node.receive(Data("p", 0, 9, b"x"), peer="PB", now_us=S)
    node.again("p", now_us=S)
    assert nacks(node) == []


def test_a_stream_can_come_from_another_side() -> None:
    node = middle()
    node.move("p", "SB2")
    node.receive(Data("p", 0, 9, b"x"), peer="SB2", now_us=S)
    assert [peer for peer, _ in node.outgoing()] == ["SB1"]
    with pytest.raises(StreamError, match="no link to 'PB'"):
        node.receive(Data("p", 10, 19, b"x"), peer="PB", now_us=S)


def test_a_stream_of_ones_own_stays() -> None:
    node = StreamBroker("PB", StreamOptions())
    node.host("p", MemoryLog(), now_us=S)
    with pytest.raises(StreamError, match="itself"):
        node.move("p", "IB")


def test_nobody_waits_for_a_link_that_is_detached() -> None:
    node = middle()
    relay = node.relay("p")
    node.receive(Ack("p", 7), peer="SB1", now_us=S)
    assert relay.acked() is None
    node.detach("p", "SB2")
    assert relay.acked() == 7


def test_a_neighbour_may_have_the_name_of_an_end() -> None:
    node = middle()
    node.attach("p", "main")
    node.subscribe("p", "main", start=0)
    node.receive(Query("p", 1, 0), peer="PB", now_us=S)
    assert sorted(peer for peer, one in node.outgoing() if isinstance(one, Query)) == ["SB1", "SB2", "main"]
