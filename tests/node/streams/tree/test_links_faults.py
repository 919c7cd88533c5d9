"""Links cut and slowed at random moments: each subscriber gets all messages once and in order."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.core.streams import StreamOptions
from penstock.node.config import streams
from tests.kit.stream_trees import LISTENS, at, links, tree
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.client import Client
    from tests.kit.stream_nodes import WithStreams
    from tests.kit.stream_trees import Tree

STREAMS = ("a", "b", "c")
MESSAGES = 150
"""Of each stream."""
FREE: dict[str, Any] = {"publisher_control": "off"}
"""Publishers are not slowed, which would take longer than the test."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(StreamOptions, query_us=100_000, silence_us=100_000, retry_us=200_000)
    monkeypatch.setattr(streams, "StreamOptions", quick)
    monkeypatch.setattr(limits, "STREAM_CALL_LEAST_S", 0.02)
    monkeypatch.setattr(limits, "STREAM_CALL_MOST_S", 0.1)


def reconnects(nodes: Tree) -> int:
    """Links that were made again, counted at both ends."""
    return sum(row.reconnects for node in nodes.nodes.values() for row in links(node).figures())


async def break_things(nodes: Tree, dice: Random, over: asyncio.Event) -> None:
    """Cut a link, or leave one slow for a moment; some are cut, however quick the publishers are."""
    while not over.is_set() or reconnects(nodes) <= 3:
        await asyncio.sleep(dice.uniform(0.01, 0.08))
        name = dice.choice(("PB", "IB", "SB1", "SB2"))
        known = dice.choice(list(links(nodes.nodes[name])._known.values()))
        if dice.random() < 0.5:
            known.link.end("cut at random")
        else:
            rate = dice.choice((0.0, 20_000.0, 200_000.0))
            known.link.change(bytes_per_s=rate, enabled=True)


async def publish(client: Client, stream: str, dice: Random) -> None:
    for number in range(MESSAGES):
        await client.publish(f"{stream}/x", f"{stream} {number}".encode(), qos=1)
        if dice.random() < 0.1:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", range(2))
async def test_everything_comes_once_and_in_order(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)
    async with tree() as nodes:
        hosted = [{"name": name, "topics": [f"{name}/#"]} for name in STREAMS]
        pb = await nodes.add("PB", host=hosted, listen=LISTENS, neighbours=[{"name": "IB"}], **FREE)
        ib = await nodes.add(
            "IB",
            settings={"data": tmp_path / "IB"},
            listen=LISTENS,
            neighbours=[at(pb, "PB"), {"name": "SB1"}, {"name": "SB2"}],
            cache_bytes=2_000,
            **FREE,
        )
        for name in ("SB1", "SB2"):
            await nodes.add(name, neighbours=[at(ib, "IB", queue_bytes=4_000)], **FREE)
        await until(lambda: all(len(one.streams.directory.known) == 3 for one in nodes.nodes.values()))
        got = {name: await nodes.subscriber(name, "#") for name in ("PB", "SB1", "SB2")}
        over = asyncio.Event()
        breaking = asyncio.create_task(break_things(nodes, dice, over))
        clients = [await nodes.client("PB") for _ in STREAMS]
        await asyncio.gather(*map(publish, clients, STREAMS, [dice] * 3))
        over.set()
        await breaking
        for node in nodes.nodes.values():
            for known in links(node)._known.values():
                known.link.change(bytes_per_s=0.0, enabled=True)
        count = len(STREAMS) * MESSAGES
        await until(lambda: all(len(one) >= count for one in got.values()), within_s=120)
        assert reconnects(nodes) > 3
        for name, each in got.items():
            for stream in STREAMS:
                mine = [one for one in each if one.startswith(stream.encode())]
                assert mine == [f"{stream} {number}".encode() for number in range(MESSAGES)], name


@pytest.mark.slow
@pytest.mark.parametrize("remembers", [True, False])
async def test_a_node_in_the_middle_starts_again_and_again(tmp_path: Path, remembers: bool) -> None:
    async with tree() as nodes:
        hosted = [{"name": name, "topics": [f"{name}/#"]} for name in STREAMS]
        pb = await nodes.add("PB", host=hosted, listen=LISTENS, neighbours=[{"name": "IB"}], **FREE)

        async def middle(port: int) -> WithStreams:
            return await nodes.add(
                "IB",
                settings={"data": tmp_path if remembers else None},
                listen={"enabled": True, "port": port},
                neighbours=[at(pb, "PB"), {"name": "SB"}],
                **FREE,
            )

        there = at(await middle(0), "IB")
        sb = await nodes.add("SB", neighbours=[there], **FREE)
        await until(lambda: len(sb.streams.directory.known) == 3)
        got = await nodes.subscriber("SB", "#")
        dice = Random(1)
        clients = [await nodes.client("PB") for _ in STREAMS]
        publishing = asyncio.gather(*map(publish, clients, STREAMS, [dice] * 3))
        for _ in range(3):
            await asyncio.sleep(0.1)
            await nodes.stop("IB")
            await asyncio.sleep(0.05)
            await middle(there["port"])
        await publishing
        await until(lambda: len(got) >= len(STREAMS) * MESSAGES, within_s=120)
        for stream in STREAMS:
            mine = [one for one in got if one.startswith(stream.encode())]
            assert mine == [f"{stream} {number}".encode() for number in range(MESSAGES)]
