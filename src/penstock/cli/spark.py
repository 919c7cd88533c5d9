"""The options that Spark commands have in common."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from penstock import limits
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


def in_a_hurry(*, events: int = 0, path: str | None = None) -> None:
    """Before a local Spark starts for a short stream: its Java compiles quickly instead of well.

    Of what a command with some ten thousand events takes, a third is Java's second compiler. Spark reads the
    variable when it starts Java on this machine; a cluster does not, and what the user has set stays.
    """
    if events <= limits.SHORT_EVENTS and (path is None or _bytes_at(path) <= limits.SHORT_BYTES):
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def _bytes_at(path: str) -> float:
    """Bytes of the files here, as far as it matters; many, where they are somewhere else."""
    top, found = Path(path), 0
    try:
        for file in [top] if top.is_file() else top.rglob("*"):
            found += file.stat().st_size if file.is_file() else 0
            if found > limits.SHORT_BYTES:
                break
    except OSError:
        pass
    return found or float("inf")
