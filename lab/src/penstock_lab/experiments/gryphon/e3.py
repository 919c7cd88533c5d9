"""E3 (Pietzuch and Bhola, 2003, §5): nine nodes, a bottleneck and a failure at once; Figures 12 to 15."""

from __future__ import annotations

from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.core.streams.options import StreamOptions
from penstock_lab.experiments.gryphon.measures import (
    caught_up,
    checked,
    mean_delivered,
    mean_published,
    steps,
)
from penstock_lab.experiments.gryphon.plots import draw
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.streams.gryphon import COMPLEX, KB, PUBENDS, GryphonSetting, play

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Played

NAME: Final = "gryphon-e3"
SHOWS: Final = Shows(
    live=False,
    paper="Gryphon",
    figures={"": "Figure 13", "recovery rate": "Figure 14", "alerts": "Figure 15"},
)
GAIN: Final = 0.5
"""Δt_rec of this experiment."""
LIMITED_S: Final = 20
PHASE_S: Final = 120
QUICK_PHASE_S: Final = 50
LEAVES: Final = COMPLEX.leaves
SMOOTHED_S: Final = 30
"""Seconds until the smoothed rate has forgotten the failure: three time constants."""


def setting(*, quick: bool) -> GryphonSetting:
    """Return the setting: PB–IB1 is limited; a phase later IB3–SB5 fails for one phase."""
    phase_s = QUICK_PHASE_S if quick else PHASE_S
    fails = LIMITED_S + phase_s
    return GryphonSetting(
        seconds=fails + phase_s + (110 if quick else 180),
        tree=COMPLEX,
        bandwidth={"IB1": ((LIMITED_S, 150),), "SB1": ((0, 250),)},
        down={"SB5": (fails, fails + phase_s)},
        streams=StreamOptions(recovering_gain=GAIN),
    )


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Simulate one run; pictures go to `out`, if given."""
    one = setting(quick=quick)
    played = play(one, seed=seed, told=steps(progress, 0, one.seconds, "nine nodes"))
    fails, back = one.down["SB5"]
    return ExperimentResult(
        experiment=NAME,
        title="Gryphon E3: a bottleneck and a failure in a larger tree",
        setting=f"1 PHB, 3 IBs, 5 SHBs with two fifths of the messages each; PB–IB1 at 150 KB/s from second "
        f"{LIMITED_S} on, IB3–SB5 down for {back - fails} s, Δt_rec {GAIN}"
        f"{' (shortened by --quick)' if quick else ''}",
        rows=(*_rows(played, fails, back), checked((played,))),
        tables=(_table(played, fails, back),),
        plots=_draw(played, out),
        seed=seed,
    )


def _rows(played: Played, fails: int, back: int) -> tuple[Claim, ...]:
    took = caught_up(played, "SB5", since=back)
    until = back + (took or len(played.samples))
    others = max(max(max(sample.lag[leaf]) for leaf in LEAVES[:-1]) for sample in played.samples)
    rates = _recovery_rates(played, back)
    smoothed = [
        min(sample.horizon_rate["SB5"])
        for sample in played.between(back + SMOOTHED_S, until)
        if sample.recovering["SB5"] == len(PUBENDS)
    ]
    free, limited, during = (
        mean_published(played.between(*span))
        for span in ((5, LIMITED_S), (LIMITED_S + 20, fails), (back + 5, until - 5))
    )
    queue = max(max(sample.queues.values()) for sample in played.samples) / KB
    kinds = [sum(isfinite(getattr(one, name)) for one in played.alerts) for name in ("keeping", "recovering")]
    return (
        Claim(
            "SB5 recovers",
            "all recover",
            "never" if took is None else f"{took} s after its link is back",
            ok=took is not None,
            note="fails if it is still behind at the end",
        ),
        Claim(
            "the others keep up throughout",
            "–",
            f"at most {others:.1f} s behind",
            ok=others < 4,
            note="fails at Δt_s, 4 s",
        ),
        Claim(
            "recovery rate, mean of the recovery",
            f"≥ {1 + GAIN} tick-s/s",
            ", ".join(f"{rate:.2f}" for rate in rates) or "–",
            ok=len(rates) == len(PUBENDS) and min(rates) >= 1 + GAIN,
            note="of each pubend, from the return of the link to the end of its recovery; fails if one "
            "is below",
        ),
        Claim(
            "recovery rate at every moment",
            f"≥ {1 + GAIN} tick-s/s",
            f"{min(smoothed):.2f} at least" if smoothed else "over before",
            ok=min(smoothed) >= 1 + GAIN if smoothed else None,
            note=f"smoothed as in alerts, from {SMOOTHED_S} s after the return of the link on; fails if "
            "it is ever "
            "below: a node complains only once it is, and publication gives way after that",
        ),
        Claim(
            "publication gives way to the bottleneck, and more to the recovery",
            "500, less, even less",
            f"{free:.0f} → {limited:.0f} → {during:.0f} messages/s",
            ok=free > limited > during,
            note="fails unless each is lower than the one before",
        ),
        Claim("no queue builds up", "–", f"{queue:,.0f} KB at most", ok=queue < KB, note="fails at 1 MB"),
        Claim(
            "alerts of both kinds reach PB, folded on the way",
            "Figure 15",
            f"{kinds[0]} of nodes that keep up, {kinds[1]} of such that recover",
            ok=min(kinds) > 0,
            note=f"fails if a kind is missing; {len(played.alerts)} in {len(played.samples)} s from 5 "
            "nodes × 4 pubends",
        ),
    )


def _recovery_rates(played: Played, back: int) -> list[float]:
    """Return SB5's rate per pubend in tick-seconds per second, from the link's return until recovered."""
    found = []
    start = next(sample for sample in played.samples if sample.second == back)
    for pubend in range(len(PUBENDS)):
        end = next(
            (one for one in played.samples if one.second > back and one.lag["SB5"][pubend] < 1.0), None
        )
        if end is not None:
            took = end.second - back
            found.append((took + start.lag["SB5"][pubend] - end.lag["SB5"][pubend]) / took)
    return found


def _table(played: Played, fails: int, back: int) -> Table:
    names = {LIMITED_S: "PB–IB1 at 150 KB/s", fails: "IB3–SB5 down", back: "IB3–SB5 back"}
    rows = []
    for since in range(0, len(played.samples), 20):
        samples = played.between(since, since + 20)
        what = next((name for second, name in names.items() if since <= second < since + 20), "")
        rows.append(
            (
                str(since),
                what,
                f"{mean_published(samples):.0f}",
                *(f"{mean_delivered(samples, leaf):.0f}" for leaf in LEAVES),
                f"{fmean(min(sample.horizon_rate['SB5']) for sample in samples):.2f}",
            )
        )
    header = ("from s", "what", "published", *LEAVES, "SB5 tick-s/s")
    return Table("Messages a second, means of 20 s", header, tuple(rows))


def _draw(played: Played, out: Path | None) -> tuple[Path, ...]:
    panels = ("rates", "horizon", "window", "queue", "alerts")
    title = "PB–IB1 at 150 KB/s, IB3–SB5 fails (Figures 13 to 15)"
    return draw(played, out, NAME, title=title, panels=panels, leaf="SB5", link="IB1")
