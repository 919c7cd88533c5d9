"""PACK, Figure 8: a full queue before a slow link, dropped from by policy or at the tail.

The paper (§6): two hosts, 50 kbit/s, an event every 30 ms, one third more than the link carries; drop-tail
against a policy of three levels, RANDOM 10, 25 and 50 %. Its findings: lower latency than drop-tail's nearly
constant one, loss in bursts instead of a steady 30 %, and most packs at level 2, which drops
0.1 + 0.9 · 0.25 = 0.325. The picture has three panels: latency, loss by second, packs with their ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final, Protocol

import matplotlib as mpl

from penstock.cli.html_page import Table
from penstock.core.queues import (
    BoundedQueue,
    DropNewestQueue,
    DropOldestQueue,
    Ladder,
    PackingQueue,
    Predictive,
    QueueOptions,
    Smoothing,
)
from penstock.errors import SimulationError
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock.policy import evaluate
from penstock.policy.text.python_form import drop, policy
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim import World
from penstock_lab.sim.pack_queue import Figure8Setting, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.pack_queue import QueueRun

NAME: Final = "pack-fig8"
SHOWS: Final = Shows(live=False, paper="PACK", figures={"": "Figure 8"})
CAPACITY: Final = 100
"""Items in the queue; the paper does not say. 100 events are four seconds of this link."""

POLICY: Final = policy(drop.random(0.10), drop.random(0.25), drop.random(0.50), name="three lots")
SECONDS: Final = 600
QUICK_SECONDS: Final = 200
SEEDS: Final = 5
"""Runs per contestant, each with other lots."""
HOUR_SECONDS: Final = 3_600
HOUR_SEEDS: Final = 2
"""Runs of an hour: what a controller does in the first ten minutes need not last."""


@dataclass(frozen=True, slots=True)
class QueueContestant:
    """A queue, and whether its digests are sent to the receiver."""

    name: str
    label: str
    make: Callable[[], BoundedQueue]
    digests_on_wire: bool = True


def _plain() -> QueueOptions:
    """Options of queues that drop without a policy: room for CAPACITY events."""
    return QueueOptions(capacity_events=10 * CAPACITY, capacity_bytes=CAPACITY * _EVENT_SIZE)


def _packing(controller: Callable[[], Ladder | Predictive]) -> Callable[[], BoundedQueue]:
    options = QueueOptions(capacity_events=CAPACITY)
    return lambda: PackingQueue(POLICY, options, controller())


_EVENT_SIZE: Final = Figure8Setting().event_bytes - Figure8Setting().overhead_bytes

CONTESTANTS: Final = (
    QueueContestant("drop-tail", "drop-tail", lambda: DropNewestQueue(_plain()), digests_on_wire=False),
    QueueContestant("drop-oldest", "drop-oldest", lambda: DropOldestQueue(_plain()), digests_on_wire=False),
    QueueContestant("pack", "PACK, predictive, default", _packing(Predictive)),
    QueueContestant("pack-ladder", "PACK, ladder (low-pass)", _packing(Ladder)),
    QueueContestant(
        "pack-printed", "PACK, ladder (as printed)", _packing(lambda: Ladder(smoothing=Smoothing.PRINTED))
    ),
)
PACKING: Final = ("pack", "pack-ladder", "pack-printed")


class PackStatistics(Protocol):
    """What a queue, or a node, says of its packs."""

    @property
    def packs_by_level(self) -> Mapping[int, int]:
        """Packs by the level that made room; 0: the worst case."""
        ...

    @property
    def conserved(self) -> bool:
        """Whether every event accepted is accounted for."""
        ...


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
    first: QueueRun
    """The run of the first seed, which is drawn."""

    def share(self, level: int) -> float:
        """Return the share of packs that ended at a level."""
        return self.levels.get(level, 0) / self.packs if self.packs else 0.0


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Run all contestants; pictures go to `out`, if given."""
    length = QUICK_SECONDS if quick else SECONDS
    found: dict[str, QueueFigures] = {}
    hour: dict[str, QueueFigures] = {}
    steps = len(CONTESTANTS) + (0 if quick else len(PACKING))
    for contestant in CONTESTANTS:
        progress(len(found), steps, contestant.label)
        found[contestant.name] = measure(contestant, seed, length)
    for contestant in (each for each in CONTESTANTS if each.name in PACKING):
        if quick:
            hour[contestant.name] = found[contestant.name]
            continue
        progress(len(found) + len(hour), steps, f"{contestant.label}, an hour")
        hour[contestant.name] = measure(contestant, seed, HOUR_SECONDS, seeds=HOUR_SEEDS)
    progress(steps, steps, "plots")
    plots: tuple[Path, ...] = ()
    if out is not None:
        plots = drawn(list(found.values()), out)
    shortened = " (shortened by --quick)" if quick else ""
    return ExperimentResult(
        experiment=NAME,
        title="PACK, Figure 8: latency and loss before a slow link",
        setting=f"{length} s of simulated time{shortened}, {SEEDS} runs each, an event every 30 ms, "
        f"50 kbit/s, a queue of {CAPACITY}, policy RANDOM 10 / 25 / 50 %; "
        f"levels over {'the same time' if quick else f'an hour, {HOUR_SEEDS} runs'}",
        rows=(*rows(found), *_levels_over(hour, quick=quick), accounted(found)),
        tables=(table(list(found.values())),),
        plots=plots,
        seed=seed,
    )


def drawn(found: list[QueueFigures], out: Path, *, name: str = NAME) -> tuple[Path, ...]:
    """Draw the pictures; none where matplotlib is not installed."""
    return () if find_spec("matplotlib") is None else draw(found, out, name=name)


