"""Tables, progress bars and screens that are drawn again and again, with rich."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
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

__all__ = ["MARKS", "ended_by_q", "err", "escape", "out", "print_table", "progress", "watching"]

EVERY_S = 1.0
"""Interval of --watch."""

KEY_S = 0.25
"""Time after which a thread that waits for a key notices that the command has ended."""

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


def figure_table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    """Make a table without lines: columns of texts first, then columns of figures, to the right."""
    table = Table(title=title, box=None, header_style="bold cyan", pad_edge=False, title_justify="left")
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


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


@contextmanager
def ended_by_q() -> Iterator[None]:
    """While the block runs, `q` on the terminal ends it as Ctrl-C does; both end the block quietly."""
    with suppress(KeyboardInterrupt):
        if sys.stdin is None or not sys.stdin.isatty():
            yield
            return
        import termios  # noqa: PLC0415  # only where there is a terminal
        import tty  # noqa: PLC0415

        before = termios.tcgetattr(sys.stdin)
        over = threading.Event()
        tty.setcbreak(sys.stdin)  # keys come at once and are not shown; Ctrl-C still interrupts
        threading.Thread(target=_wait_for_q, args=(over,), daemon=True).start()
        try:
            yield
        finally:
            over.set()
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait_for_q(over: threading.Event) -> None:
    """Interrupt the main thread when `q` is typed, also while it waits for a node."""
    main = threading.main_thread().ident
    handle = sys.stdin.fileno()
    while not over.is_set():
        if select.select([handle], [], [], KEY_S)[0] and not over.is_set():
            keys = os.read(handle, 64)
            if b"q" in keys.lower() and main is not None:
                signal.pthread_kill(main, signal.SIGINT)
                return
            if not keys:  # the terminal has gone
                return


@contextmanager
def drawing(first: RenderableType, *, whole: bool = False) -> Iterator[Live]:
    """Draw in one place, or on the whole screen; the terminal is given back however the block ends."""
    screen = Live(first, console=out, screen=whole, auto_refresh=False)
    try:  # a key may come while the screen is taken: `with screen` would then leave it so
        screen.start(refresh=True)
        yield screen
    finally:
        screen.stop()


def watching(draw: Callable[[], RenderableType]) -> None:
    """Draw again in the same place every EVERY_S seconds, until `q` or Ctrl-C."""
    with ended_by_q(), drawing(draw()) as screen:
        while True:
            time.sleep(EVERY_S)
            screen.update(draw(), refresh=True)
