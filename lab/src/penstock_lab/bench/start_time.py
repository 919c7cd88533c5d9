"""Commands are started for their cost in processor time and waiting, and a node at rest for its memory.

`mosquitto_pub` is a C program of a few kilobytes: it shows how much of the time is the work itself. The goal
is a third of the processor time that commands took when every command imported everything, 1.5 s.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.errors import MissingTool, NodeError
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.rigs.brokers import mosquitto, our_node
from penstock_lab.rigs.ports import HOST
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock_lab.bench.result import Progress

NAME: Final = "cli"
SHOWS: Final = Shows(live=True)
RIVAL: Final = "mosquitto_pub"
GOAL_CPU_MS: Final = 500.0
GOAL_MEMORY_MB: Final = 70.0
REST_S: Final = 5.0
"""How long a broker is left alone before its memory is read."""
ROUNDS: Final = 15
QUICK_ROUNDS: Final = 5


@dataclass(slots=True)
class _Taken:
    """Milliseconds of one command, a value for each run."""

    cpu: list[float] = field(default_factory=list)
    """User and system time."""
    wall: list[float] = field(default_factory=list)


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Run each command and its rival in turns; compare the medians."""
    start = perf_counter()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    rival = _mosquitto_pub()
    with ExitStack() as stack:
        node, broker = stack.enter_context(our_node()), stack.enter_context(mosquitto())
        time.sleep(REST_S)
        memory = [each.memory_bytes() / 1e6 for each in (node, broker)]
        pairs = _pairs(rival, node.port)
        taken = {name: (_Taken(), _Taken()) for name in pairs}
        for number in range(rounds):
            for step, (name, commands) in enumerate(pairs.items()):
                progress(number * len(pairs) + step, rounds * len(pairs), name)
                for command, found in zip(commands, taken[name], strict=True):
                    _run(command, found)
    rows = [row for name, (ours, others) in taken.items() for row in _rows(name, ours, others)]
    rows += _memory_rows(memory[0], memory[1], broker.name)
    return BenchmarkResult(
        NAME,
        tuple(rows),
        perf_counter() - start,
        note=f"medians of {rounds} runs, in turns; both publish one message of QoS 1 to the same node; "
        f"memory {REST_S:g} s after the start, no clients",
    )


def _mosquitto_pub() -> str:
    found = shutil.which(RIVAL)
    if found is None:
        raise MissingTool(
            f"this benchmark needs {RIVAL} as its rival, which is not installed; on Debian: "
            "apt install mosquitto mosquitto-clients"
        )
    return found


def _pairs(rival: str, port: int) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """Return our command and the rival's by what they do."""
    ours = (sys.executable, "-m", "penstock")
    publish = ("pub", "bench/cli", "72", "--qos", "1", "--node", f"mqtt://{HOST}:{port}")
    rival_publish = ("-h", HOST, "-p", str(port), "-V", "5", "-t", "bench/cli", "-m", "72", "-q", "1")
    return {
        "--version": ((*ours, "--version"), (rival, "--version")),
        "--help": ((*ours, "--help"), (rival, "--help")),
        "pub": ((*ours, *publish), (rival, *rival_publish)),
    }


def _run(command: Sequence[str], found: _Taken) -> None:
    """Run a command and note what it took; its output goes nowhere."""
    begun = perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, handle, os.devnull, os.O_WRONLY, 0) for handle in (1, 2)]
    pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    # mosquitto_pub answers --help and --version with 1, as to a wrong command line.
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise NodeError(f"`{' '.join(command)}` failed with exit code {os.waitstatus_to_exitcode(status)}")
    found.wall.append((perf_counter() - begun) * 1e3)
    found.cpu.append((usage.ru_utime + usage.ru_stime) * 1e3)


def _rows(name: str, ours: _Taken, others: _Taken) -> list[BenchmarkRow]:
    cpu, rival_cpu = median(ours.cpu), max(median(others.cpu), 0.1)
    wall, rival_wall = median(ours.wall), median(others.wall)
    return [
        BenchmarkRow(
            f"{name}, CPU",
            cpu,
            "ms",
            "the goal",
            GOAL_CPU_MS,
            GOAL_CPU_MS / cpu,
            1.0,
            fails_if="a command imports what only others need",
            less=True,
        ),
        BenchmarkRow(f"{name}, CPU", cpu, "ms", RIVAL, rival_cpu, rival_cpu / cpu, less=True),
        BenchmarkRow(f"{name}, wall time", wall, "ms", RIVAL, rival_wall, rival_wall / wall, less=True),
    ]


def _memory_rows(ours: float, others: float, rival: str) -> list[BenchmarkRow]:
    name = "memory of a node at rest"
    return [
        BenchmarkRow(
            name,
            ours,
            "MB",
            "the goal",
            GOAL_MEMORY_MB,
            GOAL_MEMORY_MB / ours,
            1.0,
            fails_if="a node loads libraries of parts that are switched off",
            less=True,
        ),
        BenchmarkRow(name, ours, "MB", rival, others, others / ours, less=True),
    ]
