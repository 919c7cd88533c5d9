"""The commands of the tour: as anybody would give them, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from penstock.experiments.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASIDE: Final = 10
"""Niceness of what computes beside the live part: phones and pages keep their pace."""


@dataclass(frozen=True, slots=True)
class Command:
    """A step of the tour."""

    title: str
    words: tuple[str, ...]
    aside: bool = False
    """Whether it gives way to what is live."""

    @property
    def line(self) -> str:
        """What to type for it."""
        return " ".join(("penstock", *self.words))


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a command."""

    command: Command
    exit: int
    answer: dict[str, Any]
    """The JSON it printed; empty if none."""
    complaint: str
    """The last line it said otherwise, if it failed."""
    seconds: float

    @property
    def outcome(self) -> Outcome | None:
        """Of an experiment."""
        return Outcome.from_json(self.answer) if "experiment" in self.answer else None

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "command": self.command.line,
            "exit": self.exit,
            "seconds": round(self.seconds, 3),
            "found": self.answer,
        }

    def lines(self) -> list[str]:
        """In a few lines."""
        return [*_lines(self.answer), *([f"error: {self.complaint}"] if self.complaint else [])]


def run(command: Command) -> Found:
    """To its end."""
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
        complaint = answer.get("error", {}).get("message") or (last[-1] if last else "it said nothing")
    return Found(command, process.returncode, answer, complaint, perf_counter() - start_s)


def web_and_flows(folder: Path, seed: int, *, quick: bool) -> tuple[Command, Command]:
    """Pages as streams; time slots."""
    more = ("--seed", str(seed), "--out", str(folder))
    return (
        Command("Web channels", ("reproduce", "web-feed", *(("--quick",) if quick else ()), *more)),
        Command("Time slots", ("reproduce", "ces-overload", "--quick", *more), aside=True),
    )


def streams(seed: int, *, quick: bool) -> Command:
    """Processes killed while they publish, pass on and read."""
    rounds = "1" if quick else "3"
    return Command("Reliable streams", ("reproduce", "streams-kill", "--rounds", rounds, "--seed", str(seed)))


def generate(folder: Path, seed: int, *, quick: bool) -> Command:
    """Something larger for Spark."""
    return Command(
        "Spark: a larger stream",
        (
            *("generate", "vitals", "--events", "10000" if quick else "50000", "--seed", str(seed)),
            *("--out", str(folder / "vitals.parquet"), "--overwrite"),
        ),
        aside=True,
    )


def backtest(folder: Path, policy: Path, recording: Path) -> Command:
    """What if the phone had had another policy, or none."""
    return Command(
        "Spark: what was recorded, replayed under the policy and without",
        (
            *("backtest", "--events", str(recording), "--policy", str(policy)),
            *("--capacity", "300", "--drain", "50kbit/s", "--out", str(folder)),
        ),
    )


def advise(folder: Path, advised: Path) -> Command:
    """A policy from data."""
    return Command(
        "Spark: a policy for the larger stream, learned and checked",
        (
            *("advise", "--events", str(folder / "vitals.parquet"), "--key", "sender"),
            *("--attribute", "pulse", "--budget", "0.3", "--out", str(advised)),
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
    for level in answer.get("levels", ()):
        expected, measured = level["expected"]["kept"], level["measured"]["kept"]
        why = " ".join(level["reasons"])
        yield f"level {level['level']}: keeps {expected:.0%} as learned, {measured:.0%} held out; {why}"
    if "stream" in answer and "events" in answer:
        yield f"{answer['events']:,} events: {answer['path']}"
    yield from (f"written: {answer[key]}" for key in ("report", "out") if answer.get(key))
