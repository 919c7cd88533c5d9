"""`penstock demo`: the tour."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.files import write_text
from penstock.cli.output import MARKS, JsonFlag, escape, out, print_json, print_table, progress, warn
from penstock.errors import GoalMissed
from penstock.experiments.outcome import Outcome
from penstock.experiments.report import Page
from penstock.policy.explain import explain
from penstock.policy.write import to_yaml


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where reports and recordings go.")] = Path(
        "out/demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A shorter tour.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32, help="The dice.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """The tour: sensors, a node and two slow phones, one with a policy; then Spark on what was recorded."""
    from penstock.experiments import phones  # noqa: PLC0415  # the tour alone needs these
    from penstock.experiments.ward import POLICY  # noqa: PLC0415

    page = Page("Penstock: the tour")
    text = to_yaml(POLICY)
    policy = folder / "ward.yaml"
    write_text(policy, text)
    if not as_json:
        out.print(f"[bold]The policy of one phone[/] ({escape(str(policy))})\n{escape(text)}")
    with progress("demo") as step:
        watched = phones.watch(seed=seed, quick=quick, out=folder, progress=step)
    if not as_json:
        _show(watched.outcome)
        for path in watched.outcome.plots:
            out.print(f"the dashboard meanwhile: {escape(str(path))}")
    if watched.no_picture:
        warn(f"no picture of the dashboard: {watched.no_picture}")
    page.heading(watched.outcome.title)
    page.code(text)
    for line in explain(POLICY):
        page.text(line)
    page.outcome(watched.outcome)
    steps = [
        _run(name, command, page, as_json=as_json)
        for name, command in _commands(folder, policy, watched.recording, seed, quick=quick).items()
    ]
    advised = folder / "advised.yaml"
    if advised.is_file():
        page.code(advised.read_text())
    report = page.write(folder / "report.html")
    good = watched.outcome.ok and all(found["exit"] == 0 for found in steps)
    if as_json:
        print_json(
            {"ok": good, "report": str(report), "parts": [watched.outcome.as_json()], "commands": steps}
        )
    else:
        out.print(f"\nThe whole story, with pictures: [bold]{escape(str(report))}[/]")
    if not good:
        raise typer.Exit(GoalMissed.exit_code)


def _commands(folder: Path, policy: Path, recording: Path, seed: int, *, quick: bool) -> dict[str, list[str]]:
    """What is done on Spark: commands as anybody would give them."""
    vitals, events = str(folder / "vitals.parquet"), "10000" if quick else "50000"
    return {
        "Spark: what was recorded, replayed under the policy and without": [
            *("backtest", "--events", str(recording), "--policy", str(policy)),
            *("--capacity", "300", "--drain", "50kbit/s", "--out", str(folder)),
        ],
        "Spark: a larger stream": [
            *("generate", "vitals", "--events", events, "--seed", str(seed)),
            *("--out", vitals, "--overwrite"),
        ],
        "Spark: a policy for it, learned and checked": [
            *("advise", "--events", vitals, "--key", "sender", "--attribute", "pulse"),
            *("--budget", "0.3", "--out", str(folder / "advised.yaml")),
        ],
    }


def _run(name: str, command: list[str], page: Page, *, as_json: bool) -> dict[str, Any]:
    """One command of the tour, in a process of its own; it draws its own progress."""
    line = " ".join(("penstock", *command))
    page.heading(name)
    page.code(line)
    if not as_json:
        out.print(f"\n[bold]{escape(name)}[/]\n$ {escape(line)}", soft_wrap=True)
    done = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-m", "penstock", *command, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout.strip() else {}
    page.code("\n".join(summary(found)))
    if not as_json:
        for said in summary(found):
            out.print(escape(said), soft_wrap=True)
    return {"command": line, "exit": done.returncode, "found": found}


def summary(found: dict[str, Any]) -> list[str]:
    """What a command found, in a few lines."""
    lines: list[str] = []
    for name, account in found.get("candidates", {}).items():
        mean, p99 = (account["latency_s"][key] or 0.0 for key in ("mean", "p99"))
        lines.append(
            f"{name}: accepted {account['accepted']:,} = delivered {account['delivered']:,} + "
            f"{'dropped' if name.startswith('drop-') else 'digested'} {account['digested']:,}; "
            f"latency mean {mean:.1f} s, p99 {p99:.1f} s"
        )
    for level in found.get("levels", ()):
        expected, measured = level["expected"]["kept"], level["measured"]["kept"]
        why = " ".join(level["reasons"])
        lines.append(
            f"level {level['level']}: keeps {expected:.0%} as learned, {measured:.0%} held out; {why}"
        )
    if "stream" in found and "events" in found:
        lines.append(f"{found['events']:,} events: {found['path']}")
    lines += [f"written: {found[key]}" for key in ("report", "out") if found.get(key)]
    if "error" in found:
        lines.append(f"error: {found['error']['message']}")
    return lines


def _show(outcome: Outcome) -> None:
    out.print(f"\n[bold]{escape(outcome.title)}[/]\n{escape(outcome.setting)}\n")
    rows = [(escape(row.what), escape(row.paper), escape(row.ours), MARKS[row.ok]) for row in outcome.rows]
    print_table("", ("what", outcome.rival, "ours", "holds"), rows, markup=True)
    for table in outcome.tables:
        print_table(table.title, table.header, table.rows)
