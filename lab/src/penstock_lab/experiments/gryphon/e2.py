"""E2 (Pietzuch and Bhola, 2003, §5): an alternating bottleneck, under PDCC and under our own control.

Figures 9, 10 and 11; then what the paper's control leaves unused.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from penstock.cli.html_page import Table
from penstock.core.streams.options import StreamOptions
from penstock_lab.experiments.gryphon.measures import (
    MESSAGE_BYTES,
    checked,
    goodput,
    mean_delivered,
    mean_published,
    steps,
    variation,
)
from penstock_lab.experiments.gryphon.plots import draw
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.streams.gryphon import KB, GryphonSetting, play

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.streams.options import PublisherControl
    from penstock_lab.experiments.result import Progress
    from penstock_lab.sim.streams.gryphon import Played

NAME: Final = "gryphon-e2"
SHOWS: Final = Shows(
    live=False,
    paper="Gryphon",
    figures={
        "PDCC: publication": "Figure 9",
        "PDCC: IB's output queue": "Figure 10",
        "PDCC: alerts": "Figure 11",
    },
)
BEGINS_S: Final = 20
PHASE_S: Final = 120
QUICK_PHASE_S: Final = 60
RATES: Final = (60, 150, 60)
"""Bandwidth between IB and SB1 in each phase, KB/s."""
SETTLED_S: Final = 20
"""Seconds after a change of the bottleneck that do not count as oscillation."""
STARTED_S: Final = 5
"""Seconds in which doubt horizons begin to advance, with alerts that mean nothing."""
HALVED: Final = (0.25, 0.75)
"""Doubt horizon rates taken for the half that the paper reads from Figure 11: ± 50 %."""
SLIGHTLY: Final = 0.8
"""The least rate taken for "slightly below" 1 tick-s/s."""


def setting(control: PublisherControl, *, quick: bool) -> GryphonSetting:
    """Return the setting: three phases of the bottleneck."""
    phase_s = QUICK_PHASE_S if quick else PHASE_S
    schedule = tuple((BEGINS_S + number * phase_s, rate) for number, rate in enumerate(RATES))
    return GryphonSetting(
        seconds=BEGINS_S + len(RATES) * phase_s,
        bandwidth={"SB1": schedule},
        streams=StreamOptions(publisher_control=control),
    )


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Simulate both controls; pictures go to `out`, if given."""
    paper, ours = setting("pdcc", quick=quick), setting("steady", quick=quick)
    total = paper.seconds + ours.seconds
    first = play(paper, seed=seed, told=steps(progress, 0, total, "PDCC"))
    second = play(ours, seed=seed, told=steps(progress, paper.seconds, total, "steady"))
    phases = _phases(paper)
    return ExperimentResult(
        experiment=NAME,
        title="Gryphon E2: a bottleneck that changes",
        setting=f"IB–SB1 at 60, 150 and 60 KB/s for {phases[0][1] - phases[0][0]} s each"
        f"{' (shortened by --quick)' if quick else ''}; PDCC as in the paper, then our control 'steady'",
        rows=(*_rows(first, second, phases), checked((first, second))),
        tables=(_table("PDCC", first, phases), _table("steady", second, phases)),
        plots=_draw(first, second, out),
        seed=seed,
    )


def _phases(one: GryphonSetting) -> list[tuple[int, int, int]]:
    """Return (from, to, KB/s) of each phase."""
    steps_of = one.bandwidth["SB1"]
    ends = [since for since, _ in steps_of[1:]] + [one.seconds]
    return [(since, until, rate) for (since, rate), until in zip(steps_of, ends, strict=True)]


def _rows(first: Played, second: Played, phases: list[tuple[int, int, int]]) -> tuple[Claim, ...]:
    queue = max(sample.queues["SB1"] for sample in first.samples) / KB
    queue_ours = max(sample.queues["SB1"] for sample in second.samples) / KB
    shares = [goodput(second.between(since, until), "SB1", rate) for since, until, rate in phases]
    paper_shares = [goodput(first.between(since, until), "SB1", rate) for since, until, rate in phases]
    swings = [_swing(second, since, until) for since, until, _ in phases]
    paper_swings = [_swing(first, since, until) for since, until, _ in phases]
    return (
        follows(
            first,
            [(since, until, rate * KB / MESSAGE_BYTES) for since, until, rate in phases],
            settled_s=SETTLED_S,
        ),
        Claim(
            "PDCC: IB's output queue stays below 1 MB",
            "< 1 MB",
            f"{queue:,.0f} KB",
            ok=queue < KB,
            note="fails at 1 MB in any second",
        ),
        *alerts(first, phases),
        Claim(
            "steady: mean goodput of the bottleneck",
            "≥ 95 % (our goal)",
            ", ".join(f"{share:.1%}" for share in shares),
            ok=min(shares) >= 0.95,
            note="by phase, changes included; fails if one phase is below; PDCC: "
            + ", ".join(f"{share:.0%}" for share in paper_shares),
        ),
        Claim(
            "steady: oscillation of publication",
            "≤ 10 % (our goal)",
            ", ".join(f"{swing:.1%}" for swing in swings),
            ok=max(swings) <= 0.1,
            note=f"standard deviation / mean from {SETTLED_S} s after a change on; fails if one phase is "
            "above; "
            "PDCC: " + ", ".join(f"{swing:.0%}" for swing in paper_swings),
        ),
        Claim(
            "steady: the queue", "< 1 MB", f"{queue_ours:,.0f} KB", ok=queue_ours < KB, note="fails at 1 MB"
        ),
    )


