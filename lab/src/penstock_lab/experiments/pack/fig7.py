"""PACK, Figure 7: what forwarding to 1 … 16 receivers costs, between two real nodes.

    sender ──► node A ──link──► node B ──► 1 … 16 receivers, with a policy or without one
    sender ──► Mosquitto ──bridge──► Mosquitto ──► as many receivers: the multicast baseline

The paper's figure has the latency of one sender's events over the number of receivers, for PACK and for its
multicast layer alone; both grow linearly, PACK faster. Here both run at once, event by event in turn.
Then the second node is frozen: the link's queue is split into private ones, one for each policy. What that
costs is also taken inside one process, where neither sockets nor other processes are in the figure.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from statistics import fmean, median, pstdev
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.errors import NodeError
from penstock.model.digest import Digest
from penstock_lab.experiments.pack import link_cost
from penstock_lab.experiments.pack.frozen_link import WAIT_S, Frozen, client, freeze, frozen_rows
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.rigs.brokers import mosquitto_bridge
from penstock_lab.rigs.cluster import cluster
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.client import Client, Subscription
    from penstock_lab.experiments.pack.link_cost import LinkCost
    from penstock_lab.experiments.result import Progress

NAME: Final = "pack-fig7"
SHOWS: Final = Shows(live=True, paper="PACK", figures={"": "Figure 7"})
QUEUE_EVENTS: Final = 500
"""Capacity of a link's queue while the other node is frozen."""
MULTICAST: Final = "multicast"
PLAIN: Final = "no policy"
PACKED: Final = "policy"
COLOURS: Final = {MULTICAST: "#777777", PLAIN: "#1f77b4", PACKED: "#d62728"}

_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class Effort:
    """Number and length of the measurements."""

    receivers: tuple[int, ...]
    events: int
    interval_s: float
    frozen_receivers: tuple[int, ...]
    frozen_events: int
    rounds: int
    """Repetitions of the measurement inside one process."""


QUICK: Final = Effort((1, 4, 16), 60, 0.03, (4,), 2_000, 3)
FULL: Final = Effort((1, 2, 4, 8, 12, 16), 300, 0.2, (1, 4, 16), 5_000, 9)


