"""E4 (Pietzuch and Bhola, 2003, §5): how long recovery takes by Δt_rec (Figure 16), and how fair it is.

The paper's links serve messages in the order of their arrival, and its pubends share a bottleneck unfairly
where Δt_rec ≤ 1. Here links serve pubends in turn; the experiment measures both.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.core.streams.options import StreamOptions
from penstock.model.instant import SECOND_US
from penstock_lab.experiments.gryphon.measures import caught_up, checked, jain, recovered
from penstock_lab.experiments.gryphon.plots import draw_times
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.streams.gryphon import PUBENDS, GryphonSetting, Played, play

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Sample

NAME: Final = "gryphon-e4"
SHOWS: Final = Shows(live=False, paper="Gryphon", figures={"": "Figure 16"})
GAINS: Final = tuple(round(-0.2 + 0.2 * step, 1) for step in range(12))
QUICK_GAINS: Final = (-0.2, 0.0, 1.0, 2.0)
FIRST_GAIN: Final = 0.0
"""Recovery times are judged from this Δt_rec on: below it the paper warns that recovery may not end."""
FALLS_TO: Final = 0.75
"""Largest share of the time at FIRST_GAIN that recovery may take at the last value, to count as falling."""
UNFAIR_GAINS: Final = (0.2, 0.6, 1.0)
QUICK_UNFAIR_GAINS: Final = (1.0,)
FAILS_S: Final = 15
DOWN_S: Final = 60
QUICK_DOWN_S: Final = 30
MOST_S: Final = 600
"""A leaf that has not recovered by then never will."""


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """The parameters of one run."""

    gain: float
    """Δt_rec."""
    fair: bool
    down_s: int
    seed: int


@dataclass(frozen=True, slots=True)
class RecoveryRun:
    """The result of one run."""

    point: RecoveryPoint
    took_s: int | None
    published: tuple[int, ...]
    """Messages published per pubend while SB2 recovers."""
    problems: tuple[str, ...]
    on_the_way: int = 0
    undelivered: int = 0

    @property
    def fairness(self) -> float:
        """Jain's index of what the pubends could publish."""
        return jain(self.published)


def measure(point: RecoveryPoint) -> RecoveryRun:
    """Simulate one run until SB2 has recovered."""
    back = FAILS_S + point.down_s
    played = play(
        GryphonSetting(
            seconds=back + MOST_S,
            bandwidth={"IB": ((0, 500),)},
            down={"SB2": (FAILS_S, back)},
            # A short cache at IB, so that recovery has to come over PB–IB.
            streams=StreamOptions(recovering_gain=point.gain, cache_us=5 * SECOND_US),
            fair=point.fair,
            stop=partial(_done, back),
        ),
        seed=point.seed,
    )
    during = [sample.published for sample in played.samples if sample.second >= back]
    published = tuple(sum(one[number] for one in during) for number in range(len(PUBENDS)))
    return RecoveryRun(
        point,
        caught_up(played, "SB2", since=back),
        published,
        tuple(played.problems),
        played.on_the_way,
        played.undelivered,
    )


