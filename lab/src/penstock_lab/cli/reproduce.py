"""`penstock reproduce`: the experiments by name.

An experiment's module is loaded when it is run.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, cast

import typer

from penstock.cli.html_page import Page
from penstock.cli.options import chosen, need_spark
from penstock.cli.output import JsonFlag, print_json, warn
from penstock.cli.terminal import MARKS, escape, out, print_table, progress
from penstock.errors import GoalMissed
from penstock_lab.cli.everything import ALL, IN_ALL, OnlyOption, StoreOption, no_selection, run_everything
from penstock_lab.experiments.result import add_result
from penstock_lab.runs import stored

if TYPE_CHECKING:
    from penstock_lab.experiments.result import ExperimentResult, Progress
    from penstock_lab.runs.shows import Shows


class Experiment(Protocol):
    """The function `reproduce` of every experiment module."""

    def __call__(
        self, *, seed: int, quick: bool, out: Path | None, progress: Progress, **options: str
    ) -> ExperimentResult:
        """Run the experiment; pictures go to `out`, if given; `options` are those given of OPTIONS."""
        ...


EXPERIMENTS: Final = {
    "pack-fig7": "penstock_lab.experiments.pack.fig7",
    "pack-fig8": "penstock_lab.experiments.pack.fig8",
    "pack-fig9": "penstock_lab.experiments.pack.fig9",
    "pack-fig11": "penstock_lab.experiments.pack.fig11",
    "ward": "penstock_lab.experiments.ward",
    "phones": "penstock_lab.experiments.phones",
    "web-feed": "penstock_lab.experiments.web_feed",
    "corona-table2": "penstock_lab.experiments.corona.table2",
    "corona-figures": "penstock_lab.experiments.corona.figures",
    "corona-deployment": "penstock_lab.experiments.corona.deployment",
    "rbf-figures": "penstock_lab.experiments.rbf.fig5_7",
    "ces-overload": "penstock_lab.experiments.ces.overload",
    "gryphon-collapse": "penstock_lab.experiments.gryphon.collapse",
    "gryphon-e1": "penstock_lab.experiments.gryphon.e1",
    "gryphon-e2": "penstock_lab.experiments.gryphon.e2",
    "gryphon-e3": "penstock_lab.experiments.gryphon.e3",
    "gryphon-e4": "penstock_lab.experiments.gryphon.e4",
    "streams-kill": "penstock_lab.experiments.streams.kill",
    "qos2-kill": "penstock_lab.experiments.qos2.kill",
    "cluster-kill": "penstock_lab.experiments.cluster.kill",
}
"""Name → module."""

LIVE: Final = {
    "pack-fig8": "penstock_lab.experiments.pack.fig8_live",
    "ces-overload": "penstock_lab.experiments.ces.overload_live",
    "gryphon-e1": "penstock_lab.experiments.gryphon.live.e1",
    "gryphon-e2": "penstock_lab.experiments.gryphon.live.e2",
}
"""Experiments that can also be run between real nodes."""


OPTIONS: Final = {
    "streams-kill": ("rounds", "log", "spark"),
    "qos2-kill": ("rounds", "version", "client"),
    "cluster-kill": ("rounds",),
}
"""Name → options that only this experiment has."""

LIVE_OPTIONS: Final = {"pack-fig8": ("minutes",)}
"""Name → options that only the live experiment has."""


def load(module: str) -> tuple[Experiment, Shows]:
    """Return the function `reproduce` of an experiment's module, and what the module declares."""
    loaded = import_module(module)
    return cast("Experiment", loaded.reproduce), cast("Shows", loaded.SHOWS)


