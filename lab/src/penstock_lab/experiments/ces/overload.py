"""Constant-rate flows and bursts share an overloaded link, with slots reserved or not.

The paper (004, §4) proposes the control and measures only its filter. This experiment measures what the
control promises for the flows: their loss, jitter and delay while the link is offered 0.5 to 3 times what it
carries. Beside it, how well periods are estimated and packets predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

from penstock.cli.html_page import Table
from penstock.model.instant import SECOND_US
from penstock.policy.text.python_form import drop, policy
from penstock_lab.experiments.ces import admission
from penstock_lab.experiments.ces.periods import error_table, hit_rates, hit_table, period_rows
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs.shows import Shows
from penstock_lab.sim import World
from penstock_lab.sim.constant_rate import BURSTS, VOICE, ConstantRateRun, ConstantRateSetting, run

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.model.event import Event
    from penstock_lab.experiments.result import Progress

NAME: Final = "ces-overload"
SHOWS: Final = Shows(live=False, paper="RBF", figures={"served flows": "Table 2"})
LOADS: Final = (0.5, 1.0, 1.5, 2.0, 3.0)
QUICK_LOADS: Final = (0.5, 1.0, 3.0)
SECONDS: Final = 40
QUICK_SECONDS: Final = 14
SEEDS: Final = 3
QUICK_SEEDS: Final = 1
WARM_UP_US: Final = 4 * SECOND_US
"""Figures count from here on: periods are detected, at the latest after 64 packets of each flow."""

POLICY: Final = policy(drop.lt(3), drop.lt(6), drop.lt(9), attribute="urgency", name="by urgency")


@dataclass(frozen=True, slots=True)
class FlowClass:
    """Loss, jitter and delay of one class of packets."""

    loss: float
    jitter_ms: float
    """Standard deviation of packets from their grid; for bursts, of the delay."""
    delay_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Figures of one load, with or without reservation, over all seeds."""

    load: float
    reserve: bool
    voice: FlowClass
    bursts: FlowClass | None
    packs: int
    served: int
    late: float
    """Share of the flows' packets that came outside their slots."""
    urgent: float
    """Share of the bursts' most urgent events that arrived."""
    accounted: bool
    in_order: bool


