"""`penstock demo`: the tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import MARKS, JsonFlag, escape, out, print_json, print_table, progress
from penstock.errors import GoalMissed
from penstock.experiments.catalogue import EXPERIMENTS, load
from penstock.experiments.outcome import Outcome
from penstock.experiments.report import Page
from penstock.policy.explain import explain
from penstock.policy.write import to_yaml


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the report goes.")] = Path("out/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A shorter tour.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32, help="The dice.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """The tour: a ward of patients on a slow link, with a policy and without; then the paper's Figure 8."""
    from penstock.experiments.ward import POLICY  # noqa: PLC0415  # the tour alone needs it

    page = Page("Penstock: the tour")
    outcomes: list[Outcome] = []
    for name, opening in (
        ("ward", f"The policy, which the receiver wrote:\n\n{to_yaml(POLICY)}"),
        ("pack-fig8", "A full queue before a slow link, in the setting of the PACK paper's Figure 8."),
    ):
        with progress("demo") as step:
            outcome = load(EXPERIMENTS[name])(seed=seed, quick=quick, out=folder, progress=step)
        outcomes.append(outcome)
        page.heading(outcome.title)
        page.code(opening)
        for line in explain(POLICY) if name == "ward" else ():
            page.text(line)
        page.outcome(outcome)
        if not as_json:
            _show(outcome, opening)
    report = page.write(folder / "report.html")
    good = all(outcome.ok for outcome in outcomes)
    if as_json:
        found: dict[str, Any] = {"ok": good, "report": str(report)}
        print_json(found | {"parts": [outcome.as_json() for outcome in outcomes]})
    else:
        out.print(f"\nThe whole story, with pictures: [bold]{escape(str(report))}[/]")
    if not good:
        raise typer.Exit(GoalMissed.exit_code)


def _show(outcome: Outcome, opening: str) -> None:
    out.print(f"\n[bold]{escape(outcome.title)}[/]\n{escape(outcome.setting)}\n")
    out.print(escape(opening))
    rows = [(escape(row.what), escape(row.paper), escape(row.ours), MARKS[row.ok]) for row in outcome.rows]
    print_table("", ("what", outcome.rival, "ours", "holds"), rows, markup=True)
    for table in outcome.tables:
        print_table(table.title, table.header, table.rows)