def measure(contestant: QueueContestant, seed: int, seconds: int, *, seeds: int = SEEDS) -> QueueFigures:
    """Run one contestant in the simulator, once for each of `seeds` seeds."""
    runs: list[QueueRun] = []
    queues: list[BoundedQueue] = []
    for number in range(seeds):
        queue = contestant.make()
        world = World(seed + number, keep_trace=False)
        runs.append(
            run(world, queue, Figure8Setting(seconds=seconds, digests_on_wire=contestant.digests_on_wire))
        )
        queues.append(queue)
    return figures_of(contestant, runs, [queue.statistics() for queue in queues], seconds=seconds)


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


def fresh_share(level: int, events: int = 20_000) -> float:
    """Return the share that a pack at this level drops of a queue never packed before."""
    queue = [Event("vitals", b"", 0, sender="sensor", seq=seq) for seq in range(events)]
    packed = evaluate.pack(POLICY, queue, level=level, now_us=0)
    return sum(effect.dropped for effect in packed.effects) / events


def rows(found: dict[str, QueueFigures]) -> tuple[Claim, ...]:
    """What the paper says of latency and loss."""
    tail, pack = found["drop-tail"], found["pack"]
    level2 = fresh_share(2)
    return (
        Claim(
            "drop-tail loses what the link cannot carry",
            "about 30 %",
            f"{tail.loss:.1%}",
            ok=0.20 <= tail.loss <= 0.35,
            note="arrival one third above service is 25 % in exact arithmetic",
        ),
        Claim(
            "drop-tail latency is high and nearly constant",
            "the whole queue, constant",
            f"{tail.mean_s:.2f} s ± {tail.spread_s:.2f}",
            ok=tail.spread_s < 0.05 * tail.mean_s,
        ),
        Claim(
            "PACK has a lower mean latency",
            "lower",
            f"{pack.mean_s:.2f} s = {pack.mean_s / tail.mean_s:.2f} × drop-tail",
            ok=pack.mean_s < 0.9 * tail.mean_s,
        ),
        Claim(
            "PACK has a lower p99 latency",
            "–",
            f"{pack.p99_s:.2f} s against {tail.p99_s:.2f} s",
            ok=pack.p99_s < tail.p99_s,
        ),
        Claim(
            "at a comparable loss",
            "comparable",
            f"{pack.loss:.1%} against {tail.loss:.1%}",
            ok=abs(pack.loss - tail.loss) < 0.05,
            note="the difference is what the digests cost on the wire; drop-tail tells its receiver nothing",
        ),
        Claim(
            "PACK loses in bursts, between them nothing",
            "zero between packs",
            f"{pack.quiet:.0%} of the seconds without loss, worst second {pack.worst:.0%}",
            ok=pack.quiet > 0.05 and pack.worst > 1.5 * tail.worst and tail.quiet < 0.01,
        ),
        Claim(
            "level 2 drops 0.1 + 0.9 · 0.25",
            "0.325",
            f"{level2:.3f}",
            ok=abs(level2 - 0.325) < 0.01,
            note="of events never packed before; the same event falls the same way in every pack",
        ),
    )


def _levels_over(hour: dict[str, QueueFigures], *, quick: bool) -> tuple[Claim, ...]:
    """At which level the packs were; a short run does not tell, since ladders drift."""
    pack, ladder, printed = (hour[name] for name in PACKING)
    time = "the shortened run" if quick else "an hour"
    return (
        Claim(
            f"most packs happen at level 2, over {time}",
            "most",
            f"{pack.share(2):.0%} of {pack.packs}",
            ok=pack.share(2) > 0.5,
            note="the predictive controller, a node's default",
        ),
        Claim(
            "… with the paper's ladder, low-pass",
            "–",
            f"{ladder.share(2):.0%} of {ladder.packs}, level 3 {ladder.share(3):.0%}",
            ok=None,
            note="after ten minutes level 3 takes over (decision 0002)",
        ),
        Claim(
            "… with its formula as printed",
            "–",
            f"{printed.share(2):.0%} of {printed.packs}, level 3 {printed.share(3):.0%}",
            ok=None,
            note="nine tenths of the newest observation: the ladder forgets, and noise carries it to level 3",
        ),
    )


def accounted(found: dict[str, QueueFigures]) -> Claim:
    """Whether no event was lost without being counted."""
    conserved = all(measured.conserved for measured in found.values())
    return Claim("every event is accounted for", "–", "yes" if conserved else "NO", ok=conserved)


def table(found: list[QueueFigures], title: str = "Simulated") -> Table:
    """The contestants side by side."""
    header = ("queue", "mean latency s", "p99 s", "loss %", "packs", "level 1/2/3/worst", "between packs s")
    rows = tuple(
        (
            measured.contestant.label,
            f"{measured.mean_s:.2f}",
            f"{measured.p99_s:.2f}",
            f"{100 * measured.loss:.1f}",
            str(measured.packs) if measured.packs else "–",
            _levels(measured),
            f"{measured.turnaround_s:.2f}" if measured.turnaround_s else "–",
        )
        for measured in found
    )
    return Table(f"{title}: receiver's view after the first overflow, and the node's packs", header, rows)


def _levels(measured: QueueFigures) -> str:
    return " / ".join(f"{measured.share(level):.0%}" for level in (1, 2, 3, 0)) if measured.packs else "–"


mpl.use("Agg")

SHOWN: Final = {"drop-tail": "#999999", "drop-oldest": "#c28e2c", "pack": "#1f6f8b"}
LEVELS: Final = {1: "#8fc1a9", 2: "#1f6f8b", 3: "#d1495b", 0: "#000000"}
SHOWN_SECONDS: Final = 120
"""The first two minutes are drawn: after that it repeats."""


def draw(found: list[QueueFigures], out: Path, *, name: str = NAME) -> tuple[Path, ...]:
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
