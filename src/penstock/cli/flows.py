"""`penstock flows`: flows of constant rate, at a running node and in recorded arrivals (on Spark)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from penstock.cli.api import TokenOption, api_address, ask_all
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.options import FormatOption, MasterOption, MemoryOption, RemoteOption, TsOption, need_spark
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import out, print_table, progress, watching
from penstock.errors import InputError, counted, printable
from penstock.model.instant import duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN: Final = 50
"""Rows of the table; --json has up to --limit."""

CLIENTS: Final = ("client", "sender")
"""Columns that are tried if none is named; the recorder of a node writes the second."""


def analyse(
    *,
    packets: Annotated[
        str,
        typer.Option("--packets", metavar="PATH", help="Arrivals: a node's recorded events, or any table."),
    ],
    client: Annotated[
        str | None, typer.Option("--client", metavar="COL", help="Column of the client; client or sender.")
    ] = None,
    topic: Annotated[str, typer.Option("--topic", metavar="COL", help="Column of the topic.")] = "topic",
    ts: TsOption = "ts",
    form: FormatOption = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write a new version of the table `reservations` here."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Flows to show.")] = 1_000,
    as_json: JsonFlag = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
) -> None:
    """Find the flows of constant rate in recorded arrivals: period, jitter, punctuality, loss.

    With --out a node whose `slots.reservations` names that folder takes the periods within seconds.
    """
    need_spark()
    from penstock.pipeline.jobs.flows import flows, reservations  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415
    from penstock.pipeline.tables.control_tables import publish  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.tables.recorded import read  # noqa: PLC0415

    with progress("flows") as step:
        step(0, 3, "starting Spark")
        with open_session(
            master=master,
            remote=remote,
            memory=memory,
            app="penstock flows",
            config=few_parts(master, remote),
        ) as spark:
            step(1, 3, "looking for periods")
            arrivals = read(spark, packets, format=form, ts=ts)
            who = client or _client(arrivals, packets)
            found = arrivals.transform(flows(client=who, topic=topic, schema=arrivals.schema)).cache()
            totals = found.selectExpr(
                "count(*) AS flows", "coalesce(sum(int(constant)), 0) AS constant"
            ).head()
            assert totals is not None
            rows = _rows(found, limit)
            step(2, 3, "writing")
            version = None
            if folder is not None:
                version = publish(found.transform(reservations()), folder, name="reservations").version
    if as_json:
        print_json(
            {
                "flows": rows,
                "total": totals["flows"],
                "constant": totals["constant"],
                "table": None if folder is None else {"folder": str(folder), "version": version},
            }
        )
        return
    header = ("client", "topic", "period", "jitter", "on time", "loss", "packets")
    print_table(
        f"{totals['constant']:,} of {counted(totals['flows'], 'flow')} at a constant rate",
        header,
        [_line(row) for row in rows[:SHOWN]],
    )
    if version is not None:
        print_table("", ("table", "version"), [(str(folder), str(version))])


def _client(arrivals: DataFrame, path: str) -> str:
    for name in CLIENTS:
        if name in arrivals.columns:
            return name
    there = ", ".join(arrivals.columns)
    raise InputError(f"no column of client ids found; name it with --client; columns: {there}", path=path)


def _rows(found: DataFrame, limit: int) -> list[dict[str, Any]]:
    ordered = found.orderBy("constant", "packets", "client", "topic", ascending=[False, False, True, True])
    return [row.asDict() for row in ordered.limit(limit).collect()]


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    known = row["constant"]
    return (
        row["client"],
        row["topic"],
        duration(round(row["period_us"])) if known else "–",
        duration(round(row["jitter_us"])) if known else "–",
        f"{row['on_time']:.1%}" if known else "–",
        f"{row['loss']:.1%}" if known else "–",
        f"{row['packets']:,}",
    )


app = typer.Typer(invoke_without_command=True, help="Flows of constant rate: at a node, or recorded.")

app.command("analyse")(analyse)

STYLES: Final = {"silent": "bold red", "refused": "yellow", "served": "green"}


@app.callback()
def show(
    context: typer.Context,
    *,
    search: Annotated[
        str, typer.Option("--search", help="Show flows whose client id or topic contains this text.")
    ] = "",
    state: Annotated[
        str, typer.Option("--state", help="Show flows in this state: learning, served, refused or silent.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second.")] = False,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """List a running node's flows: period, jitter, how many come on time, what is missed, why one is refused.

    Without a subcommand; `penstock flows analyse` looks at recorded arrivals instead.
    """
    if context.invoked_subcommand is not None:
        return
    asked = {"search": search} | ({"state": state} if state else {})
    where = api_address(node, token)
    look = partial(ask_all, where, "flows", **asked)
    found = look()
    if as_json:
        print_json({"enabled": found["enabled"], "status": found["status"], "flows": found["flows"]})
        return
    if not found["enabled"]:
        raise InputError("this node reserves no slots; a listener needs `slots: true`", path=where.url)
    if not watch or not out.is_terminal:
        out.print(_table(found))
        return
    watching(lambda: _table(look()))


def _table(found: dict[str, Any]) -> Table:
    status = found["status"]
    title = f"{status['served']:,} of {counted(status['known'], 'flow')} served"
    title += f", {counted(status['alarms'], 'alarm')}"
    if status["links"]:
        title += f"; {counted(status['links'], 'link')}, the fullest at {status['fullest']:.0%}"
    table = Table(title=title, box=None, header_style="bold cyan", pad_edge=False, title_justify="left")
    if status["table_fault"]:
        table.caption = Text(f"control table not taken: {printable(status['table_fault'])}", style="red")
        table.caption_justify = "left"
    for name in ("client", "topic"):
        table.add_column(name, overflow="fold")
    table.add_column("state", no_wrap=True)
    for name in ("period", "jitter", "on time", "late", "missed", "excess"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in found["flows"]:
        known = row["period_us"] > 0
        table.add_row(
            Text(printable(row["client_id"])),
            Text(printable(row["topic"])),
            Text(row["state"], style=STYLES.get(row["state"], "")),
            duration(row["period_us"]) if known else "–",
            duration(row["jitter_us"]) if row["jitter_us"] else "–",
            f"{row['on_time_rate']:.1%}" if row["on_time"] + row["late"] else "–",
            f"{row['late']:,}",
            f"{row['missed']:,}",
            f"{row['excess']:,}",
            Text(printable(_why(row))),
        )
    return table


def _why(row: dict[str, Any]) -> str:
    """Why a flow is not served, or where its period comes from; and how many links shut it out."""
    why: str = row["reason"].partition(":")[0] or row["told"] or row["pattern"]
    if row["links_refused"]:
        why += f", full on {row['links_refused']:,} of {counted(row['links'] + row['links_refused'], 'link')}"
    return why