@dataclass(slots=True)
class Latencies:
    """Latencies that the receivers of one contestant saw."""

    of: str
    receivers: int
    means_ms: list[float] = field(default_factory=list)
    """Mean latency of each receiver."""
    middle_ms: float = 0.0
    """Median over all events and receivers."""

    @property
    def mean_ms(self) -> float:
        """The figure's y axis: the mean of the receivers' means."""
        return fmean(self.means_ms)


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Measure latencies over the number of receivers, a link that is split, and the cost of its queues."""
    effort = QUICK if quick else FULL
    steps = len(effort.receivers) + len(effort.frozen_receivers) + 1
    found: list[Latencies] = []
    frozen: list[Frozen] = []
    with ExitStack() as stack:
        nodes = stack.enter_context(cluster(2, cluster={"queue_events": QUEUE_EVENTS}))
        rivals = stack.enter_context(mosquitto_bridge("set_tcp_nodelay true"))
        ports = {
            MULTICAST: (rivals[0].port, rivals[1].port),
            PLAIN: (nodes[0].port, nodes[1].port),
            PACKED: (nodes[0].port, nodes[1].port),
        }
        for done, receivers in enumerate(effort.receivers):
            progress(done, steps, f"{receivers} receivers")
            found += asyncio.run(_latencies(ports, receivers, effort))
        for done, receivers in enumerate(effort.frozen_receivers, start=len(effort.receivers)):
            progress(done, steps, f"a frozen node with {receivers} receivers")
            frozen.append(asyncio.run(freeze(nodes, receivers, effort.frozen_events)))
    progress(steps - 1, steps, "queues inside one process")
    costs = link_cost.measure(effort.receivers, rounds=effort.rounds)
    return ExperimentResult(
        experiment=NAME,
        title="PACK, Figure 7: forwarding to many receivers",
        setting=f"two nodes on this machine, an event every {1_000 * effort.interval_s:g} ms, "
        f"{effort.events} for each number of receivers{' (shortened by --quick)' if quick else ''}; the "
        f"paper: one node, every 200 ms for 3 minutes; multicast is a bridge of {rivals[0].name}; a link's "
        f"queue has {QUEUE_EVENTS} events",
        rows=(*_latency_rows(found), *frozen_rows(frozen), *_cost_rows(costs)),
        tables=(_latency_table(found), link_cost.table(costs)),
        plots=() if out is None else _drawn(found, out),
        seed=seed,
    )


# -- latency -------------------------------------------------------------------------------------------------


async def _latencies(ports: dict[str, tuple[int, int]], receivers: int, effort: Effort) -> list[Latencies]:
    """All contestants at the same time, event by event in turn."""
    seen: dict[str, list[list[int]]] = {name: [[] for _ in range(receivers)] for name in ports}
    async with AsyncExitStack() as stack:
        tasks = []
        senders = {}
        topics = {name: f"fig7/{next(_numbers)}" for name in ports}
        for name, (from_port, to_port) in ports.items():
            for number in range(receivers):
                receiver = await stack.enter_async_context(client(to_port))
                policy = link_cost.policy(number) if name == PACKED else None
                made = await receiver.subscribe(topics[name], policy=policy)
                tasks.append(asyncio.create_task(_listen(made, seen[name][number])))
            senders[name] = await stack.enter_async_context(client(from_port))
        try:
            for name, sender in senders.items():  # a bridge passes messages on when it is up
                await _warm(sender, topics[name], seen[name])
            for _ in range(effort.events):
                for name, sender in senders.items():
                    sender.publish_nowait(topics[name], b"%d" % perf_counter_ns())
                    await asyncio.sleep(effort.interval_s / len(senders))
            for name, lists in seen.items():
                await _reach(lists, effort.events, f"{name}, {receivers} receivers")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return [
        Latencies(
            name,
            receivers,
            [fmean(each) / 1e6 for each in lists],
            median(took for each in lists for took in each) / 1e6,
        )
        for name, lists in seen.items()
    ]


async def _listen(made: Subscription, took_ns: list[int]) -> None:
    async for item in made:
        if not isinstance(item, Digest):
            now_ns = perf_counter_ns()
            took_ns.append(now_ns - int(item.payload))


async def _warm(sender: Client, topic: str, lists: Sequence[list[int]]) -> None:
    """Publish until every receiver has something, and forget it."""
    async with asyncio.timeout(WAIT_S):
        while not all(lists):
            sender.publish_nowait(topic, b"%d" % perf_counter_ns())
            await asyncio.sleep(0.05)
        before = -1
        while (now := sum(map(len, lists))) != before:
            before = now
            await asyncio.sleep(0.2)
    for each in lists:
        each.clear()


async def _reach(lists: Sequence[Sequence[object]], events: int, what: str) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while any(len(each) < events for each in lists):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise NodeError(f"{what}: {min(map(len, lists))} of {events} events came in {WAIT_S:g} s") from None


def _latency_rows(found: Sequence[Latencies]) -> tuple[Claim, ...]:
    by = {(each.of, each.receivers): each for each in found}
    least, most = min(each.receivers for each in found), max(each.receivers for each in found)
    grown = by[PACKED, most].middle_ms / by[PACKED, least].middle_ms
    beside = by[PACKED, most].middle_ms / by[PLAIN, most].middle_ms
    rival = by[PACKED, most].middle_ms / by[MULTICAST, most].middle_ms
    slopes = {name: _slope([each for each in found if each.of == name]) for name in COLOURS}
    return (
        Claim(
            "the latency grows no faster than the number of receivers",
            "linear",
            f"{grown:.1f} × from {least} to {most} receivers with a policy",
            ok=grown <= most / least,
            note="medians over all events; fails if each further receiver costs more than the first",
        ),
        Claim(
            "a further receiver costs",
            "more than in the multicast baseline",
            f"{slopes[PACKED]:.0f} µs with a policy, {slopes[PLAIN]:.0f} µs without, "
            f"{slopes[MULTICAST]:.0f} µs in multicast",
            ok=None,
            note="slope of the means, as in the figure; the paper's overhead came from threads and locks",
        ),
        Claim(
            "a policy costs nothing while the link keeps up",
            "–",
            f"{beside:.2f} × the latency without one, at {most} receivers",
            ok=beside <= 1.5,
            note="the shared queue is looked at by no policy; medians; fails above 1.5 ×",
        ),
        Claim(
            "latency beside the multicast baseline",
            "above it",
            f"{rival:.2f} × at {most} receivers",
            ok=None,
            note="Mosquitto is written in C; clients and load are the same",
        ),
    )


def _slope(found: Sequence[Latencies]) -> float:
    """Least squares: µs of latency for one receiver more."""
    xs, ys = [each.receivers for each in found], [1_000 * each.mean_ms for each in found]
    middle = fmean(xs)
    return sum((x - middle) * y for x, y in zip(xs, ys, strict=True)) / sum((x - middle) ** 2 for x in xs)


def _latency_table(found: Sequence[Latencies]) -> Table:
    return Table(
        "Latency over receivers (Figure 7)",
        ("receivers", "forwarded", "mean of means, ms", "deviation, ms", "median, ms"),
        tuple(
            (
                str(each.receivers),
                each.of,
                f"{each.mean_ms:.2f}",
                f"{pstdev(each.means_ms):.2f}",
                f"{each.middle_ms:.2f}",
            )
            for each in found
        ),
    )


# -- the queues inside one process ---------------------------------------------------------------------------


def _cost_rows(costs: Sequence[LinkCost]) -> tuple[Claim, ...]:
    by = {(each.of, each.receivers): each for each in costs}
    most = max(each.receivers for each in costs)
    shared = [each.bytes_per_event for each in costs if each.of == link_cost.SHARED]
    private = by[link_cost.PRIVATE, most]
    same, same_one = by[link_cost.SAME, most], by[link_cost.SAME, 1]
    return (
        Claim(
            "a shared event crosses the link once, however many receivers are behind",
            "once",
            f"{min(shared):.0f} to {max(shared):.0f} bytes an event",
            ok=min(shared) == max(shared),
            note="fails if the bytes depend on the number of receivers",
        ),
        Claim(
            f"… and so does one that private queues of {most} receivers keep",
            f"up to {most} times",
            f"{private.carried:,} crossed for {private.copies:,} copies that were kept",
            ok=all(each.different == each.carried == each.handed and each.balanced for each in costs),
            note="copies meet at the heads of the queues and name their receivers; digests of each policy "
            "come besides; fails if an event crosses twice",
        ),
        Claim(
            f"private queues of {most} receivers with the same policy cost as one",
            f"{most} queues",
            f"{same.us_per_event:.1f} µs an event against {same_one.us_per_event:.1f} µs for one receiver",
            ok=same.us_per_event <= 2 * same_one.us_per_event,
            note="processor time; fails above twice the time",
        ),
        Claim(
            f"private queues with {link_cost.POLICIES} policies",
            "–",
            f"{private.us_per_event:.1f} µs an event; shared: {by[link_cost.SHARED, most].us_per_event:.1f}",
            ok=None,
            note="what splitting and packing cost while a link is behind, processor time",
        ),
    )


# -- drawing -------------------------------------------------------------------------------------------------


def _drawn(found: Sequence[Latencies], out: Path) -> tuple[Path, ...]:
    """Draw the figure; nothing where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return ()
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, colour in COLOURS.items():
        own = [each for each in found if each.of == name]
        axes.errorbar(
            [each.receivers for each in own],
            [each.mean_ms for each in own],
            yerr=[pstdev(each.means_ms) for each in own],
            color=colour,
            capsize=3,
            label=name,
        )
    axes.set(
        xlabel="receivers", ylabel="mean latency, ms", ylim=(0, None), title="Forwarding to many receivers"
    )
    axes.legend()
    axes.grid(alpha=0.25)
    path = out / f"{NAME}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)
