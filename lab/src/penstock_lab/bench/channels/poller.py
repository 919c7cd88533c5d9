"""20,000 channels on one process: our poller against a task with a sleep for each of them.

Both poll the same pages, known before, on a local server in another process, and both send conditional
requests. Ours also does what the other does not: turns by channel id, budgets, robots.txt, checked addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, pstdev
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.errors import InputError
from penstock.node.service import allow_files
from penstock_lab.bench.channels.poll_processes import (
    BIN_S,
    HOSTS,
    OurPoller,
    PlainLoop,
    PollerFigures,
    PollerServer,
)
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.worker import Worker
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock_lab.bench.result import Progress
    from penstock_lab.rigs.worker import WorkerPart

NAME: Final = "poller"
SHOWS: Final = Shows(live=True)
CHANNELS: Final = 20_000
MOST: Final = 1_000_000
POLLS_PER_S: Final = 250.0
"""Planned rate: two cores shared with the server can do it; 20,000 channels are polled every 80 s."""
RIVAL: Final = "a task with a sleep each"
PLAN: Final = "the plan"


@dataclass(frozen=True, slots=True)
class _Run:
    polled: PollerFigures
    spread: float
    """Spread of polls over time as the server saw it; 1 is that of a Poisson process."""


def measure(*, quick: bool, progress: Progress, channels: str = "") -> BenchmarkResult:
    """Run both pollers on the same channels, one after the other."""
    start = perf_counter()
    count = _count(channels)
    interval_s = count / POLLS_PER_S
    warm_s, seconds = (10.0, 15.0) if quick else (15.0, 60.0)
    allow_files(4 * HOSTS)
    with Worker("server", PollerServer) as server:
        server.ask("port")
        port = server.answer()

        def poll(name: str, part: Callable[..., WorkerPart]) -> _Run:
            with Worker(name, part, port, count, interval_s) as worker:
                worker.ask((warm_s, seconds))
                found: PollerFigures = worker.answer()
            server.ask("bins")
            return _Run(found, _spread(server.answer(), seconds=seconds))

        progress(0, 2, "ours")
        ours = poll("ours", OurPoller)
        progress(1, 2, RIVAL)
        rival = poll(RIVAL, PlainLoop)
    planned = POLLS_PER_S * seconds
    return BenchmarkResult(
        NAME,
        tuple(_rows(ours, rival, planned=planned)),
        perf_counter() - start,
        note=f"{count:,} channels on {min(count, HOSTS)} hosts, each polled every {interval_s:.3g} s, "
        f"for {seconds:.0f} s; evenness: spread of polls per {BIN_S:g} s against that of a Poisson process",
    )


def _count(text: str) -> int:
    if not text:
        return CHANNELS
    try:
        count = int(float(text.replace("_", "").replace(",", "")))
    except (ValueError, OverflowError):
        count = 0
    if not 100 <= count <= MOST:
        raise InputError(f"--channels: a number from 100 to {MOST:,}, not '{text[:40]}'")
    return count


def _rows(ours: _Run, rival: _Run, *, planned: float) -> list[BenchmarkRow]:
    own, other = ours.polled, rival.polled
    own_rate, other_rate = own.polls / own.seconds, other.polls / other.seconds
    own_us, other_us = (1e6 * one.cpu_s / max(one.polls, 1) for one in (own, other))
    own_kb, other_kb = own.channel_bytes / 1_000, other.channel_bytes / 1_000
    return [
        BenchmarkRow(
            "polls, of those planned",
            own_rate,
            "polls/s",
            PLAN,
            POLLS_PER_S,
            own.polls / planned,
            0.97,
            fails_if="channels that are due wait for one another, or for a process that is too slow",
        ),
        BenchmarkRow("polls", own_rate, "polls/s", RIVAL, other_rate, own_rate / max(other_rate, 1e-9)),
        BenchmarkRow(
            "memory of a channel",
            own_kb,
            "kB",
            RIVAL,
            other_kb,
            other_kb / max(own_kb, 1e-9),
            1.0,
            fails_if="a channel that waits holds more than a task with a sleep",
            less=True,
        ),
        BenchmarkRow("processor time of a poll", own_us, "µs", RIVAL, other_us, other_us / own_us, less=True),
        BenchmarkRow(
            "unevenness",
            ours.spread,
            "×",
            RIVAL,
            rival.spread,
            rival.spread / max(ours.spread, 1e-9),
            less=True,
        ),
        BenchmarkRow("how late a poll begins, mean", own.late_mean_ms, "ms"),
        BenchmarkRow("how late a poll begins, at most", own.late_most_ms, "ms"),
        BenchmarkRow("polls that failed", float(own.errors), "polls", RIVAL, float(other.errors)),
    ]


def _spread(bins: dict[int, int], *, seconds: float) -> float:
    """Standard deviation of polls per bin in the measured time, against that of arrivals by chance."""
    last = max(bins, default=0) - 2  # the last bin is incomplete
    first = last - int(seconds / BIN_S) + 3
    counts = [bins.get(number, 0) for number in range(first, last + 1)]
    mean = fmean(counts)
    return pstdev(counts) / sqrt(mean) if mean else 0.0
