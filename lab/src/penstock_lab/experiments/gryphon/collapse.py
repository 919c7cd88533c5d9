"""Collapse without congestion control (Pietzuch and Bhola, 2003, §2): the paper's Figures 2, 3 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.core.streams.options import StreamOptions
from penstock_lab.experiments.gryphon.measures import checked, mean_delivered, mean_published, steps
from penstock_lab.experiments.gryphon.plots import draw
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.streams.gryphon import KB, GryphonSetting, play

if TYPE_CHECKING:
    from pathlib import Path

    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Played

NAME: Final = "gryphon-collapse"
SHOWS: Final = Shows(
    live=False,
    paper="Gryphon",
    figures={"A: SB1": "Figure 2", "A: IB's queue": "Figure 3", "B: ": "Figure 4"},
)
CUT_S: Final = 20
"""When the trouble begins."""
DOWN_S: Final = 120
"""Length of the failure; not shortened by --quick, since one within IB's cache does no harm."""
OFF: Final = StreamOptions(publisher_control="off", subscriber_control="off")


def settings(*, quick: bool) -> tuple[GryphonSetting, GryphonSetting]:
    """Return both settings. A: a slow link before a leaf. B: a link at the root that recovery fills."""
    slow = GryphonSetting(
        seconds=180 if quick else 300,
        bandwidth={"SB1": ((CUT_S, 60),)},
        streams=OFF,
        fair=False,
        drain_s=0,
    )
    recovering = GryphonSetting(
        seconds=CUT_S + DOWN_S + (60 if quick else 180),
        bandwidth={"IB": ((0, 250),)},
        down={"SB2": (CUT_S, CUT_S + DOWN_S)},
        streams=OFF,
        fair=False,
        drain_s=0,
    )
    return slow, recovering


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Simulate both collapses; pictures go to `out`, if given."""
    slow, recovering = settings(quick=quick)
    total = slow.seconds + recovering.seconds
    first = play(slow, seed=seed, told=steps(progress, 0, total, "a slow link"))
    second = play(recovering, seed=seed, told=steps(progress, slow.seconds, total, "a recovery"))
    return ExperimentResult(
        experiment=NAME,
        title="Gryphon: collapse without congestion control",
        setting="PB–IB–{SB1, SB2}, 4 pubends, 500 messages/s of 400 bytes, no control, queues of 5 MB "
        f"served in order of arrival; A: IB–SB1 cut to 60 KB/s, B: PB–IB at 250 KB/s, IB–SB2 down for "
        f"{DOWN_S} s{' (shortened by --quick)' if quick else ''}",
        rows=(*_rows(first, second), checked((first, second), collapsed=True)),
        tables=(_table("A: IB–SB1 at 60 KB/s", first), _table("B: recovery over PB–IB", second)),
        plots=_draw(first, second, out),
        seed=seed,
    )


def _rows(first: Played, second: Played) -> tuple[Claim, ...]:
    tail_a, tail_b = first.samples[-20:], second.samples[-20:]
    end = mean_delivered(tail_a, "SB1")
    published = mean_published(tail_b)
    rates = [mean_delivered(tail_b, leaf) for leaf in ("SB1", "SB2")]
    full = next((sample.second for sample in first.samples if sample.refused), None)
    queue = max(sample.queues["SB1"] for sample in first.samples) / KB
    return (
        Claim(
            "A: SB1's rate goes to zero",
            "0",
            f"{end:.1f} messages/s in the last 20 s",
            ok=end < 5,
            note="fails at 5 messages/s or more; "
            f"{mean_published(tail_a):.0f} are published, SB2 gets {mean_delivered(tail_a, 'SB2'):.0f}",
        ),
        Claim(
            "A: IB's queue fills up and overflows",
            "5 MB",
            f"{queue:,.0f} KB",
            ok=full is not None,
            note="fails if no message is refused"
            + ("" if full is None else f"; {full - CUT_S} s after the cut"),
        ),
        Claim(
            "B: both rates far below publication",
            "≪ 500",
            f"SB1 {rates[0]:.1f}, SB2 {rates[1]:.1f} of {published:.0f} messages/s",
            ok=max(rates) < 0.5 * published,
            note="in the last 20 s; fails if either gets half of what is published",
        ),
        Claim(
            "B: and they never recover",
            "–",
            f"SB2 is {max(second.samples[-1].lag['SB2']):.0f} s behind at the end",
            ok=max(tail_b[-1].lag["SB2"]) > max(tail_b[0].lag["SB2"]),
            note=f"and falls behind by {_falling(second):.2f} s each second; fails if it comes nearer in "
            "20 s",
        ),
    )


def _falling(played: Played) -> float:
    first, last = played.samples[-20], played.samples[-1]
    return (max(last.lag["SB2"]) - max(first.lag["SB2"])) / (last.second - first.second)


def _table(title: str, played: Played) -> Table:
    rows = tuple(
        (
            str(sample.second),
            str(sum(sample.published)),
            str(sample.delivered["SB1"]),
            str(sample.delivered["SB2"]),
            f"{max(sample.queues.values()) / KB:,.0f}",
            f"{sample.refused:,}",
        )
        for sample in played.samples[:: max(1, len(played.samples) // 15)]
    )
    return Table(title, ("second", "published", "SB1", "SB2", "longest queue KB", "refused"), rows)


def _draw(first: Played, second: Played, out: Path | None) -> tuple[Path, ...]:
    slow = "IB–SB1 at 60 KB/s, no control (Figures 2 and 3)"
    recovery = "PB–IB at 250 KB/s, IB–SB2 down, no control (Figure 4)"
    return (
        *draw(first, out, f"{NAME}-a", title=slow, panels=("rates", "queue"), leaf="SB1", link="SB1"),
        *draw(second, out, f"{NAME}-b", title=recovery, panels=("rates", "queue"), leaf="SB2", link="IB"),
    )
