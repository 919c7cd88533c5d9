"""`penstock --help` on one screen: a line for each command, in groups, the daily ones first.

Typer draws boxes with rich, a Markdown parser and a syntax highlighter: importing those takes three times as
long as everything else that `penstock --help` does, and the boxes take three screens.
"""

from __future__ import annotations

from shutil import get_terminal_size
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Final

import typer

from penstock.cli.commands import GROUPS, LAB
from penstock.cli.output import colours
from penstock.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typer._click.core import Context
    from typer.core import TyperGroup

LEAST: Final = 50
"""Columns below which text is no longer cut to fit."""

WIDEST: Final = 100
"""Columns beyond which lines become no longer: the eye loses its way."""

SCREEN: Final = 29
"""Lines of a screen but for the empty one at the end; with room left, empty lines set groups apart."""


def root_help(group: TyperGroup, ctx: Context, headings: Mapping[str, str]) -> str:
    """Return the help text; `headings` has the heading of each command."""
    width = min(max(LEAST, get_terminal_size().columns), WIDEST)
    visible = {name: found.help or "" for name, found in group.commands.items() if not found.hidden}
    parts = []
    for heading in GROUPS:
        rows = {name: text for name, text in visible.items() if headings[name] == heading}
        if rows:
            parts.append(list(_lab(rows, width) if heading == LAB else _group(heading, rows, width)))
    program = ctx.command_path
    top = [f"Usage: {program} COMMAND [OPTIONS]", *wrap(group.help or "", width), ""]
    foot = ["", *wrap(f"{program} COMMAND --help has options and an example. {group.epilog}", width)]
    gap = [""] * (len(top) + sum(map(len, parts)) + len(parts) - 1 + len(foot) <= SCREEN)
    lines = [line for part in parts for line in [*part, *gap]]
    return "\n".join([*top, *lines[: len(lines) - len(gap)], *foot])


def _group(heading: str, rows: Mapping[str, str], width: int) -> Iterator[str]:
    """Draw a line for each command, with the heading beside the first one."""
    style = colours(err=False)
    names = max(11, *map(len, rows))
    label = heading
    for name, text in rows.items():
        left = typer.style(f"{label:9}", bold=True) if style else f"{label:9}"
        shown = printable(name).ljust(names)
        shown = typer.style(shown, fg="cyan") if style else shown
        yield f"{left} {shown} {shorten(printable(text), width - names - 11, placeholder=' …')}".rstrip()
        label = ""


def _lab(rows: Mapping[str, str], width: int) -> Iterator[str]:
    """Draw the commands of the lab in few lines: they measure Penstock, and are not for every day."""
    for number, line in enumerate(wrap(", ".join(rows), width - 10)):
        label = "" if number else LAB
        yield f"{typer.style(f'{label:9}', bold=True) if colours(err=False) else f'{label:9}'} {line}"
