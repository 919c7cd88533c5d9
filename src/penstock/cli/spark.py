"""The options that Spark commands have in common."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from penstock.errors import MissingTool

MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark master; all cores of this machine if omitted."),
]
RemoteOption = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="Spark Connect server, as sc://host:15002.")
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory of a local Spark, as 8g.")
]
EventsOption = Annotated[
    str,
    typer.Option(
        "--events", metavar="PATH", help="A recorded stream: Parquet, JSON lines or CSV, a file or a folder."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="parquet, json or csv, where the ending does not tell."),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COL", help="Column that names a queue; all events are one if omitted."),
]
TsOption = Annotated[str, typer.Option("--ts", metavar="COL", help="Column of the time of an event.")]
SeqOption = Annotated[
    str | None,
    typer.Option("--seq", metavar="COL", help="Column of sequence numbers; 'seq' if there is one."),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="PATH=COL", help="Where an attribute stands, if not in the column of its name."
    ),
]


def columns_of(given: list[str] | None, *, seq: str | None) -> dict[str, str]:
    """Columns by attribute."""
    found = {} if seq is None else {"$seq": seq}
    for one in given or ():
        name, sign, column = one.rpartition("=")
        if not sign or not name or not column:
            raise typer.BadParameter(
                f"'{one}': write --column ATTRIBUTE=COLUMN, as --column pulse=heart_rate"
            )
        found[name] = column
    return found


def need_spark() -> None:
    """Complain where PySpark is not installed; the import of `penstock.pipeline` comes after this."""
    if find_spec("pyspark") is None:
        raise MissingTool("Spark is not installed: pip install 'penstock[spark]'")
