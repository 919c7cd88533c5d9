"""The paper's simple tree between real processes on loopback: PB, IB, SB1 and SB2, sampled once a second.

    publishers ──► PB ──► IB ──┬──► SB1 ──► subscribers
                               └──► SB2 ──► subscribers

Four `penstock up` with files of their own; publishers and subscribers are MQTT clients that number messages
and check the numbers. The experiment slows and cuts links by writing the nodes' configuration and reloading
it. Rates are scaled down from the paper's, times too.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp

from penstock.client import Client
from penstock.core.streams import wire
from penstock.core.streams.messages import Data
from penstock.core.streams.ticks import TICKS_PER_S, tick_at
from penstock.core.streams.wire import encode
from penstock.errors import NodeError
from penstock.model.event import Event
from penstock_lab.rigs.local_node import local_node
from penstock_lab.sim.streams.gryphon import PAYLOAD, PUBENDS, Played, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.client import Subscription
    from penstock_lab.rigs.local_node import LocalNode

LEAVES: Final = ("SB1", "SB2")
SUBSCRIBERS: Final = 2
"""Subscribers at each leaf."""
WINDOW_S: Final = 0.2
"""Seconds of messages that a publisher may have in flight, as in the paper."""


class Clients:
    """One publisher for each stream at PB, some subscribers of all streams at each leaf."""

    def __init__(self, nodes: Mapping[str, LocalNode], *, rate: int) -> None:
        self._nodes = nodes
        self._every_s = len(PUBENDS) / rate
        self._stack = AsyncExitStack()
        self._publishers: dict[str, Client] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing: list[asyncio.Task[None]] = []
        self.acknowledged = dict.fromkeys(PUBENDS, 0)
        """Messages acknowledged to the publisher, per stream."""
        self.got: dict[str, dict[str, list[int]]] = {}
        """Numbers of the messages received, per subscriber and stream."""

    async def __aenter__(self) -> Self:
        try:
            for pubend in PUBENDS:
                client = Client(self._nodes["PB"].url, client_id=f"publisher {pubend}")
                self._publishers[pubend] = await self._stack.enter_async_context(client)
            for leaf in LEAVES:
                for number in range(SUBSCRIBERS):
                    await self._subscribe(leaf, f"{leaf} subscriber {number + 1}")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    def start(self) -> None:
        """Start publishing."""
        self._publishing = [asyncio.create_task(self._publish(pubend)) for pubend in PUBENDS]

    async def stop(self) -> None:
        """Stop publishing; messages in flight are acknowledged or given up."""
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)

    async def problems(self, *, within_s: float) -> list[str]:
        """Return what subscribers got wrong, once all acknowledged messages have had time to arrive."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + within_s
        while loop.time() < end_s and not self._complete():
            await asyncio.sleep(0.1)
        return [
            problem
            for name, streams in self.got.items()
            for pubend in PUBENDS
            for problem in problems_of(name, pubend, streams[pubend], self.acknowledged[pubend])
        ]

    def _complete(self) -> bool:
        return all(
            len(streams[pubend]) >= self.acknowledged[pubend]
            for streams in self.got.values()
            for pubend in PUBENDS
        )

    async def _subscribe(self, leaf: str, name: str) -> None:
        client = await self._stack.enter_async_context(Client(self._nodes[leaf].url, client_id=name))
        self.got[name] = {pubend: [] for pubend in PUBENDS}
        subscription = await client.subscribe("live/+", qos=1)
        self._tasks.append(asyncio.create_task(self._listen(self.got[name], subscription)))

    async def _listen(self, got: dict[str, list[int]], subscription: Subscription) -> None:
        async for item in subscription:
            assert isinstance(item, Event)  # only events come: nothing of a stream is packed
            got[item.topic.removeprefix("live/")].append(int.from_bytes(item.payload[:4]))

    async def _publish(self, pubend: str) -> None:
        """Publish at the wanted rate with a bounded number in flight: held acknowledgements slow it down."""
        client = self._publishers[pubend]
        window = asyncio.Semaphore(max(1, round(WINDOW_S / self._every_s)))
        under_way: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        number = 0
        try:
            while True:
                await window.acquire()
                task = asyncio.create_task(self._send(client, pubend, number, window))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                number += 1
                due_s = max(due_s + self._every_s, loop.time() - WINDOW_S)
                await asyncio.sleep(max(0.0, due_s - loop.time()))
        finally:
            await asyncio.wait(under_way, timeout=10) if under_way else None
            for task in list(under_way):
                task.cancel()

    async def _send(self, client: Client, pubend: str, number: int, window: asyncio.Semaphore) -> None:
        payload = number.to_bytes(4) + bytes(PAYLOAD - 4)
        await client.publish(f"live/{pubend}", payload, qos=1)
        self.acknowledged[pubend] = max(self.acknowledged[pubend], number + 1)
        window.release()

    async def _close(self) -> None:
        await self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()


def problems_of(name: str, pubend: str, got: list[int], acknowledged: int) -> list[str]:
    """Return what is wrong with the message numbers that a subscriber got of a stream."""
    if len(got) < acknowledged:
        return [f"{name} never got {acknowledged - len(got)} acknowledged messages of {pubend}"]
    if got != list(range(len(got))):
        at = next(place for place, number in enumerate(got) if number != place)
        what = "twice" if got[at] in got[:at] else "out of order"
        return [f"{name} got message {got[at]} of {pubend} {what}, in the place of {at}"]
    return []


RATE: Final = 200
"""Messages a second that all publishers want to publish; 500 in the paper."""
UP_S: Final = 20.0
"""Longest wait for the four nodes to be connected."""
DRAIN_S: Final = 20.0
"""Longest wait for messages on their way when publishing ends."""
CACHE_S: Final = 5
"""Seconds of messages that IB caches: fewer than a link is down, so that recovery has to come from PB."""

_NOW_US: Final = 1_800_000_000_000_000
MESSAGE_BYTES: Final = len(
    encode(
        Data(
            PUBENDS[0],
            tick_at(_NOW_US),
            tick_at(_NOW_US) + 20 * 1_024,
            wire.encode_record(
                wire.Record(f"live/{PUBENDS[0]}", bytes(PAYLOAD), _NOW_US, "publisher p0", 1_000)
            ),
        )
    )
)
"""Bytes of one message on a link, with all protocol overhead."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a link during the run."""

    second: int
    node: str
    """Name of the node that sends over the link."""
    neighbour: str
    settings: Mapping[str, Any]
    """New settings of the link: `bytes_per_s`, `enabled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSetting:
    """The setting of one run."""

    seconds: int
    """Longest duration of the run."""
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Initial limits in bytes per second, by (from, to); other links are not limited."""
    changes: tuple[Change, ...] = ()
    stop: Callable[[list[Sample]], bool] | None = None
    """Ends the run early once it returns true for the samples so far."""


def play(setting: LiveSetting, *, told: Callable[[int], None]) -> Played:
    """Start the nodes, play the setting, and stop the nodes; NodeError if they do not start."""
    with TemporaryDirectory(prefix="penstock-") as folder, ExitStack() as stack:
        tree = _Tree(setting, Path(folder), stack)
        return asyncio.run(_Run(tree, setting, told).play())


class _Tree:
    """The four node processes."""

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
        """Change a node's configuration file and reload it."""
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
        """Wait until all nodes know all streams."""
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
        await self._sample(web, -1)  # counters at the start: samples are differences
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
