"""`penstock flows analyse`: flows of constant rate in recorded arrivals, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.output import JsonFlag, print_json, print_table, progress
from penstock.cli.spark import FormatOption, MasterOption, MemoryOption, RemoteOption, TsOption, need_spark
from penstock.core.channels.polling.words import duration
from penstock.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN: Final = 50
"""Flows in the table; --json has up to --limit."""

CLIENTS: Final = ("client", "sender")
"""Columns looked for if none is named; the recorder of a node writes the second."""


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
    from penstock.pipeline.control_tables import publish  # noqa: PLC0415  # Spark, where it is needed
    from penstock.pipeline.flows import flows, reservations  # noqa: PLC0415
    from penstock.pipeline.recorded import read  # noqa: PLC0415
    from penstock.pipeline.session import few_parts, open_session  # noqa: PLC0415

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
            found = flows(arrivals, client=client or _client(arrivals, packets), topic=topic).cache()
            totals = found.selectExpr(
                "count(*) AS flows", "coalesce(sum(int(constant)), 0) AS constant"
            ).head()
            assert totals is not None
            rows = _rows(found, limit)
            step(2, 3, "writing")
            version = None
            if folder is not None:
                version = publish(reservations(found), folder, name="reservations").version
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
        f"{totals['constant']:,} of {totals['flows']:,} flows have a constant rate",
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
    raise InputError(f"which column names the client? Say --client; there are: {there}", path=path)


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
