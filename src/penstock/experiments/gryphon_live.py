"""The paper's simple tree between real processes on loopback: PB, IB, SB1 and SB2, sampled once a second.

    publishers ──► PB ──► IB ──┬──► SB1 ──► subscribers
                               └──► SB2 ──► subscribers

Four `penstock up` with files of their own; publishers and subscribers are MQTT clients. Links are slowed and
cut by the nodes' configuration, which is read again. Rates are scaled down from the paper's, times too.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from penstock.client.local_node import local_node
from penstock.core.streams import record
from penstock.core.streams.messages import Data
from penstock.core.streams.tick import TICKS_PER_S, tick_at
from penstock.core.streams.wire import encode
from penstock.errors import NodeError
from penstock.experiments.gryphon_live_clients import LEAVES, Clients
from penstock.sim.streams_gryphon import PAYLOAD, PUBENDS, Played, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.client.local_node import LocalNode

RATE: Final = 200
"""Messages a second that all publishers want to publish; 500 in the paper."""
UP_S: Final = 20.0
"""A tree that is not connected by then never will be."""
DRAIN_S: Final = 20.0
"""What is on its way when publishing ends arrives by then, or never."""
CACHE_S: Final = 5
"""Of messages that IB keeps: less than a link is down, so that recovery has to come from PB."""

_NOW_US: Final = 1_800_000_000_000_000
MESSAGE_BYTES: Final = len(
    encode(
        Data(
            PUBENDS[0],
            tick_at(_NOW_US),
            tick_at(_NOW_US) + 20 * 1_024,
            record.encode(
                record.Record(f"live/{PUBENDS[0]}", bytes(PAYLOAD), _NOW_US, "publisher p0", 1_000)
            ),
        )
    )
)
"""Of one message on a link, with everything that is sent about it."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is done to a link on the way."""

    second: int
    node: str
    """Which sends over it."""
    neighbour: str
    settings: Mapping[str, Any]
    """Of the link: `bytes_per_s`, `enabled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSetting:
    """One run."""

    seconds: int
    """At most."""
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Bytes a second from one node to another at the beginning; others are not limited."""
    changes: tuple[Change, ...] = ()
    stop: Callable[[list[Sample]], bool] | None = None
    """Ends the run early."""


def play(setting: LiveSetting, *, told: Callable[[int], None]) -> Played:
    """Start the nodes, run it, and end them; NodeError if they do not come up."""
    with TemporaryDirectory(prefix="penstock-") as folder, ExitStack() as stack:
        tree = _Tree(setting, Path(folder), stack)
        return asyncio.run(_Run(tree, setting, told).play())


class _Tree:
    """The processes."""

    def __init__(self, setting: LiveSetting, folder: Path, stack: ExitStack) -> None:
        self.nodes: dict[str, LocalNode] = {}
        self._links = dict(setting.links)
        self._configs: dict[str, dict[str, Any]] = {}
        hosted = [{"name": name, "topics": [f"live/{name}"]} for name in PUBENDS]
        for name in ("PB", *LEAVES):
            self._start(name, folder, stack, [{"name": "IB"}], hosted if name == "PB" else [])
        around = [
            {"name": name, "host": "127.0.0.1", "port": self.nodes[name].streams} for name in ("PB", *LEAVES)
        ]
        self._start("IB", folder, stack, around, [])

    def _start(
        self,
        name: str,
        folder: Path,
        stack: ExitStack,
        neighbours: list[dict[str, Any]],
        hosted: list[dict[str, Any]],
    ) -> None:
        for neighbour in neighbours:
            neighbour["bytes_per_s"] = self._links.get((name, neighbour["name"]), 0)
        self._configs[name] = {
            "data": str(folder / name),
            "streams": {
                "node": name,
                "host": hosted,
                "listen": {"enabled": name != "IB", "port": 0},
                "neighbours": neighbours,
                "cache_bytes": CACHE_S * RATE // len(PUBENDS) * MESSAGE_BYTES,
            },
        }
        self.nodes[name] = stack.enter_context(local_node(self._configs[name]))

    def change(self, one: Change) -> None:
        """Write a node's configuration anew, and let it read it."""
        config = self._configs[one.node]
        for neighbour in config["streams"]["neighbours"]:
            if neighbour["name"] == one.neighbour:
                neighbour.update(one.settings)
        self.nodes[one.node].reload(config)


