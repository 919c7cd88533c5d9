"""Figures of a queue before a slow link, from what a receiver got and what the queue did; and their picture.

Everything counts from the first overflow on. The picture has the three panels of the PACK paper's Figure 8:
latency, loss by second, packs with their ratio.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final, Protocol

import matplotlib as mpl

from penstock.errors import SimulationError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.core.queues import BoundedQueue
    from penstock_lab.sim.pack_queue import QueueRun


@dataclass(frozen=True, slots=True)
class QueueContestant:
    """A queue, and whether its digests are sent to the receiver."""

    name: str
    label: str
    make: Callable[[], BoundedQueue]
    digests_on_wire: bool = True


class PackStatistics(Protocol):
    """Counts that a queue, or a node, keeps of its packs."""

    @property
    def packs_by_level(self) -> Mapping[int, int]:
        """Packs by the level that made room; 0: the worst case."""
        ...

    @property
    def conserved(self) -> bool:
        """Whether every event accepted is accounted for."""
        ...


@dataclass(frozen=True, slots=True)
class LevelShare:
    """Shares that packs at one level dropped, over all runs."""

    packs: int
    queue: float
    """Share of all events in the queue."""
    first: float
    """Share of the events that no pack had seen before."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One contestant over all its runs; everything counts from the first overflow on."""

    contestant: QueueContestant
    mean_s: float
    p99_s: float
    spread_s: float
    """Standard deviation of the latency."""
    loss: float
    quiet: float
    """Share of one-second windows without loss."""
    worst: float
    """Loss in the worst one-second window."""
    levels: dict[int, int]
    packs: int
    turnaround_s: float | None
    conserved: bool
    level2: LevelShare | None
    """None if packs are not recorded one by one, as on a node."""
    first: QueueRun
    """The run of the first seed, which is drawn."""

    def share(self, level: int) -> float:
        """Return the share of packs that ended at a level."""
        return self.levels.get(level, 0) / self.packs if self.packs else 0.0


def figures_of(
    contestant: QueueContestant,
    runs: list[QueueRun],
    statistics: Sequence[PackStatistics],
    *,
    seconds: int,
) -> QueueFigures:
    """Figures of one contestant from what receivers got and what the queues say."""
    latencies = sorted(latency for seen in runs for latency in latencies_s(seen))
    if not latencies:
        raise SimulationError(f"the queue never filled within {seconds} s; take a longer run")
    windows = [loss for seen in runs for _, loss in losses_by_second(seen)]
    levels: dict[int, int] = {}
    for one in statistics:
        for level, count in one.packs_by_level.items():
            levels[level] = levels.get(level, 0) + count
    turnarounds = [
        pack.turnaround_us for seen in runs for pack in seen.packs if pack.turnaround_us is not None
    ]
    return QueueFigures(
        contestant=contestant,
        mean_s=fmean(latencies),
        p99_s=latencies[int(0.99 * (len(latencies) - 1))],
        spread_s=pstdev(latencies),
        loss=fmean(windows),
        quiet=sum(loss == 0 for loss in windows) / len(windows),
        worst=max(windows),
        levels=dict(sorted(levels.items())),
        packs=sum(levels.values()),
        turnaround_s=fmean(turnarounds) / SECOND_US if turnarounds else None,
        conserved=all(one.conserved for one in statistics),
        level2=first_packs(runs, 2),
        first=runs[0],
    )


def latencies_s(seen: QueueRun) -> list[float]:
    """Return the latency of each event received that was published after the first overflow."""
    start_us = seen.first_overflow_us
    if start_us is None:
        return []
    return [(at_us - event.ts_us) / SECOND_US for at_us, event in seen.arrivals if event.ts_us >= start_us]


def losses_by_second(seen: QueueRun) -> list[tuple[int, float]]:
    """Return (second of publication, share lost) from the first overflow to the last event received."""
    start_us = seen.first_overflow_us
    if start_us is None or not seen.arrivals:
        return []
    received = {event.seq for _, event in seen.arrivals}
    last = max(received)
    published: dict[int, int] = {}
    lost: dict[int, int] = {}
    for event in seen.published:
        if event.ts_us < start_us or event.seq > last:
            continue
        second = event.ts_us // SECOND_US
        published[second] = published.get(second, 0) + 1
        lost[second] = lost.get(second, 0) + (event.seq not in received)
    return [(second, lost[second] / published[second]) for second in published]


def first_packs(runs: Sequence[QueueRun], level: int) -> LevelShare | None:
    """Shares that packs at a level dropped; None if none came after a pack at least as high.

    The same event falls the same way in every pack, so what stayed in the pack before stays again. Those
    events are the oldest of the queue: as many as it holds more than have come since.
    """
    packs = events = first = dropped = 0
    for seen in runs:
        came_us = [event.ts_us for event in seen.published]
        for before, pack in pairwise(seen.packs):
            if pack.level != level or before.level < level:
                continue
            packs += 1
            events += pack.events_before
            come = bisect_left(came_us, pack.at_us) - bisect_left(came_us, before.at_us)
            first += min(come, pack.events_before)
            dropped += pack.events_dropped
    return LevelShare(packs, dropped / events, dropped / first) if first else None


mpl.use("Agg")

SHOWN: Final = {"drop-tail": "#999999", "drop-oldest": "#c28e2c", "pack": "#1f6f8b"}
LEVELS: Final = {1: "#8fc1a9", 2: "#1f6f8b", 3: "#d1495b", 0: "#000000"}
SHOWN_SECONDS: Final = 120
"""The first two minutes are drawn: after that it repeats."""


def drawn(found: list[QueueFigures], out: Path, *, name: str) -> tuple[Path, ...]:
    """Draw the pictures; none where matplotlib is not installed."""
    return () if find_spec("matplotlib") is None else draw(found, out, name=name)


def draw(found: list[QueueFigures], out: Path, *, name: str) -> tuple[Path, ...]:
    """Write the picture to a folder, which is created if needed."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    out.mkdir(parents=True, exist_ok=True)
    figure, (latency, loss, packs) = plt.subplots(3, 1, figsize=(9, 9), sharex=True, layout="constrained")
    for measured in found:
        colour = SHOWN.get(measured.contestant.name)
        if colour is None:
            continue
        label = measured.contestant.label
        seen = measured.first
        points = [(at / SECOND_US, (at - event.ts_us) / SECOND_US) for at, event in seen.arrivals]
        latency.plot(*zip(*points, strict=True), color=colour, lw=1, label=label)
        if measured.contestant.name != "drop-oldest":
            seconds = losses_by_second(seen)
            loss.plot(*zip(*seconds, strict=True), color=colour, lw=1, label=label)
        for pack in seen.packs:
            packs.vlines(pack.at_us / SECOND_US, 0, pack.ratio, color=LEVELS[pack.level], lw=2)
    for level, colour in LEVELS.items():
        packs.vlines([], 0, 0, color=colour, lw=2, label=f"level {level}" if level else "worst case")
    latency.set(ylabel="latency, s", ylim=(0, None), title="(a) Latency seen by the receiver")
    loss.set(ylabel="share lost", ylim=(0, 1), title="(b) Loss by second of publication")
    packs.set(
        ylabel="share dropped",
        ylim=(0, 1),
        xlabel="time, s",
        xlim=(0, SHOWN_SECONDS),
        title="(c) Packs on the node",
    )
    for panel, place in ((latency, "lower right"), (loss, "upper right"), (packs, "upper right")):
        panel.legend(loc=place, fontsize=8)
        panel.grid(alpha=0.25)
    path = out / f"{name}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)
