"""`penstock generate`: writes a synthetic stream into a folder."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import Annotated, Final

import typer

from penstock.cli.options import MasterOption, MemoryOption, RemoteOption, chosen, in_a_hurry
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import escape, out, progress
from penstock.errors import MissingTool, counted
from penstock.model.instant import SECOND_US

NAMES: Final = ("vitals", "campus-syslog", "telemetry")
"""Names of the generators, for the help, which should not import Spark."""


def _number(text: str) -> int:
    """Read a whole number written as 1000000, 1_000_000 or 1e6."""
    try:
        found = int(text) if text.isdecimal() else float(text)
    except ValueError:
        found = 0
    if not 1 <= found < 2**63 or found != int(found):
        raise typer.BadParameter(f"how many? A whole number from 1 on, as 50000 or 1e6, not {text!r}")
    return int(found)


def _instant(text: str) -> int:
    """Read an ISO 8601 date and time; return microseconds."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"a date and time is written like 2025-01-06T08:00, not {text!r}") from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return round(when.timestamp()) * SECOND_US


def generate(
    name: Annotated[str, typer.Argument(help="Which stream: " + ", ".join(NAMES) + ".")],
    *,
    events: Annotated[int, typer.Option("--events", parser=_number, metavar="N", help="How many events.")],
    path: Annotated[str, typer.Option("--out", help="Folder to write; its suffix may name the format.")],
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32, help="Random seed.")] = 1,
    kind: Annotated[
        str | None,
        typer.Option("--format", help="parquet, json (lines) or csv; by the suffix of OUT if omitted."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Events per second of the whole stream, on average.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", help="Length of the stream, instead of its rate.")
    ] = None,
    sources: Annotated[
        int | None, typer.Option("--sources", help="How many patients, access points or vehicles.")
    ] = None,
    start: Annotated[
        int | None,
        typer.Option(
            "--start",
            parser=_instant,
            metavar="TIME",
            help="Time of the first event; 2025-01-06T08:00, a Monday, if omitted.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing stream.")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Generate a stream to try policies with.

    Patients' vitals, a campus' syslog or vehicles' telemetry, made with Spark. The same seed gives the
    same events, however Spark divides the work.
    """
    chosen(dict.fromkeys(NAMES), name, "stream")
    if rate is not None and hours is not None:
        raise typer.BadParameter("--rate and --hours say the same: give one of them")
    if hours is not None and not 0 < hours < float("inf"):
        raise typer.BadParameter(f"a stream lasts more than 0 hours, not {hours:g}")
    try:
        from penstock.pipeline.jobs.generate import GENERATORS, Recipe, writing  # noqa: PLC0415
        from penstock.pipeline.jobs.generate.recipe import START_US  # noqa: PLC0415
        from penstock.pipeline.progress import watched  # noqa: PLC0415
        from penstock.pipeline.session import open_session  # noqa: PLC0415
        from penstock.pipeline.tables import files  # noqa: PLC0415  # the help of a command must not wait for it
    except ImportError:
        raise MissingTool("Spark is not installed: pip install 'penstock[spark]'") from None

    generator = GENERATORS[name]
    count = generator.sources if sources is None else sources
    usual = generator.rate * count
    recipe = Recipe(
        events=events,
        rate=events / (hours * 3600) if hours is not None else usual if rate is None else rate,
        sources=count,
        seed=seed,
        start_us=START_US if start is None else start,
    )
    if kind is not None:
        chosen(files.FORMATS, kind, "format")
    form = kind or files.format_of(path)
    # The path of a Connect server is its own; only it can say what is there.
    replace = overwrite if remote else writing.prepare(path, overwrite=overwrite) or overwrite
    in_a_hurry(events=events)
    began = monotonic()
    with progress(f"generate {name}") as step:
        step(0, 0, "starting Spark")
        with (
            open_session(master=master, remote=remote, memory=memory, app="penstock generate") as spark,
            watched(spark, step, "writing events"),
        ):
            written = writing.write(generator.frame(spark, recipe), path, kind=form, replace=replace)
    seconds = monotonic() - began
    if as_json:
        print_json(
            {
                "stream": name,
                "path": path,
                "format": form,
                "events": written.rows,
                "bytes": written.bytes,
                "files": written.files,
                "from_us": written.from_us,
                "to_us": written.to_us,
                "rate": recipe.rate,
                "sources": recipe.sources,
                "seed": recipe.seed,
                "seconds": round(seconds, 3),
            }
        )
        return
    first, last = (
        datetime.fromtimestamp(at_us / SECOND_US, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for at_us in (written.from_us, written.to_us)
    )
    out.print(
        f"{counted(written.rows, 'event')} of {counted(recipe.sources, escape(generator.source))}, "
        f"{written.bytes / 1e6:,.1f} MB in {written.files} {form} files: {escape(path)}\n"
        f"{first} to {last} UTC, {written.span_s / 3600:.2f} h, {recipe.rate:.4g} events/s\n"
        f"took {seconds:.1f} s: {written.rows / seconds:,.0f} events/s, Spark's start included"
    )