def follows(played: Played, fits: list[tuple[int, int, float]], *, settled_s: int) -> Claim:
    """Return the paper's claim for phases of (from, to, messages per second that the bottleneck carries)."""
    means = [mean_published(played.between(since + settled_s, until)) for since, until, _ in fits]
    ratios = [mean / fit for mean, (*_, fit) in zip(means, fits, strict=True)]
    return Claim(
        "PDCC: publication follows the bottleneck",
        "60 → 150 → 60 KB/s",
        " → ".join(f"{mean:.0f}" for mean in means) + " messages/s",
        ok=all(0.6 <= ratio <= 1.1 for ratio in ratios),
        note="fails if a phase publishes less than 60 % or more than 110 % of what fits: "
        + ", ".join(f"{fit:.0f}" for *_, fit in fits),
    )


def alerts(played: Played, phases: list[tuple[int, int, int]]) -> tuple[Claim, ...]:
    """Return what the paper reads from Figure 11: doubt horizon rates in alerts that reach the publisher."""
    early = [alert for alert in played.alerts if STARTED_S <= alert.second < phases[0][0]]
    first, again = (
        min(_rates(played, since, since + SETTLED_S), default=1.0) for since, *_ in (phases[0], phases[-1])
    )
    later = [_rates(played, since + SETTLED_S, until) for since, until, _ in phases]
    usual = [median(rates) if rates else 0.0 for rates in later]
    return (
        Claim(
            "PDCC: alerts without congestion",
            "none, but for some at start-up",
            f"{len(early)} from second {STARTED_S} to {phases[0][0]}",
            ok=not early,
            note="fails with the first: a node that keeps up takes noise for congestion",
        ),
        Claim(
            "… the rate in them when the bottleneck begins",
            "half of before",
            f"{first:.2f} tick-s/s at least",
            ok=HALVED[0] <= first <= HALVED[1],
            note=f"the lowest within {SETTLED_S} s; fails outside of {HALVED[0]} to {HALVED[1]}: publication "
            f"gives way too late, or nobody complains; {again:.2f} when it narrows again, from what was "
            "published by then",
        ),
        Claim(
            "… and while it stays as it is",
            "periodically, slightly below 1",
            "; ".join(f"{len(each)}, median {rate:.2f}" for each, rate in zip(later, usual, strict=True)),
            ok=all(SLIGHTLY <= rate < 1 for rate in usual),
            note=f"by phase, from {SETTLED_S} s after its begin on; fails if a phase has none, or a median "
            f"below {SLIGHTLY}",
        ),
    )


def _rates(played: Played, since: int, until: int) -> list[float]:
    return [alert.keeping for alert in played.alerts if since <= alert.second < until]


def _swing(played: Played, since: int, until: int) -> float:
    return variation([sum(sample.published) for sample in played.between(since + SETTLED_S, until)])


def _table(title: str, played: Played, phases: list[tuple[int, int, int]]) -> Table:
    rows = []
    for since, until, rate in phases:
        samples = played.between(since, until)
        alerts = sum(since <= alert.second < until for alert in played.alerts)
        rows.append(
            (
                f"{rate} KB/s",
                f"{mean_published(samples):.0f}",
                f"{mean_delivered(samples, 'SB1'):.0f}",
                f"{goodput(samples, 'SB1', rate):.1%}",
                f"{max(sample.queues['SB1'] for sample in samples) / KB:.0f}",
                f"{max(max(sample.lag['SB1']) for sample in samples):.1f}",
                str(alerts),
            )
        )
    header = ("bottleneck", "published/s", "SB1 msg/s", "goodput", "queue KB", "SB1 behind s", "alerts")
    return Table(title, header, tuple(rows))


def _draw(first: Played, second: Played, out: Path | None) -> tuple[Path, ...]:
    panels = ("rates", "queue", "horizon", "alerts")
    paper = "IB–SB1 at 60, 150, 60 KB/s, PDCC (Figures 9 to 11)"
    return (
        *draw(first, out, f"{NAME}-pdcc", title=paper, panels=panels, leaf="SB1", link="SB1"),
        *draw(second, out, f"{NAME}-steady", title="steady", panels=panels, leaf="SB1", link="SB1"),
    )
