"""`penstock demo`: the tour, which runs other commands of `penstock`, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.output import JsonFlag, print_json, warn
from penstock.cli.starters import write_yaml
from penstock.cli.terminal import MARKS, escape, out, print_table, progress
from penstock.errors import GoalMissed
from penstock.policy.text.forms import to_yaml
from penstock_lab.cli import tour
from penstock_lab.experiments.result import ExperimentResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_lab.experiments.phones import Watched

ASIDE: Final = 10
"""Niceness of commands that run beside the live part, so that phones and pages keep their pace."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the tour."""

    title: str
    words: tuple[str, ...]
    aside: bool = False
    """Whether the command runs at low priority beside the live part."""

    @property
    def line(self) -> str:
        """Return the command as a user would type it."""
        return " ".join(("penstock", *self.words))


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command."""

    command: Command
    exit: int
    answer: dict[str, Any]
    """The JSON it printed; empty if none."""
    complaint: str
    """The last line of its other output, if it failed."""
    seconds: float

    @property
    def outcome(self) -> ExperimentResult | None:
        """Return the result of an experiment; only for commands that are experiments."""
        return ExperimentResult.from_json(self.answer) if "experiment" in self.answer else None

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON for `penstock demo --json`."""
        return {
            "command": self.command.line,
            "exit": self.exit,
            "seconds": round(self.seconds, 3),
            "found": self.answer,
        }

    def lines(self) -> list[str]:
        """Return the result in a few lines of text."""
        return [*_lines(self.answer), *([f"error: {self.complaint}"] if self.complaint else [])]


def run(command: Command) -> CommandResult:
    """Run a command to its end."""
    start_s = perf_counter()
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "penstock", *command.words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if command.aside:
            os.setpriority(os.PRIO_PROCESS, process.pid, ASIDE)
        printed, said = process.communicate()
    answer: dict[str, Any] = json.loads(printed) if printed.strip() else {}
    complaint = ""
    if process.returncode and "experiment" not in answer:
        last = said.strip().splitlines()
        complaint = answer.get("error", {}).get("message") or (last[-1] if last else "no output")
    return CommandResult(command, process.returncode, answer, complaint, perf_counter() - start_s)


def web_and_flows(folder: Path, seed: int, *, quick: bool) -> tuple[Command, Command]:
    """Return the commands about web channels and time slots."""
    more = ("--seed", str(seed), "--out", str(folder))
    return (
        Command("Web channels", ("reproduce", "web-feed", *(("--quick",) if quick else ()), *more)),
        Command("Time slots", ("reproduce", "ces-overload", "--quick", *more), aside=True),
    )


def streams(seed: int, *, quick: bool) -> Command:
    """Return the command that kills processes of reliable streams."""
    rounds = "1" if quick else "3"
    return Command("Reliable streams", ("reproduce", "streams-kill", "--rounds", rounds, "--seed", str(seed)))


def moving(seed: int) -> Command:
    """Return the command in which clients move between the nodes of a cluster."""
    return Command(
        "A cluster: phones move between three nodes",
        ("reproduce", "pack-fig9", "--quick", "--seed", str(seed)),
    )


def generate(folder: Path, seed: int, *, quick: bool) -> Command:
    """Return the command that generates a larger stream for Spark."""
    return Command(
        "Spark: a larger stream",
        (
            *("generate", "vitals", "--events", "10000" if quick else "50000", "--seed", str(seed)),
            *("--out", str(folder / "vitals.parquet"), "--overwrite"),
        ),
        aside=True,
    )


def backtest(folder: Path, policy: Path, recording: Path) -> Command:
    """Return the command that replays the recording under the policy and without one."""
    return Command(
        "What was recorded, replayed under the policy and without",
        (
            *("backtest", "--events", str(recording), "--policy", str(policy)),
            *("--capacity", "300", "--drain", "50kbit/s", "--out", str(folder)),
        ),
    )


