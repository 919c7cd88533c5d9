"""`penstock pipeline`: turns recordings into tables, and tables into decisions that nodes follow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import MasterOption, MemoryOption, RemoteOption, in_a_hurry, need_spark
from penstock.cli.output import JsonFlag, complain, print_json, print_text
from penstock.cli.terminal import print_table, progress
from penstock.errors import PenstockError
from penstock.model.instant import duration
from penstock.node.config.amounts import SECONDS, quantity

if TYPE_CHECKING:
    from penstock.pipeline.project.runs import Run
    from penstock.pipeline.project.settings import Project

app = typer.Typer(no_args_is_help=True, help="Tables from recordings, and decisions that nodes follow.")

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the project.")]


@app.command("init")
def init(
    folder: FolderArgument,
    *,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="DIR", help="Data folder of a node that records; repeatable."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COL", help="Column of events that names a queue; topic if omitted."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", help="Policy that packs the events; keeps newest if omitted."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a new project: definitions of the tables, settings, a local catalog."""
    need_spark()
    from penstock.pipeline.project.create import create  # noqa: PLC0415  # Spark, where it is needed

    project = create(folder, data=data or [Path("penstock-data")], key=key or ["topic"], policy=policy)
    files = sorted(
        str(path.relative_to(project.folder)) for path in project.folder.rglob("*") if path.is_file()
    )
    if as_json:
        print_json({"folder": str(project.folder), "files": files, "control": str(project.control)})
        return
    for name in files:
        print_text(f"{folder / name}")
    print_text(f"next: penstock pipeline run {folder}")


@app.command("run")
def run(
    folder: FolderArgument,
    *,
    engine: Annotated[
        str,
        typer.Option("--engine", help="spark: by spark-pipelines; plain: the same tables without it."),
    ] = "spark",
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Run again at this interval, as 10m, until stopped."),
    ] = None,
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Read what is new, bring every table up to date, and give nodes new versions of control tables."""
    need_spark()
    from penstock.pipeline.project.run import ENGINES, run_once  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.project.runs import bytes_to_read  # noqa: PLC0415
    from penstock.pipeline.project.settings import open_project  # noqa: PLC0415

    if engine not in ENGINES:
        raise typer.BadParameter(f"--engine {engine}; allowed: {', '.join(ENGINES)}")
    pause_s = None if every is None else _pause(every)
    found = open_project(folder)  # a wrong folder ends the command, a later mistake only a run of it
    if pause_s is None:  # later runs of a command that goes on may have more to do
        in_a_hurry(size=bytes_to_read(found))
    while True:
        begun_s = time.monotonic()
        try:
            project = open_project(folder)
            with progress("pipeline") as step:
                done = run_once(
                    project, engine=engine, master=master, remote=remote, memory=memory, step=step
                )
            _show(done, as_json=as_json)
        except PenstockError as error:
            if pause_s is None:
                raise
            complain(f"{error}; the next run is in {every}")  # what failed now may work then
        if pause_s is None:
            return
        time.sleep(max(0.0, pause_s - (time.monotonic() - begun_s)))


def _pause(every: str) -> float:
    found = quantity(every.replace("m", "min") if every.endswith("m") else every, SECONDS)
    if not found or found < 1:
        raise typer.BadParameter(f"--every {every}: no interval; write 30s, 10m or 1h")
    return found


def _show(done: Run, *, as_json: bool) -> None:
    took_us = done.ended_us - done.started_us
    if as_json:
        print_json({**_plain(done), "took_s": took_us / 1e6})
        return
    rows = [
        (name, _number(one.files_read), _number(one.rows_read), f"{one.rows_written:,}")
        for name, one in done.tables.items()
    ]
    print_table(f"Run in {duration(took_us)}", ("table", "files read", "rows read", "rows written"), rows)
    for name, version in done.control.items():
        print_text(f"control table {name}: version {version}")


def _number(found: int | None) -> str:
    return "–" if found is None else f"{found:,}"


def _plain(done: Run) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415

    found: dict[str, Any] = msgspec.to_builtins(done)
    return found


@app.command("status")
def status(folder: FolderArgument, *, as_json: JsonFlag = False) -> None:
    """Show what waits to be read, what the last run did, and which expectations are not met."""
    need_spark()
    from penstock.pipeline.project.settings import open_project  # noqa: PLC0415
    from penstock.pipeline.project.status import status_of  # noqa: PLC0415

    project = open_project(folder)
    found = status_of(project)
    if as_json:
        print_json(found)
        return
    _show_status(project, found)


def _show_status(project: Project, found: dict[str, Any]) -> None:
    last = found["last_run"]
    if last is None:
        print_text("no run yet: penstock pipeline run " + str(project.folder))
    else:
        outcome = f"failed: {last['error']}" if last["error"] else "done"
        ago = duration(max(0, time.time_ns() // 1_000 - last["ended_us"]))
        print_text(f"last run: {ago} ago, {outcome}, by engine {last['engine']}")
    rows = []
    for name, one in found["tables"].items():
        waits = one["waiting"]
        behind = "–" if waits is None else f"{waits['files']:,} files, {waits['oldest_s']:,.0f} s"
        total = "–" if one["rows"] is None else f"{one['rows']:,}"
        rows.append((name, total, _number(one["rows_read"]), _number(one["rows_written"]), behind))
    print_table("Tables", ("table", "rows", "read last", "written last", "waiting"), rows)
    print_table(
        "Expectations and quarantine",
        ("measure", "of", "count"),
        [(one["measure"], one["name"], f"{one['value']:,.0f}") for one in found["broken"]],
    )
    print_table(
        "Control tables",
        ("table", "version", "rows", "made", "note"),
        [
            (name, str(one["version"]), f"{one['rows']:,}", f"{duration(one['age_us'])} ago", one["note"])
            for name, one in found["control"].items()
        ],
    )
