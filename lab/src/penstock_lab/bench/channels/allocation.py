"""Sharing polls among channels: how long the computation takes, and the delay it gives at the same load.

The channels are those of Corona's simulations (section 5.1): popularity by Zipf's law with exponent 0.5, 50
subscriptions and 50 polls in half an hour per channel, 1,024 nodes. Rivals get the same budget; they are what
a programmer would write in plain Python, each right, and slow. Delays are by formula, half an interval;
`penstock reproduce corona-table2` measures them by simulating polls and updates.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from math import sqrt
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.channels.allocation import Factors, Scheme, allocate, honeycomb, mean_delay_us
from penstock.model.instant import SECOND_US
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow, interleaved_ns
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from penstock_lab.bench.result import Progress


def price_search(subscribers: list[float], *, budget: float, low: float, high: float) -> list[float]:
    """Return the polls of each channel at the price that meets the budget, found by bisection."""

    def polls(price: float) -> list[float]:
        return [min(max(sqrt(q / price), low), high) for q in subscribers]

    dear, cheap = max(subscribers) / low**2, min(subscribers) / high**2
    for _ in range(60):
        middle = sqrt(dear * cheap)
        if sum(polls(middle)) > budget:
            cheap = middle
        else:
            dear = middle
    return polls(dear)


def greedy(subscribers: list[float], *, budget: int) -> list[int]:
    """Whole polls, one after the other to the channel that gains most by one more; each begins with one.

    From n polls to n + 1 the mean delay falls by q·(1/n − 1/(n + 1)).
    """
    polls = [1] * len(subscribers)
    heap = [(-q / 2, channel) for channel, q in enumerate(subscribers)]
    heapify(heap)
    for _ in range(budget - len(subscribers)):
        channel = heap[0][1]
        polls[channel] += 1
        count = polls[channel]
        heapreplace(heap, (-subscribers[channel] / (count * (count + 1)), channel))
    return polls


NAME: Final = "allocate"
SHOWS: Final = Shows(live=True)
TAU_US: Final = 1_800 * SECOND_US
LEAST_US: Final = SECOND_US
MOST_US: Final = 86_400 * SECOND_US
NODES: Final = 1_024
PER_CHANNEL: Final = 50
GREEDY_MOST: Final = 10_000
"""Most channels that the greedy rival is timed with: it takes 50 steps for each."""
FASTER: Final = 100.0
"""Goal: at least this many times as fast as the same search in plain Python."""
FRESHER: Final = {"honeycomb": 2.4, "uniform": 1.1, "by subscribers": 1.1, "greedy": 0.999}
"""Goals, by rival: its delay divided by ours at the same load. Greedy differs only by whole polls."""


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Time the solvers at growing sizes, then compare delays at one load."""
    start = perf_counter()
    sizes = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000)
    rows: list[BenchmarkRow] = []
    for number, size in enumerate(sizes):
        progress(number, len(sizes) + 1, f"{size:,} channels")
        rows += _times(size)
    progress(len(sizes), len(sizes) + 1, "delays at one load")
    rows += _delays(sizes[1])
    return BenchmarkResult(
        NAME,
        tuple(rows),
        perf_counter() - start,
        note=f"Zipf 0.5, {PER_CHANNEL} subscriptions and {PER_CHANNEL} polls in 30 min per channel, "
        f"{NODES:,} nodes; CPU time, median of 3 rounds; delays of {sizes[1]:,} channels, by formula",
    )


def channels(size: int) -> Factors:
    """Return the channels, shuffled by popularity, with update intervals as in the paper's survey."""
    dice = np.random.default_rng(7)
    shares = dice.permutation(np.arange(1, size + 1) ** -0.5)
    hours = np.exp(dice.uniform(np.log(1 / 6), np.log(1), size))
    days = np.exp(dice.uniform(np.log(1), np.log(120), size))
    kind = dice.random(size)
    update_h = np.where(kind < 0.1, hours, np.where(kind < 0.5, days, 168.0))
    return Factors(shares * (PER_CHANNEL * size / shares.sum()), None, update_h * 3_600 * SECOND_US)


def _times(size: int) -> list[BenchmarkRow]:
    factors = channels(size)
    subscribers = factors.subscribers.tolist()
    budget = PER_CHANNEL * size
    contestants: dict[str, Callable[[], object]] = {
        "continuous": lambda: _continuous(factors),
        "honeycomb": lambda: honeycomb(factors, tau_us=TAU_US, nodes=NODES),
        "python": lambda: price_search(
            subscribers, budget=budget, low=TAU_US / MOST_US, high=TAU_US / LEAST_US
        ),
    }
    if size <= GREEDY_MOST:
        contestants["greedy"] = lambda: greedy(subscribers, budget=budget)
    taken = interleaved_ns(contestants, rounds=3)
    took = {name: nanoseconds / 1e6 for name, nanoseconds in taken.items()}
    ours = took["continuous"]
    rivals = {
        "python": "the same search in plain Python",
        "greedy": "heap, poll by poll",
        "honeycomb": "Honeycomb",
    }
    return [
        BenchmarkRow(
            f"continuous, {size:,} channels",
            ours,
            "ms",
            what,
            took[name],
            took[name] / ours,
            FASTER if name == "python" else None,
            fails_if="the search goes through channels one by one",
            less=True,
        )
        for name, what in rivals.items()
        if name in took
    ]


def _continuous(factors: Factors, scheme: Scheme = Scheme.LITE) -> NDArray[np.int64]:
    return allocate(factors, scheme=scheme, tau_us=TAU_US, least_us=LEAST_US, most_us=MOST_US).interval_us


def _delays(size: int) -> list[BenchmarkRow]:
    factors = channels(size)
    subscribers = factors.subscribers
    greedy_size = GREEDY_MOST
    rivals = {
        "honeycomb": TAU_US / honeycomb(factors, tau_us=TAU_US, nodes=NODES).pollers,
        "uniform": np.full(size, TAU_US / PER_CHANNEL),
        "by subscribers": TAU_US / subscribers,
    }
    named = {"honeycomb": "Honeycomb (base 16)", "uniform": "every channel the same"}
    ours = mean_delay_us(_continuous(factors), subscribers) / SECOND_US
    rows = []
    for name, intervals in rivals.items():
        rival = mean_delay_us(intervals, subscribers) / SECOND_US
        what = named.get(name, "polls in proportion to subscribers")
        rows.append(
            BenchmarkRow(
                "mean delay per subscription",
                ours,
                "s",
                what,
                rival,
                rival / ours,
                FRESHER[name],
                fails_if="polls go to channels where they shorten the delay less",
                less=True,
            )
        )
    few = channels(greedy_size)
    polls = greedy(few.subscribers.tolist(), budget=PER_CHANNEL * greedy_size)
    best = mean_delay_us(TAU_US / np.array(polls), few.subscribers) / SECOND_US
    own = mean_delay_us(_continuous(few), few.subscribers) / SECOND_US
    what = "heap, poll by poll"
    rows.append(
        BenchmarkRow(
            f"the same, {greedy_size:,} channels",
            own,
            "s",
            what,
            best,
            best / own,
            FRESHER["greedy"],
            fails_if="the search stops before the best intervals",
            less=True,
        )
    )
    updates = subscribers / factors.update_interval_us
    fair = mean_delay_us(_continuous(factors, Scheme.FAIR), updates) / SECOND_US
    lite = mean_delay_us(_continuous(factors), updates) / SECOND_US
    rows.append(
        BenchmarkRow("mean delay per delivered update: fair", fair, "s", "lite", lite, lite / fair, less=True)
    )
    return rows
