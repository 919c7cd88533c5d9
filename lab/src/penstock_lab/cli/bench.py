"""`penstock bench`: the benchmarks by name, each against a rival in the same run.

A benchmark's module is loaded when it is run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final, Protocol, cast

import typer

from penstock.cli.options import MasterOption, MemoryOption, RemoteOption, chosen, need_spark
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import MARKS, escape, out, print_table, progress
from penstock.errors import GoalMissed
from penstock_lab.bench.result import BenchmarkResult

if TYPE_CHECKING:
    from penstock_lab.bench.result import Progress


class Benchmark(Protocol):
    """The function `measure` of every benchmark module."""

    def __call__(self, *, quick: bool, progress: Progress, **options: str) -> BenchmarkResult:
        """Run the benchmark; `options` are those of OPTIONS that were given on the command line."""
        ...


BENCHMARKS: Final = {
    "cli": "penstock_lab.bench.cli.start_time",
    "policy": "penstock_lab.bench.policy.packing",
    "node": "penstock_lab.bench.node.throughput",
    "overload": "penstock_lab.bench.node.overload",
    "attach": "penstock_lab.bench.node.attach",
    "spark": "penstock_lab.bench.spark.packing",
    "polling": "penstock_lab.bench.channels.intervals",
    "poller": "penstock_lab.bench.channels.poller",
    "allocate": "penstock_lab.bench.channels.allocation",
    "slots": "penstock_lab.bench.slots.lookup",
    "diff": "penstock_lab.bench.diff.alarms",
    "streams": "penstock_lab.bench.streams.jetstream",
}
"""Name → module."""


OPTIONS: Final = {"poller": ("channels",), "spark": ("events", "master", "remote", "memory")}
"""Name → options that only this benchmark has."""


def load(module: str) -> Benchmark:
    """Return the function `measure` of a benchmark's module."""
    return cast("Benchmark", import_module(module).measure)


def bench(  # noqa: PLR0917  # options of a command
    name: Annotated[str, typer.Argument(help="Which benchmark: " + ", ".join(BENCHMARKS) + ", or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Finish within a minute.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 if a goal is missed.")] = False,
    events: Annotated[
        str | None, typer.Option("--events", metavar="N,N…", help="spark: numbers of events, as 1e6,1e7.")
    ] = None,
    channels: Annotated[
        str | None, typer.Option("--channels", metavar="N", help="poller: number of channels.")
    ] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure against a named rival in the same run; a ratio above 1 means ours is better."""
    wanted = BENCHMARKS if name == "all" else {name: chosen(BENCHMARKS, name, "benchmark", also="all")}
    asked = {"events": events, "channels": channels, "master": master, "remote": remote, "memory": memory}
    given = {option: value for option, value in asked.items() if value is not None}
    for option in given:
        if not any(option in OPTIONS.get(one, ()) for one in wanted):
            raise typer.BadParameter(f"the benchmark '{name}' has no option --{option}")
    if "spark" in wanted:
        need_spark()
    outcomes: list[BenchmarkResult] = []
    for one, module in wanted.items():
        measure = load(module)
        with progress(f"bench {one}") as step:
            own = {option: value for option, value in given.items() if option in OPTIONS.get(one, ())}
            outcomes.append(measure(quick=quick, progress=step, **own))
    if as_json:
        found = [outcome.as_json() for outcome in outcomes]
        print_json(found[0] if name != "all" else {"bench": "all", "benches": found})
    else:
        for outcome in outcomes:
            _show(outcome)
    if check and not all(outcome.ok for outcome in outcomes):
        raise typer.Exit(GoalMissed.exit_code)


def _show(outcome: BenchmarkResult) -> None:
    rows = [
        (
            escape(row.name),
            f"{row.value:.1f} {escape(row.unit)}",
            "" if row.rival_value is None else f"{row.rival_value:.1f} ({escape(row.rival)})",
            "" if row.ratio is None else f"{row.ratio:.2f} ×",
            "" if row.goal is None else f"≥ {row.goal:g} ×",
            MARKS[row.ok],
        )
        for row in outcome.rows
    ]
    header = ("what", "ours", "rival", "ratio", "goal", "reached")
    print_table(f"bench {outcome.bench}", header, rows, markup=True)
    out.print(f"{escape(outcome.note)}; {outcome.seconds:.0f} s")
