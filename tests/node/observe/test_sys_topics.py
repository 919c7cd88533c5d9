"""The $SYS topics: every figure under its name, published when it changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.node.broker.status import Account, BrokerStatus, StoreStatus
from penstock.node.observe.status import NodeStatus
from penstock.node.observe.sys_topics import ROOT, Load, SysTopics

SECOND = 1_000_000

BROKER = BrokerStatus(
    version="1.2.3",
    started_us=0,
    now_us=90 * SECOND,
    connections=3,
    sessions=5,
    subscriptions=7,
    retained=2,
    retained_bytes=20,
    messages_received=100,
    messages_sent=300,
    bytes_received=1_000,
    bytes_sent=3_000,
    refused={"address limit": 4},
    unrouted=6,
    departed=Account(accepted=10, delivered=5, digested=3, queued=0, abandoned=1),
    clients=(),
)
STATUS = NodeStatus(BROKER)


class Node:
    """A status that can be changed, and what was published."""

    def __init__(self) -> None:
        self.now = STATUS
        self.published: list[tuple[str, bytes, bool]] = []

    def status(self) -> NodeStatus:
        return self.now

    def publish(self, topic: str, payload: bytes, /, *, qos: int = 0, retain: bool = False) -> None:
        assert qos == 0
        self.published.append((topic, payload, retain))


def topics(node: Node) -> SysTopics:
    """Topics of that node."""
    return SysTopics(node.status, node.publish)


def changed(**facts: Any) -> NodeStatus:
    from msgspec.structs import replace  # noqa: PLC0415

    return NodeStatus(replace(BROKER, **facts))


def test_every_figure_has_its_topic() -> None:
    found = topics(Node()).figures(STATUS)
    assert {name: text for name, text in found.items() if not name.startswith("load/")} == {
        "version": "penstock 1.2.3",
        "uptime": "90 seconds",
        "clients/connected": "3",
        "clients/disconnected": "2",
        "clients/total": "5",
        "clients/maximum": "3",
        "subscriptions/count": "7",
        "retained messages/count": "2",
        "retained messages/bytes": "20",
        "publish/messages/received": "100",
        "publish/messages/sent": "300",
        "publish/messages/unrouted": "6",
        "bytes/received": "1000",
        "bytes/sent": "3000",
        "account/accepted": "10",
        "account/delivered": "5",
        "account/digested": "3",
        "account/counted": "0",
        "account/oversized": "0",
        "account/queued": "0",
        "account/abandoned": "1",
        "account/unaccounted": "1",
        "refused/address-limit": "4",
        "faults": "0",
    }
    assert {name for name in found if name.startswith("load/")} == {
        f"load/{what}/{way}/{span}min"
        for what in ("publish", "bytes")
        for way in ("received", "sent")
        for span in (1, 5, 15)
    }


def test_a_store_that_cannot_be_written_is_among_the_figures() -> None:
    store = StoreStatus(fault="no space left", rows=5, answers=2)
    found = topics(Node()).figures(changed(store=store))
    assert found["faults"] == "1"
    assert [found[f"store/{name}"] for name in ("stopped", "rows waiting", "answers waiting")] == [
        "1",
        "5",
        "2",
    ]


def test_what_has_not_changed_is_not_published_again() -> None:
    node = Node()
    published = topics(node)
    published.publish()
    assert all(topic.startswith(ROOT) and retain for topic, _, retain in node.published)
    assert len({topic for topic, _, _ in node.published}) == len(node.published)
    node.published.clear()
    published.publish()
    assert node.published == []
    node.now = changed(connections=1)
    published.publish()
    assert (ROOT + "clients/connected", b"1", True) in node.published
    assert [topic for topic, _, _ in node.published if topic.endswith("clients/maximum")] == []


def test_they_are_published_at_every_interval() -> None:
    node = Node()

    async def scenario() -> None:
        running = asyncio.create_task(topics(node).run(0.01))
        async with asyncio.timeout(120):
            while not any(payload == b"91 seconds" for _, payload, _ in node.published):
                await asyncio.sleep(0.01)
                node.now = changed(now_us=91 * SECOND)
        running.cancel()

    asyncio.run(scenario())
    assert (ROOT + "uptime", b"90 seconds", True) in node.published


def test_loads_approach_the_rate_the_short_ones_sooner() -> None:
    load = Load()
    assert load.take(0, now_us=0) == [0, 0, 0]
    for minute in range(1, 4):
        averages = load.take(600 * minute, now_us=60 * SECOND * minute)
    assert averages == sorted(averages, reverse=True)
    assert 500 < averages[0] < 600
    for minute in range(4, 200):
        averages = load.take(600 * minute, now_us=60 * SECOND * minute)
    assert averages == pytest.approx([600, 600, 600], rel=0.01)
    assert load.take(600 * 199, now_us=60 * SECOND * 199) == averages
