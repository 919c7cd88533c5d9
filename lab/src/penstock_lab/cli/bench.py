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
from penstock_lab.cli.everything import ALL, IN_ALL, OnlyOption, StoreOption, no_selection, run_everything
from penstock_lab.runs import stored
from penstock_lab.runs.table import number

if TYPE_CHECKING:
    from penstock_lab.bench.result import BenchmarkResult, Progress
    from penstock_lab.runs.shows import Shows


class Benchmark(Protocol):
    """The function `measure` of every benchmark module."""

    def __call__(self, *, quick: bool, progress: Progress, **options: str) -> BenchmarkResult:
        """Run the benchmark; `options` are those of OPTIONS that were given on the command line."""
        ...


BENCHMARKS: Final = {
    "cli": "penstock_lab.bench.start_time",
    "policy": "penstock_lab.bench.policy.packing",
    "node": "penstock_lab.bench.node.throughput",
    "overload": "penstock_lab.bench.node.overload",
    "attach": "penstock_lab.bench.node.attach",
    "cluster": "penstock_lab.bench.cluster.one_hop",
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


def load(module: str) -> tuple[Benchmark, Shows]:
    """Return the function `measure` of a benchmark's module, and what the module declares."""
    loaded = import_module(module)
    return cast("Benchmark", loaded.measure), cast("Shows", loaded.SHOWS)


def bench(  # noqa: PLR0917  # options of a command
    name: Annotated[str, typer.Argument(help="Which benchmark: " + ", ".join(BENCHMARKS) + ", or all.")],
    quick: Annotated[bool, typer.Option("--quick", help=f"Finish within a minute or two. {IN_ALL}")] = False,
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
    only: OnlyOption = None,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure against a named rival in the same run; a ratio above 1 means ours is better."""
    wanted = BENCHMARKS if name == ALL else {name: chosen(BENCHMARKS, name, "benchmark", also=ALL)}
    asked = {"events": events, "channels": channels, "master": master, "remote": remote, "memory": memory}
    given = {option: value for option, value in asked.items() if value is not None}
    for option in given:
        if not any(option in OPTIONS.get(one, ()) for one in wanted):
            raise typer.BadParameter(f"the benchmark '{name}' has no option --{option}")
    if name == ALL:
        commands = {one: _words(one, given, quick=quick) for one in BENCHMARKS}
        run_everything("bench", commands, only=only, quick=quick, store=store, as_json=as_json, judged=check)
        return
    no_selection(only)
    if name == "spark":
        need_spark()
    begun = stored.Begun()
    measure, shows = load(wanted[name])
    with progress(f"bench {name}") as step:
        outcome = measure(quick=quick, progress=step, **given)
    command = " ".join(("penstock", *_words(name, given, quick=quick)))
    found = stored.described(outcome.as_json(), shows, command, begun, quick=quick)
    if store is not None:
        stored.write(store, f"bench-{name}", found)
    if as_json:
        print_json(found)
    else:
        _show(outcome)
    if check and not outcome.ok:
        raise typer.Exit(GoalMissed.exit_code)


def _words(name: str, given: dict[str, str], *, quick: bool) -> list[str]:
    """Return the command that runs one benchmark, with those of the options given that it has."""
    own = [(f"--{option}", value) for option, value in given.items() if option in OPTIONS.get(name, ())]
    return ["bench", name, *(["--quick"] if quick else []), *(word for each in own for word in each)]


def _show(outcome: BenchmarkResult) -> None:
    rows = [
        (
            escape(row.name),
            f"{number(row.value)} {escape(row.unit)}",
            "" if row.rival_value is None else f"{number(row.rival_value)} ({escape(row.rival)})",
            "" if row.ratio is None else f"{row.ratio:.2f} ×",
            "" if row.goal is None else f"≥ {row.goal:.2f} ×",
            MARKS[row.ok],
        )
        for row in outcome.rows
    ]
    header = ("what", "ours", "rival", "ratio", "goal", "reached")
    print_table(f"bench {outcome.bench}", header, rows, markup=True)
    for row in outcome.rows:
        if row.told:
            out.print(f"{escape(row.name)}: {escape(row.told)}")
    out.print(f"{escape(outcome.note)}; {outcome.seconds:.0f} s")
