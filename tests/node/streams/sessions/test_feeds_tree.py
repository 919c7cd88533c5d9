"""Sessions at a node that does not host the stream: what they miss comes over the tree, as they take it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.streams import StreamOptions
from penstock.node.config import streams
from tests.kit.stream_trees import chain
from tests.kit.waiting import until

if TYPE_CHECKING:
    from typing import Any

    from tests.kit.stream_nodes import WithStreams
    from tests.kit.stream_trees import Tree

KEPT: dict[str, Any] = {"clean": False, "session_expiry_s": 1000}


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries, silence and calls ten times as often as in earnest."""
    quick = partial(StreamOptions, query_us=100_000, silence_us=100_000)
    monkeypatch.setattr(streams, "StreamOptions", quick)
    monkeypatch.setattr(limits, "STREAM_CALL_LEAST_S", 0.05)
    monkeypatch.setattr(limits, "STREAM_CALL_MOST_S", 0.2)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def publish(nodes: Tree, first: int, end: int) -> None:
    client = await nodes.client("PB")
    for payload in numbers(first, end):
        await client.publish("orders/new", payload, qos=2)


def feeds(node: WithStreams) -> int:
    assert node.streams.subscriptions is not None
    return len(node.streams.subscriptions._streams["orders"]._feeding)


@pytest.mark.parametrize("qos", [1, 2])
async def test_slow_sessions_and_those_that_were_away_catch_up(
    qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_READ", 10)  # so that feeds pause
    monkeypatch.setattr(limits, "STREAM_FEEDS", 1)  # and give way
    async with chain() as nodes:
        there = nodes.nodes["SB"]
        slow = await there.connect("slow", receive_maximum=2, **KEPT)
        await slow.subscribe("orders/#", qos=qos)
        away = await there.connect("away", **KEPT)
        await away.subscribe("orders/#", qos=qos)
        away.abort()
        await until(lambda: there.streams.status().streams[0].readers.away == 1)
        await publish(nodes, 0, 120)
        away = await there.connect("away", **KEPT)
        assert await away.payloads(120) == numbers(0, 120)
        assert await slow.payloads(120) == numbers(0, 120)
        await publish(nodes, 120, 125)
        for peer in (slow, away):
            assert await peer.payloads(5) == numbers(120, 125)
            await peer.settled()
        await until(lambda: not feeds(there))
        figures = there.streams.status().streams[0].readers
        assert (figures.live, figures.catching_up, figures.missed) == (2, 0, 0)


async def test_an_early_start_comes_from_the_node_that_hosts_the_stream() -> None:
    async with chain() as nodes:
        await publish(nodes, 0, 50)
        peer = await nodes.nodes["SB"].connect("s")
        await peer.subscribe("orders/#", qos=1, user=(("start", "earliest"),))
        assert await peer.payloads(50) == numbers(0, 50)
        await publish(nodes, 50, 51)
        assert await peer.payloads(1) == [b"50"]
        assert nodes.nodes["SB"].streams.status().streams[0].readers.missed == 0
