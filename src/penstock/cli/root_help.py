"""`penstock --help`: usage, options, and the commands in boxes, drawn like the help of each command.

Typer draws its boxes with rich, a Markdown parser and a syntax highlighter: importing those takes three times
as long as everything else that `penstock --help` does.
"""

from __future__ import annotations

from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import typer

from penstock.cli.commands import GROUPS
from penstock.cli.output import colours
from penstock.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typer._click.core import Context
    from typer.core import TyperGroup

LEAST: Final = 50
"""Columns below which text is no longer wrapped to fit."""


def root_help(group: TyperGroup, ctx: Context, headings: Mapping[str, str]) -> str:
    """Return the help text; `headings` has the heading of each command."""
    width = max(LEAST, get_terminal_size().columns)
    records = [parameter.get_help_record(ctx) for parameter in group.get_params(ctx)]
    visible = {name: found.help or "" for name, found in group.commands.items() if not found.hidden}
    lines = ["", f" {group.get_usage(ctx)}", "", f" {group.help}", ""]
    lines += _box("Options", [record for record in records if record is not None], width=width)
    names = max(map(len, visible))
    for heading in GROUPS:
        rows = [(name, text) for name, text in visible.items() if headings[name] == heading]
        lines += _box(heading, rows, width=width, names=names) if rows else ()
    lines += ["", *(f" {line}" for line in wrap(group.epilog or "", width - 2)), ""]
    return "\n".join(lines)


def _box(title: str, rows: list[tuple[str, str]], *, width: int, names: int = 0) -> Iterator[str]:
    """Draw rows of a name and a text in a box; `names` is the least width of the names."""
    names = max(names, *(len(name) for name, _ in rows))
    style = colours(err=False)
    yield f"╭─ {title} {'─' * (width - len(title) - 5)}╮"
    for name, text in rows:
        shown = printable(name).ljust(names)
        for line in wrap(printable(text), width - names - 6) or [""]:
            label = typer.style(shown, fg="cyan", bold=True) if style else shown
            yield f"│ {label}  {line.ljust(width - names - 6)} │"
            shown = " " * names
    yield f"╰{'─' * (width - 2)}╯"
