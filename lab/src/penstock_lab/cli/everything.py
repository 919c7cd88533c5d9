"""`penstock reproduce all` and `penstock bench all`: every run in turn, one table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import print_json
from penstock.cli.terminal import MARKS, err, escape, out, print_table, progress
from penstock.errors import GoalMissed
from penstock_lab.runs import stored
from penstock_lab.runs.everything import FULL, QUICK, Ended, run_all
from penstock_lab.runs.table import HEADER, rows_of_all

ALL = "all"
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Also keep the result in a file of its own in this folder."),
]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="NAME,NAME…", help="With `all`: these alone, in this order."),
]
IN_ALL = f"`all` ends by itself: with --quick within {QUICK}, else {FULL}."


def selected(commands: dict[str, list[str]], only: str | None) -> dict[str, list[str]]:
    """Return the commands named in `--only`, in its order; all of them if it was not given."""
    if only is None:
        return commands
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in commands]
    if unknown or not names:
        wrong = f"there is no '{unknown[0]}'" if unknown else "no name is given"
        raise typer.BadParameter(f"--only: {wrong}; there are {', '.join(commands)}")
    return {name: commands[name] for name in names}


def no_selection(only: str | None) -> None:
    """Refuse `--only` of a single run."""
    if only is not None:
        raise typer.BadParameter(f"--only selects from '{ALL}': write {ALL} --only {only}, or no --only")


def run_everything(
    kind: str,
    commands: dict[str, list[str]],
    *,
    only: str | None,
    quick: bool,
    store: Path | None,
    as_json: bool,
    judged: bool,
) -> None:
    """Run all commands and show one table; exits as a single run would, with the first failure's code."""
    commands = selected(commands, only)
    words = ["penstock", kind, ALL, *(["--only", ",".join(commands)] if only else [])]
    begun = stored.Begun()
    with progress(f"{kind} {ALL}") as step:

        def told(number: int, name: str, one: Ended | None) -> None:
            step(number, len(commands), name)
            if one is not None:
                err.print(escape(_line(one)), soft_wrap=True)
                if store is not None and one.found is not None:
                    stored.write(store, f"{kind}-{name}", one.found)

        ended = run_all(commands, QUICK if quick else FULL, told)
    rows = rows_of_all(ended)
    failed = [one for one in ended if one.found is None]
    ok = all(row.ok is not False for row in rows)
    if as_json:
        found: dict[str, Any] = {
            kind: ALL,
            "ok": ok,
            "table": [row.as_json() for row in rows],
            "errors": [{"of": one.name, "error": one.error, "exit": one.exit_code} for one in failed],
            "runs": {one.name: one.found for one in ended if one.found is not None},
            "run": begun.ended(" ".join((*words, "--quick") if quick else words), quick=quick),
        }
        print_json(found)
    else:
        shown = [
            (
                *map(escape, (row.figure or row.of, row.what, row.paper, row.ours, row.how)),
                MARKS[row.ok],
                escape(row.note),
            )
            for row in rows
        ]
        print_table(f"{kind} {ALL}", HEADER, shown, markup=True)
        holds = [sum(row.ok is each for row in rows) for each in (True, False, None)]
        out.print("{} rows hold, {} do not, {} are not judged".format(*holds) + f"; {begun.seconds:.0f} s")
    if failed:
        raise typer.Exit(failed[0].exit_code)
    if judged and not ok:
        raise typer.Exit(GoalMissed.exit_code)


def _line(one: Ended) -> str:
    """Say in a line how a run ended."""
    if one.found is None:
        return f"{one.name}: failed after {one.seconds:.0f} s: {one.error}"
    judged = [row["ok"] for row in one.found["rows"] if row["ok"] is not None]
    return f"{one.name}: {sum(judged)} of {len(judged)} rows hold, {one.seconds:.0f} s"
