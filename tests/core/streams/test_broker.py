"""All parts of a node together: one alone, and two that talk."""

from __future__ import annotations

import pytest

from penstock.core.streams import Acknowledged, Delivered, MemoryLog, StreamBroker, StreamOptions
from penstock.core.streams.messages import Ack, Data, Query
from penstock.errors import StreamError

START_US = 10_000_000


def publish(node: StreamBroker, log: MemoryLog, count: int, *, now_us: int) -> None:
    pubend = node.pubend("p")
    for number in range(count):
        pubend.publish(b"%d" % number, now_us=now_us)
    until, claimed = log.commit()
    pubend.committed(until, claimed=claimed, now_us=now_us)
    node.changed("p", now_us=now_us)


def bodies(node: StreamBroker, stream: str = "all") -> list[bytes]:
    return [event.body for event in node.events() if isinstance(event, Delivered) and event.stream == stream]


def test_one_node_may_be_everything() -> None:
    node, log = StreamBroker("n", StreamOptions()), MemoryLog()
    node.host("p", log, now_us=START_US)
    node.subscribe("p", "all", start=None)
    publish(node, log, 5, now_us=START_US + 1_000)
    events = node.events()
    assert [event.body for event in events if isinstance(event, Delivered)] == [b"%d" % n for n in range(5)]
    assert sum(isinstance(event, Acknowledged) for event in events) == 5
    assert node.outgoing() == []
    found = node.statistics()["p"]
    assert found.pubend is not None
    assert (found.pubend.published, found.subends["all"].delivered) == (5, 5)


def test_one_that_comes_later_catches_up_from_the_cache_and_the_log_without_slowing_anybody() -> None:
    options = StreamOptions(cache_us=1_000)
    node, log = StreamBroker("n", options), MemoryLog()
    node.host("p", log, now_us=START_US)
    node.subscribe("p", "all")
    for second in range(20):
        publish(node, log, 10, now_us=START_US + second * 1_000_000)
    assert len(bodies(node)) == 200
    start = log.read(0, 1 << 60, 1)
    assert start is not None
    node.subscribe("p", "late", start=start[0][0], alerts=False)
    now_us = START_US + 20_000_000
    publish(node, log, 1, now_us=now_us)
    got = bodies(node, "late")
    for _ in range(200):
        now_us = max(now_us + 1_000, node.timer() or 0)
        node.on_timer(now_us=now_us)
        got += bodies(node, "late")
    assert len(got) == 201
    node.unsubscribe("p", "late")
    publish(node, log, 1, now_us=now_us)
    assert bodies(node, "late") == []


def test_two_nodes_and_what_is_processed_leaves_the_log() -> None:
    options = StreamOptions()
    above, below, log = StreamBroker("above", options), StreamBroker("below", options), MemoryLog()
    above.host("p", log, now_us=START_US)
    above.attach("p", "below")
    below.follow("p", "above")
    subend = below.subscribe("p", "all", start=0)
    now_us = START_US
    for _ in range(5):
        now_us += 1_000_000
        publish(above, log, 3, now_us=now_us)
        above.on_timer(now_us=now_us)
        for _ in range(3):
            for peer, message in above.outgoing():
                assert peer == "below"
                below.receive(message, peer="above", now_us=now_us)
            subend.acknowledge(subend.horizon)
            for peer, message in below.outgoing():
                assert peer == "above"
                above.receive(message, peer="below", now_us=now_us)
    assert len(bodies(below)) == 15
    assert len(log) < 15
    assert above.pubend("p").acked > 0


def test_what_a_node_does_not_know_is_refused() -> None:
    node = StreamBroker("n", StreamOptions())
    with pytest.raises(StreamError, match="no stream 'p'"):
        node.receive(Query("p", 1, 1), peer="x", now_us=0)
    node.follow("p", "up")
    with pytest.raises(StreamError, match="already"):
        node.follow("p", "up")
    with pytest.raises(StreamError, match="not hosted"):
        node.pubend("p")
    with pytest.raises(StreamError, match="no link to 'x'"):
        node.receive(Ack("p", 1), peer="x", now_us=0)
    node.subscribe("p", "all")
    with pytest.raises(StreamError, match="an end 'all'"):
        node.subscribe("p", "all")
    node.receive(Data("p", 5, 9, b"x"), peer="up", now_us=0)
    assert bodies(node) == [b"x"]
    assert node.relay("p").acked() is None