def reproduce(*, seed: int, quick: bool, out: Path | None, progress: Progress) -> ExperimentResult:
    """Run all loads; pictures go to `out`, if given."""
    loads = QUICK_LOADS if quick else LOADS
    steps = 2 * len(loads) + 4
    seconds, seeds = (QUICK_SECONDS, QUICK_SEEDS) if quick else (SECONDS, SEEDS)
    progress(0, steps, "the flows alone")
    alone = measure(ConstantRateSetting(seconds=seconds, bursts=False), seed=seed, seeds=seeds)
    found: list[LoadFigures] = []
    for reserve in (True, False):
        for load in loads:
            progress(1 + len(found), steps, f"load {load:g}, {'with' if reserve else 'without'} reservation")
            setting = ConstantRateSetting(seconds=seconds, load=load, reserve=reserve)
            found.append(measure(setting, seed=seed, seeds=seeds))
    full = ConstantRateSetting(seconds=seconds, load=admission.LOAD, flows=admission.FLOWS)
    bound = []
    for number, setting in enumerate((full, admission.never_refusing(full))):
        progress(steps - 3 + number, steps, "more flows than the link carries")
        bound.append(admission.admission(setting, POLICY, warm_up_us=WARM_UP_US, seed=seed, seeds=seeds))
    progress(steps - 1, steps, "periods")
    tries = 60 if quick else 300
    hits = hit_rates(tries=tries // 6, seed=seed)
    tables = (_table(alone, found), error_table(tries=tries, seed=seed), hit_table(hits))
    return ExperimentResult(
        experiment=NAME,
        title="Circuit emulation: constant-rate flows on an overloaded link",
        setting=f"{seconds} s of simulated time{' (shortened by --quick)' if quick else ''}, {seeds} runs "
        "each, 2 Mbit/s, 12 flows of 20, 40 and 50 ms with 5 % jitter, 20 sources of bursts, a queue of 400 "
        "packed by urgency; the flows are detected, figures count from second 4 on. The simulated link takes "
        "one packet at a time and no transport holds any back (window_bytes = 0); over TCP what the kernel "
        "has taken goes first",
        rows=(
            *_rows(alone, found),
            *admission.admission_rows(*bound),
            *period_rows(hits, tries=10 * tries, seed=seed),
        ),
        tables=tables,
        plots=_draw(alone, found, out),
        seed=seed,
        rival="promised",
    )


def _draw(alone: LoadFigures, found: list[LoadFigures], out: Path | None) -> tuple[Path, ...]:
    if out is None or find_spec("matplotlib") is None:
        return ()
    # matplotlib takes a second to import

    return draw(alone, found, out)


def measure(setting: ConstantRateSetting, *, seed: int, seeds: int) -> LoadFigures:
    """Simulate one load over several seeds."""
    runs = [run(World(seed + number, keep_trace=False), setting, POLICY) for number in range(seeds)]
    return LoadFigures(
        load=setting.load,
        reserve=setting.reserve,
        voice=_class([_late(seen.voice) for seen in runs], runs, VOICE, setting),
        bursts=_class([_late(seen.bursts) for seen in runs], runs, BURSTS, setting)
        if setting.bursts
        else None,
        packs=sum(seen.packs for seen in runs),
        served=min(seen.served for seen in runs),
        late=sum(seen.lanes.get("late", 0) for seen in runs) / sum(seen.published[VOICE] for seen in runs),
        urgent=_urgent(runs),
        accounted=all(seen.accounted for seen in runs),
        in_order=all(seen.in_order for seen in runs),
    )


def _late(arrivals: list[tuple[int, Event]]) -> list[tuple[int, Event]]:
    return [(at_us, event) for at_us, event in arrivals if event.ts_us >= WARM_UP_US]


def _class(
    arrivals: list[list[tuple[int, Event]]],
    runs: list[ConstantRateRun],
    kind: str,
    setting: ConstantRateSetting,
) -> FlowClass:
    delays = sorted((at_us - event.ts_us) / 1_000 for each in arrivals for at_us, event in each)
    lost = _lost(arrivals, runs, kind)
    if not delays:
        return FlowClass(lost, inf, inf, inf)
    jitter_ms = pstdev(delays)
    if kind == VOICE:
        jitter_ms = fmean(one for each in arrivals for one in _jitters(each, setting))
    return FlowClass(lost, jitter_ms, fmean(delays), delays[int(0.99 * (len(delays) - 1))])


def _lost(arrivals: list[list[tuple[int, Event]]], runs: list[ConstantRateRun], kind: str) -> float:
    """Return the share of events published after the warm-up that never arrived.

    Runs end when nothing waits, so a flow that is starved to the end has lost all of them.
    """
    missing = published = 0
    for each, seen in zip(arrivals, runs, strict=True):
        received = {(event.sender, event.seq) for _, event in each}
        sent = [
            (event.sender, event.seq)
            for event in seen.events
            if event.topic.startswith(kind) and event.ts_us >= WARM_UP_US
        ]
        published += len(sent)
        missing += sum(one not in received for one in sent)
    return missing / max(1, published)


def _jitters(arrivals: list[tuple[int, Event]], setting: ConstantRateSetting) -> list[float]:
    """Return, for each flow, how far its packets are from their grid, in ms."""
    offsets: dict[str, list[float]] = {}
    for at_us, event in arrivals:
        period_us = setting.periods_us[int(event.sender[1:]) // setting.flows]
        offsets.setdefault(event.sender, []).append((at_us - event.seq * period_us) / 1_000)
    return [pstdev(each) for each in offsets.values()]


def _urgent(runs: list[ConstantRateRun]) -> float:
    """Return the share of the events of urgency 9 that arrived."""
    sent = came = 0
    for seen in runs:
        received = {(event.sender, event.seq) for _, event in seen.bursts}
        for event in seen.events:
            if event.topic.startswith(BURSTS) and event.payload.startswith(b'{"urgency":9'):
                sent += 1
                came += (event.sender, event.seq) in received
    return came / max(1, sent)


def _rows(alone: LoadFigures, found: list[LoadFigures]) -> tuple[Claim, ...]:
    worst = {measured.reserve: measured for measured in found if measured.load == max(LOADS)}
    kept, plain = worst[True], worst[False]
    ratio = kept.voice.jitter_ms / alone.voice.jitter_ms
    assert kept.bursts is not None
    return (
        Claim(
            "served flows keep their jitter at 3 × load",
            "≤ 1.2 × unloaded",
            f"{ratio:.2f} × ({kept.voice.jitter_ms:.2f} ms, unloaded {alone.voice.jitter_ms:.2f} ms)",
            ok=ratio <= 1.2,
            note="fails if packets in their slots wait behind best effort, or if flows are not recognised",
        ),
        Claim(
            "… and lose nothing",
            "< 0.1 %",
            f"{kept.voice.loss:.3%}",
            ok=kept.voice.loss < 0.001,
            note=f"{kept.served} of 12 flows served, {kept.late:.1%} of their packets outside their slots. "
            "Of all packets sent after the warm-up; fails if a lane is not served, also of a flow that is "
            "starved to the end",
        ),
        Claim(
            "without reservation they do not",
            "–",
            f"{plain.voice.jitter_ms / alone.voice.jitter_ms:.0f} × the jitter, {plain.voice.loss:.0%} lost",
            ok=plain.voice.jitter_ms > 2 * kept.voice.jitter_ms and plain.voice.loss > kept.voice.loss,
            note="fails if the link is not overloaded, or if reserving changes nothing",
        ),
        Claim(
            "best effort is packed by its policy meanwhile",
            "packed",
            f"{kept.packs} packs; {1 - kept.bursts.loss:.0%} arrive, {kept.urgent:.0%} of the most urgent",
            ok=kept.packs > 0 and kept.urgent > 1.5 * (1 - kept.bursts.loss),
            note="fails if the queue drops without asking the policy",
        ),
        Claim(
            "every packet is accounted for",
            "–",
            "yes" if all(one.accounted for one in (alone, *found)) else "NO",
            ok=all(one.accounted for one in (alone, *found)),
            note="arrived + in digests + waiting + on the way = published; fails if one is lost or repeated",
        ),
        Claim(
            "the order of each sender's packets is kept",
            "–",
            "yes" if all(one.in_order for one in (alone, *found)) else "NO",
            ok=all(one.in_order for one in (alone, *found)),
            note="fails if a packet overtakes an earlier one of its sender",
        ),
    )


def _table(alone: LoadFigures, found: list[LoadFigures]) -> Table:
    header = ("load", "slots", "class", "loss %", "jitter ms", "delay ms", "p99 ms", "packs")
    rows: list[tuple[str, ...]] = []
    for measured in (alone, *found):
        for name, one in (("flows", measured.voice), ("best effort", measured.bursts)):
            if one is None:
                continue
            rows.append(
                (
                    "flows alone" if measured is alone else f"{measured.load:g}",
                    "reserved" if measured.reserve else "–",
                    name,
                    f"{100 * one.loss:.2f}",
                    f"{one.jitter_ms:.2f}",
                    f"{one.delay_ms:.2f}",
                    f"{one.p99_ms:.1f}",
                    str(measured.packs) if name == "best effort" else "",
                )
            )
    return Table("What each class of packets got", header, tuple(rows))


mpl.use("Agg")

COLOURS: Final = {True: "#1f6f8b", False: "#d1495b"}
PANELS: Final = (("jitter_ms", "jitter, ms"), ("loss", "share lost"), ("p99_ms", "p99 delay, ms"))


def draw(alone: LoadFigures, found: list[LoadFigures], out: Path) -> tuple[Path, ...]:
    """Write the picture to a folder, which is created if needed."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  # after the backend is chosen

    out.mkdir(parents=True, exist_ok=True)
    figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for panel, (name, label) in zip(panels, PANELS, strict=True):
        for reserve, colour in COLOURS.items():
            some = [one for one in found if one.reserve is reserve]
            loads = [one.load for one in some]
            for kind, style in (("flows", "-"), ("best effort", ":")):
                values = [getattr(_draw_class(one, kind), name) for one in some]
                said = f"{kind}, {'slots reserved' if reserve else 'no slots'}"
                panel.plot(loads, values, style, color=colour, marker="o", ms=3, label=said)
        panel.axhline(getattr(alone.voice, name), color="#999999", lw=1, label="flows alone")
        panel.set(xlabel="offered load / link", ylabel=label)
        panel.grid(alpha=0.25)
        if name != "loss":
            panel.set_yscale("log")
    panels[0].legend(fontsize=8)
    path = out / "ces-overload.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return (path,)


def _draw_class(measured: LoadFigures, kind: str) -> FlowClass:
    if kind == "flows":
        return measured.voice
    assert measured.bursts is not None
    return measured.bursts
