"""The options every Spark command has."""

from __future__ import annotations

from typing import Annotated

import typer

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