def _done(back: int, sample: Sample) -> bool:
    return sample.second > back + 2 and recovered(sample, "SB2")


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Simulate all values of Δt_rec on all cores; pictures go to `out`, if given."""
    down_s = QUICK_DOWN_S if quick else DOWN_S
    gains, unfair = (QUICK_GAINS, QUICK_UNFAIR_GAINS) if quick else (GAINS, UNFAIR_GAINS)
    points = [RecoveryPoint(gain, fair=True, down_s=down_s, seed=seed) for gain in gains]
    points += [RecoveryPoint(gain, fair=False, down_s=down_s, seed=seed) for gain in unfair]
    found = _all(points, progress)
    fair = [one for one in found if one.point.fair]
    first_come = [one for one in found if not one.point.fair]
    return ExperimentResult(
        experiment=NAME,
        title="Gryphon E4: recovery time by Δt_rec",
        setting=f"PB–IB at 500 KB/s, IB–SB2 down for {down_s} s, PDCC and SDCC, {len(fair)} values of Δt_rec"
        f"{' (shortened by --quick)' if quick else ''}",
        rows=(
            *_rows(fair, first_come),
            checked(
                [Played([], [], {}, list(one.problems), one.on_the_way, one.undelivered) for one in found]
            ),
        ),
        tables=(_table(found),),
        plots=_draw(fair, out),
        seed=seed,
    )


def _all(points: list[RecoveryPoint], progress: Progress) -> list[RecoveryRun]:
    found = []
    # Spawned, not forked: forking a process that has threads is unsafe.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for done, one in enumerate(pool.map(measure, points)):
            progress(done + 1, len(points), f"Δt_rec {one.point.gain:g}")
            found.append(one)
    return found


def _rows(fair: Sequence[RecoveryRun], first_come: Sequence[RecoveryRun]) -> tuple[Claim, ...]:
    used = [one for one in fair if one.point.gain >= FIRST_GAIN]
    times = [one.took_s for one in used if one.took_s is not None]
    below = [f"{one.point.gain:g}: {one.took_s or 'never'}" for one in fair if one.point.gain < FIRST_GAIN]
    steps = list(pairwise(times))
    # A second is the resolution of the samples; noise of two is no rise.
    falling = sum(later <= earlier + 2 for earlier, later in steps)
    slow = [one for one in fair if one.point.gain <= 1]
    worst = min(one.fairness for one in slow)
    theirs = min(one.fairness for one in first_come)
    return (
        Claim(
            "recovery time falls as Δt_rec grows",
            "Figure 16",
            f"{times[0]} s at {used[0].point.gain:g} → {times[-1]} s at {used[-1].point.gain:g}"
            if len(times) == len(used)
            else f"{len(used) - len(times)} never recovered",
            ok=len(times) == len(used) and times[-1] < FALLS_TO * times[0] and falling >= len(steps) - 1,
            note=f"fails unless the last is below {FALLS_TO:g} × the first, or if two steps rise; "
            f"{falling} of "
            f"{len(steps)} do not: "
            + ", ".join(map(str, times))
            + (f"; not judged: {', '.join(below)} s" if below else "")
            + _floor(used),
        ),
        Claim(
            "fairness among 4 pubends, Δt_rec ≤ 1, links fair to pubends",
            "Jain ≥ 0.95 (our goal)",
            f"{worst:.3f}",
            ok=worst >= 0.95,
            note="of the messages that each published while SB2 recovered; fails if one value is below",
        ),
        Claim(
            "… links first come, first served, as in the paper",
            "unfair",
            f"{theirs:.3f}",
            ok=theirs < worst,
            note="fails if no less fair than links in turn; "
            + ", ".join(f"{one.point.gain:g}: {one.fairness:.2f}" for one in first_come),
        ),
    )


def _floor(used: Sequence[RecoveryRun]) -> str:
    """Say from which Δt_rec on a larger one gains nothing."""
    least = min((one.took_s for one in used if one.took_s is not None), default=None)
    first = next((one for one in used if one.took_s == least and least is not None), None)
    if first is None or first is used[-1]:
        return ""
    return (
        f"; from {first.point.gain:g} on publication has given way as far as it does, and no time is gained"
    )


def _table(found: Sequence[RecoveryRun]) -> Table:
    rows = tuple(
        (
            f"{one.point.gain:g}",
            "in turn" if one.point.fair else "first come",
            "never" if one.took_s is None else str(one.took_s),
            ", ".join(map(str, one.published)),
            f"{one.fairness:.3f}",
        )
        for one in found
    )
    return Table("By Δt_rec", ("Δt_rec", "links", "recovery s", "published by pubend", "Jain"), rows)


def _draw(fair: Sequence[RecoveryRun], out: Path | None) -> tuple[Path, ...]:
    return draw_times([(one.point.gain, one.took_s) for one in fair], out, NAME)
