"""Tables, progress bars and screens that are drawn again and again, with rich."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

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
"""Width of output into a file or a pipe, in columns."""


def _width(stream: TextIO | None) -> int | None:
    """Return the width to print in, or None to let rich ask the terminal or the variable COLUMNS."""
    asks = stream is not None and stream.isatty()
    return None if asks or os.environ.get("COLUMNS", "").isdecimal() else WIDE


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError instead of exiting with 1: `penstock filters | head` is no failure."""
        raise BrokenPipeError


out = _Console(highlight=False, soft_wrap=False, width=_width(sys.stdout))
err = _Console(stderr=True, highlight=False, width=_width(sys.stderr))

__all__ = ["MARKS", "err", "escape", "out", "print_table", "progress", "watching"]

EVERY_S = 1.0
"""Interval of --watch."""

MARKS = {True: "[green]yes[/]", False: "[red]no[/]", None: "–"}


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, markup: bool = False
) -> None:
    """Print a table; cells are taken literally unless `markup` is set."""
    table = Table(
        title=escape(printable(title)), title_justify="left", title_style="bold", header_style="bold cyan"
    )
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(row if markup else [escape(printable(cell)) for cell in row]))
    out.print(table)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on standard error; nothing if that is no terminal."""
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
    """Draw again in the same place every EVERY_S seconds, until interrupted."""
    with suppress(KeyboardInterrupt), Live(draw(), console=out, auto_refresh=False) as screen:
        while True:
            time.sleep(EVERY_S)
            screen.update(draw(), refresh=True)
