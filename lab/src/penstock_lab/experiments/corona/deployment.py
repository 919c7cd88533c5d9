"""Corona's deployment (§5.2): 60 nodes, 7,500 channels, 150,000 subscriptions that arrive in 90 minutes.

The paper reports 45 s against 15 minutes, at no more load than the subscribers would make alone. 45 s is
what 20 polls in half an hour give if they are the same for every channel; levels in base 16 cannot come near
it with 60 nodes, which leaves 60, 4 or 1 of them for a channel.
"""

from __future__ import annotations

from importlib.util import find_spec
from statistics import fmean
from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.core.channels.allocation import Scheme
from penstock_lab.experiments.corona.table2 import LOAD_SLACK, spread
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.corona.polls import Phases
from penstock_lab.sim.corona.simulation import Continuous, Corona, CoronaSetting, Legacy, Method, simulate
from penstock_lab.sim.corona.workload import MINUTE_US, a_workload

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.corona.simulation import Run

NAME: Final = "corona-deployment"
SHOWS: Final = Shows(
    live=False, paper="Corona", figures={"": "Figure 9", "the load stays within": "Figure 10"}
)
CHANNELS: Final = 7_500
SUBSCRIPTIONS: Final = 150_000
SETTING: Final = CoronaSetting(nodes=60, maintenance_us=30 * MINUTE_US, arriving_us=90 * MINUTE_US)
RINGS: Final = 10
QUICK_RINGS: Final = 3

METHODS: Final[dict[str, Method]] = {
    "Legacy-RSS": Legacy(),
    "Corona-Lite": Corona(Scheme.LITE),
    "Corona-Lite, random phases": Corona(Scheme.LITE, phases=Phases.RANDOM),
    "Corona-Lite, base 4, solved centrally": Corona(Scheme.LITE, central=True, digit_bits=2),
    "ours, lite": Continuous(Scheme.LITE),
}


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Run every method on every ring; pictures go to `out`, if given."""
    rings = QUICK_RINGS if quick else RINGS
    found = deploy(seed=seed, rings=rings, progress=progress)
    plots: tuple[Path, ...] = ()
    if out is not None and find_spec("matplotlib") is not None:
        from penstock_lab.experiments.corona.plots import draw_deployment  # noqa: PLC0415  # matplotlib is slow

        plots = draw_deployment(found, out)
    shortened = " (shortened by --quick)" if quick else ""
    return ExperimentResult(
        experiment=NAME,
        title="Corona's deployment: detection time and load",
        setting=f"{SETTING.nodes} nodes, {CHANNELS:,} channels, {SUBSCRIPTIONS:,} subscriptions arriving in "
        f"90 minutes, six simulated hours on each of {rings} rings{shortened}, maintenance and polls every "
        "30 min; detection time per subscription from the second half",
        rows=_rows(found),
        tables=(_table(found),),
        plots=plots,
        seed=seed,
    )


def deploy(*, seed: int, rings: int, progress: Progress) -> dict[str, list[Run]]:
    """Simulate all methods on all rings."""
    workload = a_workload(channels=CHANNELS, subscriptions=SUBSCRIPTIONS, seed=seed)
    found: dict[str, list[Run]] = {}
    for number, (name, method) in enumerate(METHODS.items()):
        progress(number, len(METHODS), name)
        found[name] = [simulate(workload, method, SETTING, seed=seed + ring) for ring in range(rings)]
    progress(len(METHODS), len(METHODS), "done")
    return found


def per_half_hour(run: Run) -> list[float]:
    """Return the polls of a channel in each half hour."""
    step = SETTING.tau_us
    return [run.load(from_us, from_us + step) for from_us in range(0, SETTING.length_us, step)]


def _seconds(runs: list[Run]) -> tuple[float, ...]:
    return tuple(run.per_subscription_s for run in runs)


def _loads(runs: list[Run]) -> tuple[float, ...]:
    return tuple(run.settled_load for run in runs)


def _rows(found: dict[str, list[Run]]) -> tuple[Claim, ...]:
    legacy, lite, ours = found["Legacy-RSS"], found["Corona-Lite"], found["ours, lite"]
    base4 = found["Corona-Lite, base 4, solved centrally"]
    full = [run for run in base4 if run.empty_cells == 0]
    legacy_load = fmean(_loads(legacy))
    lite_s, ours_s = fmean(_seconds(lite)), fmean(_seconds(ours))
    # Intervals are first set before anybody has subscribed, so in the first half hour owners poll alone.
    kept = all(
        mine <= theirs * LOAD_SLACK
        for run, alone in zip(ours, legacy, strict=True)
        for mine, theirs in list(zip(per_half_hour(run), per_half_hour(alone), strict=True))[1:]
    )
    over = max(max(per_half_hour(run)) for run in lite)
    return (
        Claim(
            "Legacy-RSS",
            "15 min, just above 5,000 polls a minute",
            f"{fmean(_seconds(legacy)) / 60:.1f} min, {_per_minute(legacy):,.0f}",
            ok=abs(fmean(_seconds(legacy)) - 900) <= 18 and abs(_per_minute(legacy) / 5000 - 1) <= 0.02,
            note="fails beyond ± 2 %",
        ),
        Claim(
            "detection time at no more load",
            "45 s, about 4,500 polls a minute",
            f"{spread(_seconds(ours))} s, {_per_minute(ours):,.0f}",
            ok=ours_s <= 45 and fmean(_loads(ours)) <= legacy_load * LOAD_SLACK,
            note="our intervals, by one solver that knows all subscribers; the limit of blind polling at "
            "this load "
            "is 40.0 s; fails above 45 s, or at more load than legacy clients",
        ),
        Claim(
            "… with the paper's levels, base 16",
            "45 s, about 4,500 polls a minute",
            f"{spread(_seconds(lite))} s, {_per_minute(lite):,.0f}",
            ok=abs(lite_s - 45) <= 10,
            note=f"fails beyond ± 10 s; misses by {lite_s - 45:.0f} s: 60 nodes leave 60, 4 or 1 pollers "
            "for a channel, and at 20 "
            "polls even the best mixture of these, true sizes of wedges known, takes some 130 s; 45 s is 20 "
            "polls for every channel alike",
        ),
        Claim(
            "… with levels in base 4",
            "–",
            f"{spread(_seconds(base4))} s, {_per_minute(base4):,.0f}",
            ok=None,
            note="60, 15, 4 or 1 pollers, solved centrally"
            + (f"; {fmean(_seconds(full)):.0f} s on rings without empty cells" if full else ""),
        ),
        Claim(
            "the load stays within that of legacy clients, half hour by half hour",
            "at all times",
            "yes" if kept else "no",
            ok=kept,
            note="our intervals, from the second half hour on; fails if one is 1 % above; the paper's "
            f"levels reach {over:.0f} polls "
            f"per channel against {legacy_load:.0f} before they settle",
        ),
    )


def _per_minute(runs: list[Run]) -> float:
    """Polls of all channels in a minute."""
    return fmean(_loads(runs)) * CHANNELS / (SETTING.tau_us / MINUTE_US)


def _table(found: dict[str, list[Run]]) -> Table:
    rows = tuple(
        (
            name,
            spread(_seconds(runs)),
            spread(tuple(run.per_update_s for run in runs)),
            spread(_loads(runs), 2),
            f"{_per_minute(runs):,.0f}",
        )
        for name, runs in found.items()
    )
    header = ("method", "s per subscription", "s per delivered update", "polls per channel", "polls a minute")
    return Table("All methods: mean ± standard deviation over the rings", header, rows)