class _Run:
    def __init__(self, tree: _Tree, setting: LiveSetting, told: Callable[[int], None]) -> None:
        self._tree = tree
        self._setting = setting
        self._told = told
        self._counts: dict[tuple[str, str], int] = {}

    async def play(self) -> Played:
        async with AsyncExitStack() as stack:
            web = await stack.enter_async_context(aiohttp.ClientSession())
            await self._connected(web)
            clients = Clients(self._tree.nodes, rate=RATE)
            await stack.enter_async_context(clients)
            samples = await self._sampled(web, clients)
            await clients.stop()
            problems = await clients.problems(within_s=DRAIN_S)
            down = {
                row["name"]: row["sent_bytes"]
                for node in ("PB", "IB")
                for row in (await self._ask(web, node))["neighbours"]
            }
        return Played(samples, [], down, problems)

    async def _connected(self, web: aiohttp.ClientSession) -> None:
        """Wait until all know all streams."""
        try:
            async with asyncio.timeout(UP_S):
                for name in self._tree.nodes:
                    while len((await self._ask(web, name))["streams"]) < len(PUBENDS):
                        await asyncio.sleep(0.1)
        except TimeoutError:
            raise NodeError(f"the four nodes were not connected within {UP_S:g} s") from None

    async def _sampled(self, web: aiohttp.ClientSession, clients: Clients) -> list[Sample]:
        changes = list(self._setting.changes)
        samples: list[Sample] = []
        await self._sample(web, -1)  # from here on, differences
        clients.start()
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        for second in range(self._setting.seconds):
            while changes and changes[0].second <= second:
                self._tree.change(changes.pop(0))
            await asyncio.sleep(max(0.0, start_s + second + 1 - loop.time()))
            samples.append(await self._sample(web, second))
            self._told(second)
            if self._setting.stop is not None and self._setting.stop(samples):
                break
        return samples

    async def _sample(self, web: aiohttp.ClientSession, second: int) -> Sample:
        names = list(self._tree.nodes)
        answers = await asyncio.gather(*(self._ask(web, name) for name in names))
        found = dict(zip(names, answers, strict=True))
        rows = {name: {row["name"]: row for row in answer["streams"]} for name, answer in found.items()}
        links = {
            row["name"]: row
            for node in ("PB", "IB")
            for row in found[node]["neighbours"]
            if row["name"] != "PB"
        }
        position = {pubend: rows["PB"][pubend]["position"] for pubend in PUBENDS}
        by_pubend = {
            leaf: tuple(self._more(leaf, pubend, rows[leaf][pubend]["delivered"]) for pubend in PUBENDS)
            for leaf in LEAVES
        }
        return Sample(
            second,
            tuple(self._more("PB", pubend, rows["PB"][pubend]["published"]) for pubend in PUBENDS),
            {leaf: sum(counts) for leaf, counts in by_pubend.items()},
            by_pubend,
            {name: row["queue_bytes"] for name, row in links.items()},
            {
                leaf: tuple(
                    self._more(f"horizon {leaf}", pubend, rows[leaf][pubend]["horizon"]) / TICKS_PER_S
                    for pubend in PUBENDS
                )
                for leaf in LEAVES
            },
            {
                leaf: tuple(
                    max(0, position[pubend] - rows[leaf][pubend]["horizon"]) / TICKS_PER_S
                    for pubend in PUBENDS
                )
                for leaf in LEAVES
            },
            {leaf: sum(rows[leaf][pubend]["recovering"] for pubend in PUBENDS) for leaf in LEAVES},
            {
                leaf: tuple(rows[leaf][pubend]["nack_window_ms"] / 1_000 for pubend in PUBENDS)
                for leaf in LEAVES
            },
            sum(row["dropped"] for row in links.values()),
        )

    def _more(self, where: str, pubend: str, count: int) -> int:
        before = self._counts.get((where, pubend), 0)
        self._counts[where, pubend] = count
        return count - before

    async def _ask(self, web: aiohttp.ClientSession, name: str) -> Any:
        url = f"{self._tree.nodes[name].http.rstrip('/')}/api/v1/streams"
        async with web.get(url, params={"limit": "100"}) as answer:
            return await answer.json()