def reproduce(  # noqa: PLR0917  # options of a command
    name: Annotated[str, typer.Argument(help="Which experiment: " + ", ".join(EXPERIMENTS) + ", or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help=f"A shorter run; the result says so. {IN_ALL}")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32, help="Random seed.")] = 1,
    folder: Annotated[Path, typer.Option("--out", help="Folder for plots and the report.")] = Path("out"),
    live: Annotated[
        bool, typer.Option("--live", help="Between real nodes on this machine: " + ", ".join(LIVE) + ".")
    ] = False,
    rounds: Annotated[
        str | None,
        typer.Option(
            "--rounds", metavar="N", help="streams-kill, qos2-kill, cluster-kill: number of faults."
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="file|nats", help="streams-kill: where the streams' log is."),
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="streams-kill: also kill a Spark query.")] = False,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="4|5", help="qos2-kill: MQTT 3.1.1 or 5; both when omitted."),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="raw|paho", help="qos2-kill: clients; both when omitted."),
    ] = None,
    minutes: Annotated[
        str | None,
        typer.Option("--minutes", metavar="M", help="pack-fig8 --live: length of the run; 10 if omitted."),
    ] = None,
    only: OnlyOption = None,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run an experiment of one of the papers: what they found beside what we find.

    Exits 1 if a row is not reproduced.
    """
    module = chosen(EXPERIMENTS, name, "experiment", also=ALL) if name != ALL else ""
    if live and name != ALL:
        module = chosen(LIVE, name, "live experiment", also=ALL)
    asked = {
        "rounds": rounds,
        "log": log,
        "spark": "yes" if spark else None,
        "version": version,
        "client": client,
        "minutes": minutes,
    }
    options = {option: value for option, value in asked.items() if value is not None}
    known = (LIVE_OPTIONS if live else OPTIONS).get(name, ())
    for option in options:
        if option not in known:
            more = " without --live" if option in LIVE_OPTIONS.get(name, ()) else ""
            raise typer.BadParameter(f"the experiment '{name}' has no option --{option}{more}")
    if name == ALL:
        plain = {} if live else {one: _words(one, {}, seed=seed, quick=quick) for one in EXPERIMENTS}
        real = {f"{one}-live": _words(one, {}, seed=seed, quick=quick, live=True) for one in LIVE}
        commands = {one: [*words, "--out", str(folder)] for one, words in (plain | real).items()}
        run_everything(
            "reproduce", commands, only=only, quick=quick, store=store, as_json=as_json, judged=True
        )
        return
    no_selection(only)
    if spark:
        need_spark()
    begun = stored.Begun()
    run, shows = load(module)
    with progress(name) as step:
        outcome = run(seed=seed, quick=quick, out=folder, progress=step, **options)
    page = Page(outcome.title)
    add_result(page, outcome)
    report = page.write(folder / f"{outcome.experiment}.html")
    words = _words(name, options, seed=seed, quick=quick, live=live)
    found = stored.described(outcome.as_json(), shows, " ".join(("penstock", *words)), begun, quick=quick)
    if store is not None:
        stored.write(store, f"reproduce-{name}{'-live' * live}", found)
    if as_json:
        print_json(found | {"report": str(report)})
    else:
        out.print(f"[bold]{escape(outcome.title)}[/]\n{escape(outcome.setting)}, seed {outcome.seed}\n")
        rows = [
            (escape(row.what), escape(row.paper), escape(row.ours), MARKS[row.ok], escape(row.note))
            for row in outcome.rows
        ]
        print_table("", ("what", outcome.rival, "ours", "holds", "note"), rows, markup=True)
        for table in outcome.tables:
            print_table(table.title, table.header, table.rows)
        for path in (*outcome.plots, report):
            out.print(f"written: {escape(str(path))}")
    if find_spec("matplotlib") is None:
        warn("no pictures: matplotlib is not installed; pip install 'penstock[plots]'")
    if not outcome.ok:
        raise typer.Exit(GoalMissed.exit_code)


def _words(name: str, options: dict[str, str], *, seed: int, quick: bool, live: bool = False) -> list[str]:
    """Return the command that runs one experiment."""
    flags = [f"--{flag}" for flag, asked in (("live", live), ("quick", quick)) if asked]
    given = ["--spark"] if "spark" in options else []
    given += [word for one in options.items() if one[0] != "spark" for word in (f"--{one[0]}", one[1])]
    return ["reproduce", name, *flags, *given, "--seed", str(seed)]
