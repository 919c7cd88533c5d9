"""The report of the tour: the problem, one chart, three numbers; everything else is folded below them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from penstock.cli.html_page import Page
from penstock.policy.explain import explain
from penstock.policy.text.forms import to_yaml
from penstock_lab.experiments.result import add_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.policy.nodes import Policy
    from penstock_lab.experiments.phones import Moment, Watched
    from penstock_lab.experiments.result import ExperimentResult

WITH, WITHOUT = "with Penstock's policy", "without a policy"

_STYLE: Final = """
.lead { font-size: 1.12rem; } .soft { color: var(--soft); }
.numbers { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1rem; margin: 1.2rem 0;
  padding: 0; }
.numbers div { background: var(--wash); border-radius: 12px; padding: .9rem 1.1rem; }
.numbers dt { color: var(--soft); } .numbers dd { margin: 0; }
.numbers .big { font-size: 2.1rem; font-weight: 650; line-height: 1.2; color: var(--ours); }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.4rem;
  margin: 1rem 0 .3rem; }
.charts figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto;
  display: block; }
svg text { fill: var(--soft); font: 13px system-ui, sans-serif; } svg .grid { stroke: var(--line); }
svg polyline { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
.ours { stroke: var(--ours); } .other { stroke: var(--other); } .sent { stroke: var(--soft);
  stroke-dasharray: 4 5; }
@media (max-width: 44rem) { .numbers, .charts { grid-template-columns: minmax(0, 1fr); }
  .numbers { gap: .6rem; } }
"""


@dataclass(frozen=True, slots=True)
class Part:
    """One further part of the tour: a command, and what it found."""

    title: str
    line: str
    """The command as a user types it."""
    outcome: ExperimentResult | None
    lines: tuple[str, ...]
    ok: bool


def summary(part: Part) -> str:
    """Return the first thing that a part showed, in one line."""
    if part.outcome is not None and part.outcome.rows:
        return claim(part.outcome)
    return next(iter(part.lines), "")


def claim(outcome: ExperimentResult) -> str:
    """Return the first row that does not hold, or else the first one, in one line."""
    row = next((row for row in outcome.rows if row.ok is False), outcome.rows[0])
    return f"{row.what}: {row.ours} ({outcome.rival}: {row.paper})"


def other_work(load: float, cores: int) -> str:
    """Say that the machine was busy before the tour began; empty if it was not."""
    if load <= cores:
        return ""
    return (
        f"This machine was busy before the tour began (load {load:.1f} on {cores} cores). "
        "The tour measures real processes: run it again when the machine is idle."
    )


def write_report(
    path: Path,
    *,
    policy: Policy,
    watched: Watched,
    parts: Sequence[Part],
    files: Sequence[tuple[Path, str]],
    busy: str = "",
) -> Path:
    """Write the report; `files` are those to open next, each with what is in it.

    `busy` is said beside what does not hold: `other_work`.
    """
    page = Page("Penstock: the tour", heading=_headline(watched), style=_STYLE)
    page.raw(_problem(watched))
    page.raw(_charts(watched.moments))
    page.raw(_numbers(watched))
    failed = [(part.title, summary(part)) for part in parts if not part.ok]
    if not watched.outcome.ok:
        failed.insert(0, (watched.outcome.title, claim(watched.outcome)))
    if failed:
        page.raw('<p class="no">Not everything held in this run:</p>')
        page.raw(f"<ul>{''.join(f'<li>{escape(title)}: {escape(said)}</li>' for title, said in failed)}</ul>")
        if busy:
            page.text(busy)
    page.heading("Open next")
    page.raw(_files(path.parent, files))
    page.heading("Details")
    with page.folded(
        "The policy of the phone", "what the phone asked the node to do when its link is too slow"
    ):
        page.code(to_yaml(policy))
        for line in explain(policy):
            page.text(line)
    with page.folded(watched.outcome.title, watched.outcome.setting):
        add_result(page, _judged(watched.outcome))
    for part in parts:
        with page.folded(f"{part.title}{'' if part.ok else ' (failed)'}", summary(part)):
            page.code(f"$ {part.line}")
            if part.outcome is not None:
                add_result(page, _judged(part.outcome))
            page.code("\n".join(part.lines))
    return page.write(path)


def _judged(outcome: ExperimentResult) -> ExperimentResult:
    """Leave out rows for information only: a report that has to convince shows what can fail."""
    return replace(outcome, rows=tuple(row for row in outcome.rows if row.ok is not None))


def _headline(watched: Watched) -> str:
    share = watched.alarms_shown[0]
    found = "Every alarm arrives" if share >= 1 else f"{_percent(share)} of the alarms arrive"
    return f"{found} on a link that is too slow"


def _problem(watched: Watched) -> str:
    return (
        '<p class="lead">A phone on a slow link cannot take what 200 heart monitors send: its queue fills, '
        "and messages are dropped, alarms among them. With Penstock the phone says what matters to it; that "
        "goes first, and what is left out is counted in short digests.</p>"
        f'<p class="soft">Two phones, the same {watched.readings:,} readings, the same 50 kbit/s; real '
        "processes on this machine, just now.</p>"
    )


def _numbers(watched: Watched) -> str:
    share, delay_s, told = watched.alarms_shown, watched.delays_s, watched.told
    cells = (
        (_percent(share[0]), "of the alarms arrive", f"{_percent(share[1])} without a policy"),
        (f"{delay_s[0]:.1f} s", "until an alarm is seen (median)", f"{delay_s[1]:.1f} s without a policy"),
        (
            f"{watched.readings - told[0]:,}",
            "readings lost without a word",
            f"{told[0]:,} of {watched.readings:,} shown, or counted in a digest",
        ),
    )
    made = "".join(
        f'<div><dd class="big">{big}</dd><dt>{what}</dt><dd class="soft">{other}</dd></div>'
        for big, what, other in cells
    )
    return f'<dl class="numbers">{made}</dl>'


def _percent(share: float) -> str:
    """Round down: 100 % means all of them."""
    return f"{int(share * 100)} %"


def _files(folder: Path, files: Sequence[tuple[Path, str]]) -> str:
    rows = []
    for path, about in files:
        if path.exists():
            name = os.path.relpath(path, folder)
            rows.append(f'<li><a href="{escape(quote(name))}">{escape(name)}</a>: {escape(about)}</li>')
    return f"<ul>{''.join(rows)}</ul>"


# -- the chart --------------------------------------------------------------------------------

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 36, 8, 12, 26


def _charts(moments: Sequence[Moment]) -> str:
    """Draw alarms so far and the age of what is shown, second by second, for both phones."""
    if not moments:
        return ""
    seconds = [each.second for each in moments]
    alarms = _chart(
        "Alarms seen so far",
        seconds,
        {
            "sent": [float(each.alarms) for each in moments],
            "other": [float(each.shown[1]) for each in moments],
            "ours": [float(each.shown[0]) for each in moments],
        },
        lambda value: f"{value:,.0f}",
    )
    ages = _chart(
        "Age of the readings on the screen, in seconds",
        seconds,
        {"other": [each.ages_s[1] for each in moments], "ours": [each.ages_s[0] for each in moments]},
        lambda value: f"{value:.0f}",
    )
    key = (
        '<p><span style="color:var(--ours)">&#9644; ' + WITH + "</span> &ensp; "
        '<span style="color:var(--other)">&#9644; ' + WITHOUT + "</span> &ensp; "
        '<span class="soft">&#9476;&#9476; alarms of the monitors</span></p>'
    )
    return f'<div class="charts">{alarms}{ages}</div>{key}'


def _chart(
    title: str, seconds: Sequence[int], lines: dict[str, list[float]], show: Callable[[float], str]
) -> str:
    top = _round_up(max(max(values) for values in lines.values()))
    span = max(seconds[-1], 1)

    def place(second: float, value: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * second / span,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top,
        )

    parts = []
    for step in range(3):
        value = top * step / 2
        _, y = place(0, value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{show(value)}</text>')
    for kind, values in lines.items():
        points = " ".join("{:.1f},{:.1f}".format(*place(*each)) for each in zip(seconds, values, strict=True))
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">start</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{span} s</text>')
    last = ", ".join(
        f"{ {'ours': WITH, 'other': WITHOUT, 'sent': 'monitors'}[kind] } {show(values[-1])}"
        for kind, values in lines.items()
    )
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}; at the end: {escape(last)}">'
        f"{''.join(parts)}</svg></figure>"
    )


def _round_up(value: float) -> float:
    """Return an even number at or above the value with one or two digits that count."""
    step = 2.0
    while value > 10 * step:
        step *= 5 if str(step)[0] == "2" else 2
    return step * max(1, -int(-value // step))
