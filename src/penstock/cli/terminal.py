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

__all__ = ["MARKS", "err", "escape", "out", "print_table", "progress", "watching"]

EVERY_S = 1.0
"""Between two looks of --watch."""

MARKS = {True: "[green]yes[/]", False: "[red]no[/]", None: "–"}


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
