"""E2 between real nodes: a bottleneck that changes, under PDCC, on loopback and in less time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock_lab.experiments.gryphon.e2 import follows
from penstock_lab.experiments.gryphon.live.tree import MESSAGE_BYTES, RATE, Change, LiveSetting, play
from penstock_lab.experiments.gryphon.measures import checked, mean_delivered, mean_published
from penstock_lab.experiments.gryphon.plots import draw
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.streams.gryphon import KB

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Played

NAME: Final = "gryphon-e2-live"
SHOWS: Final = Shows(
    live=True,
    paper="Gryphon",
    figures={"PDCC: publication": "Figure 9", "PDCC: IB's output queue": "Figure 10"},
)
BEGINS_S: Final = 10
PHASE_S: Final = 45
QUICK_PHASE_S: Final = 35
SETTLED_S: Final = 15
"""Seconds after a change of the bottleneck that do not count."""
SHARES: Final = (0.307, 0.768, 0.307)
"""Share of the wanted publication rate that IB–SB1 carries in each phase: 60, 150 and 60 of 195 KB/s."""


def phases(*, quick: bool) -> list[tuple[int, int, float]]:
    """Return (from, to, messages per second that fit) of each phase."""
    length = QUICK_PHASE_S if quick else PHASE_S
    starts = [BEGINS_S + number * length for number in range(len(SHARES))]
    return [(start, start + length, share * RATE) for start, share in zip(starts, SHARES, strict=True)]


def setting(*, quick: bool) -> LiveSetting:
    """Return the simulator's setting of E2, scaled down."""
    found = phases(quick=quick)
    return LiveSetting(
        seconds=found[-1][1],
        changes=tuple(
            Change(since, "IB", "SB1", {"bytes_per_s": fit * MESSAGE_BYTES}) for since, _, fit in found
        ),
    )


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Run the experiment once; pictures go to `out`, if given."""
    one, found = setting(quick=quick), phases(quick=quick)
    played = play(one, told=lambda second: progress(second, one.seconds, "a bottleneck that changes"))
    queue = max(sample.queues["SB1"] for sample in played.samples)
    rates = ", ".join(f"{fit * MESSAGE_BYTES / 1_000:.1f}" for *_, fit in found)
    scale = RATE * MESSAGE_BYTES / (500 * 400)
    return ExperimentResult(
        experiment=NAME,
        title="Gryphon E2 live: a bottleneck that changes",
        setting=f"four nodes on loopback, {RATE} messages/s of {MESSAGE_BYTES} bytes, IB–SB1 at {rates} kB/s "
        f"for {found[0][1] - found[0][0]} s each, PDCC{' (shortened by --quick)' if quick else ''}",
        rows=(
            follows(played, found, settled_s=SETTLED_S),
            Claim(
                "PDCC: IB's output queue stays below 1 MB",
                "< 1 MB",
                f"{queue / KB:,.0f} KB",
                ok=queue < scale * KB * KB,
                note=f"fails at {scale * KB:,.0f} KB, as rates are scaled down",
            ),
            checked((played,)),
        ),
        tables=(_table(played, found),),
        plots=_draw(played, out),
        seed=seed,
    )


def _table(played: Played, found: list[tuple[int, int, float]]) -> Table:
    rows = []
    for since, until, fit in found:
        samples = played.between(since, until)
        rows.append(
            (
                f"{fit:.0f}",
                f"{mean_published(samples):.0f}",
                f"{mean_delivered(samples, 'SB1'):.0f}",
                f"{mean_delivered(samples, 'SB2'):.0f}",
                f"{max(sample.queues['SB1'] for sample in samples) / KB:.1f}",
                f"{max(max(sample.lag['SB1']) for sample in samples):.1f}",
            )
        )
    header = ("fit/s", "published/s", "SB1 msg/s", "SB2 msg/s", "queue KB", "SB1 behind s")
    return Table("By phase, changes included", header, tuple(rows))


def _draw(played: Played, out: Path | None) -> tuple[Path, ...]:
    title = "Four processes, IB–SB1 limited, PDCC (Figures 9 to 11)"
    panels = ("rates", "queue", "horizon")
    return draw(played, out, NAME, title=title, panels=panels, leaf="SB1", link="SB1")
