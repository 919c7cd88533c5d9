"""E1 between real nodes: a link fails and comes back, under PDCC and SDCC, on loopback and in less time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock_lab.experiments.gryphon.e1 import rows, table
from penstock_lab.experiments.gryphon.live.tree import MESSAGE_BYTES, RATE, Change, LiveSetting, play
from penstock_lab.experiments.gryphon.measures import checked, mean_published, recovered
from penstock_lab.experiments.gryphon.plots import draw
from penstock_lab.experiments.result import ExperimentResult
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Played, Sample

NAME: Final = "gryphon-e1-live"
SHOWS: Final = Shows(live=True, paper="Gryphon", figures={"": "Figure 7", "the NACK window": "Figure 8"})
FAILS_S: Final = 15
DOWN_S: Final = 20
QUICK_DOWN_S: Final = 14
"""Longer than the receive window of ten seconds: what comes then has to be recovered."""
MOST_S: Final = 165
ROOM: Final = 1.28
"""Capacity of PB–IB divided by the rate of publication: 250 KB/s for 195 KB/s in the paper."""
LAST_S: Final = 10
"""Seconds for which publication must be back at its rate to end the run."""


def setting(*, quick: bool) -> LiveSetting:
    """Return the simulator's setting of E1, scaled down."""
    back = FAILS_S + (QUICK_DOWN_S if quick else DOWN_S)

    def over(samples: list[Sample]) -> bool:
        if samples[-1].second < back + 2 * LAST_S or not recovered(samples[-1], "SB2"):
            return False
        return mean_published(samples[-LAST_S:]) > 0.98 * RATE

    return LiveSetting(
        seconds=MOST_S,
        links={("PB", "IB"): ROOM * RATE * MESSAGE_BYTES},
        changes=(
            Change(FAILS_S, "IB", "SB2", {"enabled": False}),
            Change(back, "IB", "SB2", {"enabled": True}),
        ),
        stop=over,
    )


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Run the experiment once; pictures go to `out`, if given."""
    one = setting(quick=quick)
    played = play(one, told=lambda second: progress(second, one.seconds, "a link fails and comes back"))
    back = one.changes[1].second
    rate = one.links["PB", "IB"]
    return ExperimentResult(
        experiment=NAME,
        title="Gryphon E1 live: congestion control after a link failure",
        setting=f"four nodes on loopback, {RATE} messages/s of {MESSAGE_BYTES} bytes, PB–IB at "
        f"{rate / 1_000:.0f} kB/s, IB–SB2 down for {back - FAILS_S} s, PDCC and SDCC"
        f"{' (shortened by --quick)' if quick else ''}",
        rows=(*rows(played, fails=FAILS_S, back=back), checked((played,))),
        tables=(table(played, back),),
        plots=_draw(played, out),
        seed=seed,
    )


def _draw(played: Played, out: Path | None) -> tuple[Path, ...]:
    panels = ("rates", "window", "horizon", "queue")
    title = "Four processes, PB–IB limited, IB–SB2 fails (Figures 7 and 8)"
    return draw(played, out, NAME, title=title, panels=panels, leaf="SB2", link="IB")
