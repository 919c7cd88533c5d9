"""`penstock demo`: the tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import MARKS, JsonFlag, escape, out, print_json, print_table, progress
from penstock.errors import GoalMissed
from penstock.experiments import pack_fig8, ward
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
    outcomes: list[tuple[Outcome, str]] = []
    page = Page("Penstock: the tour")
    for experiment, opening in (
        (ward.reproduce, _ward_opening()),
        (pack_fig8.reproduce, "The same queue with the PACK paper's policy and link: its Figure 8."),
    ):
        with progress("demo") as step:
            outcome = experiment(seed=seed, quick=quick, out=folder, progress=step)
        outcomes.append((outcome, opening))
        page.heading(outcome.title)
        if experiment is ward.reproduce:
            page.code(to_yaml(ward.POLICY))
            for line in explain(ward.POLICY):
                page.text(line)
        page.outcome(outcome)
        if not as_json:
            _show(outcome, opening)
    report = page.write(folder / "report.html")
    good = all(outcome.ok for outcome, _ in outcomes)
    if as_json:
        found: dict[str, Any] = {"ok": good, "report": str(report)}
        print_json(found | {"parts": [outcome.as_json() for outcome, _ in outcomes]})
    else:
        out.print(f"\nThe whole story, with pictures: [bold]{escape(str(report))}[/]")
    if not good:
        raise typer.Exit(GoalMissed.exit_code)


def _ward_opening() -> str:
    return f"The policy, which the receiver wrote:\n\n{to_yaml(ward.POLICY)}"


def _show(outcome: Outcome, opening: str) -> None:
    out.print(f"\n[bold]{escape(outcome.title)}[/]\n{escape(outcome.setting)}\n")
    out.print(escape(opening))
    rows = [(escape(row.what), escape(row.paper), escape(row.ours), MARKS[row.ok]) for row in outcome.rows]
    compared = "without" if outcome.experiment == ward.NAME else "paper"
    print_table("", ("what", compared, "ours", "holds"), rows, markup=True)
    for table in outcome.tables:
        print_table(table.title, table.header, table.rows)
