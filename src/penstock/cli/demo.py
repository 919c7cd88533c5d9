"""`penstock demo`: the tour."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.demo_commands import Found, advise, backtest, generate, run, streams, web_and_flows
from penstock.cli.files import write_text
from penstock.cli.html_page import Page
from penstock.cli.output import MARKS, JsonFlag, escape, out, print_json, print_table, progress, warn
from penstock.errors import GoalMissed
from penstock.experiments.report import add_result
from penstock.policy.explain import explain
from penstock.policy.write import to_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.experiments.outcome import Outcome
    from penstock.policy.nodes import Policy


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where reports and recordings go.")] = Path(
        "out/demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A shorter tour.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32, help="The dice.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """The tour: slow phones, web pages, killed nodes, time slots, and Spark on what was recorded."""
    from penstock.experiments import phones  # noqa: PLC0415  # the tour alone needs these
    from penstock.experiments.ward import POLICY  # noqa: PLC0415

    policy, advised = folder / "ward.yaml", folder / "advised.yaml"
    write_text(policy, to_yaml(POLICY))
    advised.unlink(missing_ok=True)
    if not as_json:
        out.print(f"[bold]The policy of one phone[/] ({escape(str(policy))})\n{escape(to_yaml(POLICY))}")
    # The live part waits more than it works: what does not need its recording is computed meanwhile.
    live, computing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    try:
        web, flows = web_and_flows(folder, seed, quick=quick)
        aside = [
            live.submit(run, web),
            live.submit(run, streams(seed, quick=quick)),
            *(
                computing.submit(run, command)
                for command in (flows, generate(folder, seed, quick=quick), advise(folder, advised))
            ),
        ]
        with progress("demo") as step:
            watched = phones.watch(seed=seed, quick=quick, out=folder, progress=step)
        replaying = live.submit(run, backtest(folder, policy, watched.recording))
        if not as_json:
            _show(watched.outcome)
        if watched.no_picture:
            warn(f"no picture of the dashboard: {watched.no_picture}")
        found: list[Found] = []
        for each in (*aside[:3], replaying, *aside[3:]):
            with progress("demo: the commands beside it, and Spark"):
                found.append(each.result())
            if not as_json:
                _tell(found[-1])
    finally:
        for pool in (live, computing):
            pool.shutdown(cancel_futures=True)
    short = _short(watched.outcome, found)
    report = _report(folder / "report.html", POLICY, watched.outcome, found, short, advised)
    good = watched.outcome.ok and all(one.exit == 0 for one in found)
    if as_json:
        parts = [watched.outcome, *(one.outcome for one in found if one.outcome is not None)]
        print_json(
            {
                "ok": good,
                "report": str(report),
                "parts": [part.as_json() for part in parts],
                "commands": [one.as_json() for one in found],
            }
        )
    else:
        marked = [(escape(what), escape(said), MARKS[holds]) for what, said, holds in short]
        out.print()
        print_table("In short", ("part", "what it showed", "holds"), marked, markup=True)
        out.print(f"The whole story, with pictures: [bold]{escape(str(report))}[/]")
    if not good:
        raise typer.Exit(GoalMissed.exit_code)


def _short(watched: Outcome, found: Sequence[Found]) -> list[tuple[str, str, bool]]:
    """A line for each part: its first claim."""
    lines = [(watched.title, _claim(watched), watched.ok)]
    for one in found:
        first = _claim(one.outcome) if one.outcome is not None else next(iter(one.lines()), "")
        said = one.complaint or first
        lines.append((one.command.title, said, one.exit == 0))
    return lines


def _claim(outcome: Outcome) -> str:
    row = outcome.rows[0]
    return f"{row.what}: {row.ours}; {outcome.rival}: {row.paper}"


def _tell(found: Found) -> None:
    out.print(f"\n[bold]{escape(found.command.title)}[/]\n$ {escape(found.command.line)}", soft_wrap=True)
    if found.outcome is not None:
        _show(found.outcome)
    for said in found.lines():
        out.print(escape(said), soft_wrap=True)


def _show(outcome: Outcome) -> None:
    """The claims and the first figures; the report has the rest."""
    out.print(f"\n[bold]{escape(outcome.title)}[/]\n{escape(outcome.setting)}\n")
    rows = [(escape(row.what), escape(row.paper), escape(row.ours), MARKS[row.ok]) for row in outcome.rows]
    print_table("", ("what", outcome.rival, "ours", "holds"), rows, markup=True)
    for table in outcome.tables[:1]:
        print_table(table.title, table.header, table.rows)
    for path in outcome.plots:
        out.print(f"picture: {escape(str(path))}", soft_wrap=True)


def _report(  # what the tour found, part by part
    path: Path,
    policy: Policy,
    watched: Outcome,
    found: Sequence[Found],
    short: Sequence[tuple[str, str, bool]],
    advised: Path,
) -> Path:
    page = Page("Penstock: the tour")
    page.table(
        ("part", "what it showed", "holds"),
        [(what, said, "yes" if holds else "no") for what, said, holds in short],
    )
    page.heading(watched.title)
    page.code(to_yaml(policy))
    for line in explain(policy):
        page.text(line)
    add_result(page, watched)
    for one in found:
        page.heading(one.command.title)
        page.code(f"$ {one.command.line}")
        if one.outcome is not None:
            add_result(page, one.outcome)
        page.code("\n".join(one.lines()))
    if advised.is_file():
        page.code(advised.read_text())
    return page.write(path)