def advise(folder: Path, advised: Path) -> Command:
    """Return the command that derives a policy from the generated stream."""
    return Command(
        "Spark: a policy for the larger stream, learned and checked",
        (
            *(
                "advise",
                "--events",
                str(folder / "vitals.parquet"),
                "--attribute",
                "pulse",
                "--matters",
                "> 120",
            ),
            *("--budget", "0.5", "--capacity", "300", "--drain", "50/s", "--out", str(advised)),
        ),
    )


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    for name, account in answer.get("candidates", {}).items():
        mean, p99 = (account["latency_s"][key] or 0.0 for key in ("mean", "p99"))
        yield (
            f"{name}: accepted {account['accepted']:,} = delivered {account['delivered']:,} + "
            f"{'dropped' if name.startswith('drop-') else 'digested'} {account['digested']:,}; "
            f"latency mean {mean:.1f} s, p99 {p99:.1f} s"
        )
    if "verdict" in answer:
        yield f"the policy {answer['verdict']['sentence']}"
    for level in answer.get("levels", ()):
        expected, measured = level["expected"]["kept"], level["measured"]["kept"]
        why = " ".join(level["reasons"])
        yield f"level {level['level']}: keeps {expected:.0%} as learned, {measured:.0%} held out; {why}"
    if "stream" in answer and "events" in answer:
        yield f"{answer['events']:,} events: {answer['path']}"
    yield from (f"written: {answer[key]}" for key in ("report", "out") if answer.get(key))


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for reports and recordings.")] = Path(
        "out/demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A shorter tour.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32, help="Random seed.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Run the tour: slow phones, web pages, killed nodes, time slots, and Spark on what was recorded."""
    from penstock_lab.experiments import phones  # noqa: PLC0415  # the tour alone needs these
    from penstock_lab.experiments.ward import POLICY  # noqa: PLC0415

    busy = tour.other_work(os.getloadavg()[0], os.cpu_count() or 1)
    policy, advised = folder / "ward.yaml", folder / "advised.yaml"
    write_yaml(policy, to_yaml(POLICY), "policy")
    advised.unlink(missing_ok=True)
    if not as_json:
        out.print(f"[bold]The policy of one phone[/] ({escape(str(policy))})\n{escape(to_yaml(POLICY))}")
    # The live part mostly waits, so commands that do not need its recording run meanwhile.
    live, computing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    try:
        web, flows = web_and_flows(folder, seed, quick=quick)
        aside = [
            live.submit(run, web),
            live.submit(run, streams(seed, quick=quick)),
            live.submit(run, moving(seed)),
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
        found: list[CommandResult] = []
        for each in (*aside[:4], replaying, *aside[4:]):
            with progress("demo: the commands beside it, and Spark"):
                found.append(each.result())
            if not as_json:
                _tell(found[-1])
    finally:
        for pool in (live, computing):
            pool.shutdown(cancel_futures=True)
    parts = [_part(one) for one in found]
    report = tour.write_report(
        folder / "report.html",
        policy=POLICY,
        watched=watched,
        parts=parts,
        files=_files(folder, policy, advised, watched),
        busy=busy,
    )
    good = watched.outcome.ok and all(one.exit == 0 for one in found)
    if as_json:
        outcomes = [watched.outcome, *(one.outcome for one in found if one.outcome is not None)]
        print_json(
            {
                "ok": good,
                "report": str(report),
                "parts": [part.as_json() for part in outcomes],
                "commands": [one.as_json() for one in found],
            }
        )
    else:
        rows = [(watched.outcome.title, tour.claim(watched.outcome), watched.outcome.ok)]
        rows += [(part.title, tour.summary(part), part.ok) for part in parts]
        marked = [(escape(what), escape(said), MARKS[holds]) for what, said, holds in rows]
        out.print()
        print_table("In short", ("part", "what it showed", "holds"), marked, markup=True)
        if busy and not good:
            out.print(f"[yellow]{escape(busy)}[/]")
        out.print(f"The report, to open in a browser: [bold]{escape(str(report))}[/]")
    if not good:
        raise typer.Exit(GoalMissed.exit_code)


def _part(one: CommandResult) -> tour.Part:
    return tour.Part(
        title=one.command.title,
        line=one.command.line,
        outcome=one.outcome,
        lines=tuple(one.lines()),
        ok=one.exit == 0,
    )


def _files(folder: Path, policy: Path, advised: Path, watched: Watched) -> list[tuple[Path, str]]:
    """Return the files to open after the report; those that a failed part did not write are left out."""
    return [
        (policy, "the policy of the phone; change it and run the demo again"),
        (folder / "backtest.html", "what was recorded, replayed under the policy and without"),
        (folder / "web-feed.html", "web pages watched, with what changed on them"),
        (folder / "ces-overload.html", "messages of constant rate on a link that is too small"),
        (advised, "a policy that Spark learned from a larger stream"),
        *([(watched.picture, "the dashboard during the run")] if watched.picture is not None else []),
        (watched.recording, "the recorded readings (Parquet), for Spark or a backtest of your own"),
    ]


def _tell(found: CommandResult) -> None:
    out.print(f"\n[bold]{escape(found.command.title)}[/]\n$ {escape(found.command.line)}", soft_wrap=True)
    if found.outcome is not None:
        _show(found.outcome)
    for said in found.lines():
        out.print(escape(said), soft_wrap=True)


def _show(outcome: ExperimentResult) -> None:
    """Print the claims and the first table of a part; the report has the rest."""
    out.print(f"\n[bold]{escape(outcome.title)}[/]\n{escape(outcome.setting)}\n")
    rows = [(escape(row.what), escape(row.paper), escape(row.ours), MARKS[row.ok]) for row in outcome.rows]
    print_table("", ("what", outcome.rival, "ours", "holds"), rows, markup=True)
    for table in outcome.tables[:1]:
        print_table(table.title, table.header, table.rows)
    for path in outcome.plots:
        out.print(f"picture: {escape(str(path))}", soft_wrap=True)
