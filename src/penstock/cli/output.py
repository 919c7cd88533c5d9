"""How commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from penstock.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

WIDE = 110
"""Columns where nobody says how wide the paper is: a file, a pipe."""


def _width(stream: TextIO | None) -> int | None:
    """None: rich asks the terminal, or the variable COLUMNS."""
    asks = stream is not None and stream.isatty()
    return None if asks or os.environ.get("COLUMNS", "").isdecimal() else WIDE


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads on: for `penstock filters | head` that is no failure, as it would be to rich."""
        raise BrokenPipeError


out = _Console(highlight=False, soft_wrap=False, width=_width(sys.stdout))
err = _Console(stderr=True, highlight=False, width=_width(sys.stderr))

__all__ = [
    "MARKS",
    "JsonFlag",
    "complain",
    "err",
    "escape",
    "out",
    "print_json",
    "print_table",
    "print_text",
    "progress",
    "warn",
    "watching",
]

EVERY_S = 1.0
"""Between two looks of --watch."""

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]

MARKS = {True: "[green]yes[/]", False: "[red]no[/]", None: "–"}


def print_json(found: dict[str, Any]) -> None:
    """One JSON object, for scripts; NaN and infinities, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(_finite(found), ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def _finite(found: Any) -> Any:
    if isinstance(found, float):
        return found if abs(found) < float("inf") else None
    if isinstance(found, dict):
        return {str(key): _finite(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_finite(value) for value in found]
    return found


def print_text(text: str) -> None:
    """A text as it is: no markup, no wrapping."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, markup: bool = False
) -> None:
    """A table; cells are taken literally unless they carry our own markup."""
    table = Table(
        title=escape(printable(title)), title_justify="left", title_style="bold", header_style="bold cyan"
    )
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(row if markup else [escape(printable(cell)) for cell in row]))
    out.print(table)


def complain(message: str) -> None:
    """An error, in one message."""
    err.print(f"[bold red]error:[/] {escape(printable(message))}", soft_wrap=True)


def warn(message: str) -> None:
    """Something to know."""
    err.print(f"[yellow]warning:[/] {escape(printable(message))}", soft_wrap=True)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error; silent where that is no terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(escape(title), total=None)

        def step(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{escape(title)}: {escape(what)}")

        yield step


def watching(draw: Callable[[], RenderableType]) -> None:
    """Draw it in the same place again and again, until interrupted."""
    with suppress(KeyboardInterrupt), Live(draw(), console=out, auto_refresh=False) as screen:
        while True:
            time.sleep(EVERY_S)
            screen.update(draw(), refresh=True)
