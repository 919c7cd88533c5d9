"""The help of the program: `penstock --help` on one screen, and an example for the help of each command.

Typer draws boxes with rich, a Markdown parser and a syntax highlighter: importing those takes three times as
long as everything else that `penstock --help` does, and the boxes take three screens. `EXAMPLES` has the
examples that say more than the arguments do; for other commands one is made of their arguments.
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

    from typer._click.core import Command, Context
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
    foot = [
        "",
        *wrap(f"{program} COMMAND --help has an example. {group.epilog}", width, break_on_hyphens=False),
    ]
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


PAGE: Final = "https://example.org/news"

EXAMPLES: Final[dict[str, str]] = {
    "pub": """penstock pub ward/7 '{"pulse": 72}' -q 1""",
    "sub": "penstock sub 'ward/#' --policy ward.yaml -i phone --keep 3600",
    "watch": f"penstock watch {PAGE} --every 5min",
    "up": "penstock up --config penstock.yaml",
    "top": "penstock top --node nas.local",
    "streams": "penstock streams --watch",
    "streams read": "penstock streams read orders --from earliest --consumer billing",
    "streams write": "penstock streams write orders orders/new --writer import-1 < orders.txt",
    "context add": "penstock context add home mqtts://nas.local -u ann --password-file pw --use",
    "context use": "penstock context use home",
    "cluster drain": "penstock cluster drain n2 --node nas.local --rate 50",
    "cluster leave": "penstock cluster leave n2 --node nas.local",
    "cluster members": "penstock cluster members --node nas.local",
    "cluster status": "penstock cluster status --node nas.local --watch",
    "config check": "penstock config check penstock.yaml --strict",
    "config schema": "penstock config schema > penstock.schema.json",
    "config init": "penstock config init penstock.yaml",
    "policy init": "penstock policy init ward.yaml",
    "config settings": "penstock config settings --json",
    "passwd": "penstock passwd ann",
    "channels list": "penstock channels list --search example.org",
    "channels add": f"penstock channels add {PAGE} --every 5min --css '#headlines'",
    "channels history": f"penstock channels history {PAGE} --count 3",
    "channels subscribe": f"penstock channels subscribe webhook:https://example.org/hook {PAGE}",
    "channels import": "penstock channels import feeds.opml --for xmpp:ann@example.org",
    "channels export": "penstock channels export feeds.opml",
    "channels restore": f"penstock channels restore {PAGE} 1777803600000000",
    "channels try": f"penstock channels try {PAGE} --xpath '//h2'",
    "users list": "penstock users list --node home",
    "users set": "penstock users set ann --node home",
    "users remove": "penstock users remove ann --node home",
    "users rules": "penstock users rules rules.yaml --save",
    "notify test": "penstock notify test webhook:https://example.org/hook",
    "notify key": "penstock notify key https://example.org/hook",
    "notify feed": f"penstock notify feed --page {PAGE}",
    "flows": "penstock flows --state silent --watch",
    "flows analyse": "penstock flows analyse --packets recorded/events --out reservations",
    "pipeline init": "penstock pipeline init pipeline --data penstock-data",
    "pipeline run": "penstock pipeline run pipeline --engine plain --every 10m",
    "pipeline status": "penstock pipeline status pipeline --json",
    "policy rollback": "penstock policy rollback pipeline/control/policies",
    "policy check": "penstock policy check ward.yaml --strict",
    "policy convert": "penstock policy convert ward.yaml --to python",
    "policy schema": "penstock policy schema > policy.schema.json",
    "policy try": "penstock policy try ward.yaml --events events.jsonl --drain 50/s",
    "generate": "penstock generate vitals --events 100000 --out vitals.parquet",
    "backtest": "penstock backtest --events vitals.parquet --policy ward.yaml --capacity 300 --drain 50/s",
    "advise": "penstock advise --events vitals.parquet --attribute pulse --matters '> 120' --budget 0.5 "
    "--out mine.yaml",
    "shed": "penstock shed --in events --out packed --policy ward.yaml --capacity 300 --key topic --once",
    "allocate": "penstock allocate --channels channels.csv --budget 10000 --out intervals",
    "bench": "penstock bench node --quick",
    "conformance": "penstock conformance --vectors vectors/mqtt",
    "demo": "penstock demo --quick",
    "reproduce": "penstock reproduce pack-fig8 --quick",
    "sim cluster": "penstock sim cluster --runs 100 --seed 1",
    "sim streams": "penstock sim streams --runs 100 --seed 1",
    "sim fuzz": "penstock sim fuzz mqtt --minutes 1",
}
"""Examples by command."""

VALUES: Final = {"PAGE": PAGE, "NAME": "home", "FILE": "ward.yaml", "STREAM": "orders", "CONSUMER": "billing"}
"""The word that examples show in the place of an argument."""


def illustrate(command: Command, path: str) -> None:
    """Put an example below the help of a command, and of its subcommands."""
    subcommands = getattr(command, "commands", {})
    for name, each in subcommands.items():
        illustrate(each, f"{path} {name}")
    if not command.epilog and "Example: " not in (command.help or ""):
        example = EXAMPLES.get(path) or made(command, path)
        command.epilog = f"Example: {example}"


def made(command: Command, path: str) -> str:
    """Return an example: the command, and its required arguments and options."""
    if getattr(command, "commands", {}) and not getattr(command, "invoke_without_command", False):
        name, first = next(iter(command.commands.items()))  # type: ignore[attr-defined]
        return EXAMPLES.get(f"{path} {name}") or made(first, f"{path} {name}")
    words = ["penstock", path]
    for each in command.params:
        if each.required:
            value = VALUES.get(name := (each.metavar or each.name or "").strip(), name)
            words += [value] if each.param_type_name == "argument" else [each.opts[0], value]
    return " ".join(words)
