"""`penstock flows`: flows of constant rate, at a running node and in recorded arrivals."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from penstock.cli.flows_analyse import analyse
from penstock.cli.output import JsonFlag, out, print_json, watching
from penstock.cli.window import WINDOW, TokenOption, WindowOption, ask_all, where_of
from penstock.core.channels.polling.words import duration
from penstock.errors import InputError, printable

app = typer.Typer(
    invoke_without_command=True, help="Flows of constant rate: at a running node, or in recorded arrivals."
)

app.command("analyse")(analyse)

STYLES: Final = {"silent": "bold red", "refused": "yellow", "served": "green"}


@app.callback()
def show(
    context: typer.Context,
    *,
    search: Annotated[str, typer.Option("--search", help="Text within client id or topic.")] = "",
    state: Annotated[
        str, typer.Option("--state", help="Only these: learning, served, refused or silent.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Look again every second.")] = False,
    url: WindowOption = WINDOW,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """List a running node's flows: period, jitter, how many come on time, what is missed, why one is refused.

    Without a subcommand; `penstock flows analyse` looks at recorded arrivals instead.
    """
    if context.invoked_subcommand is not None:
        return
    asked = {"search": search} | ({"state": state} if state else {})
    look = partial(ask_all, where_of(url, token), "flows", **asked)
    found = look()
    if as_json:
        print_json({"enabled": found["enabled"], "status": found["status"], "flows": found["flows"]})
        return
    if not found["enabled"]:
        raise InputError("this node reserves no slots; a listener needs `slots: true`", path=url)
    if not watch or not out.is_terminal:
        out.print(_table(found))
        return
    watching(lambda: _table(look()))


def _table(found: dict[str, Any]) -> Table:
    status = found["status"]
    title = f"{status['served']:,} of {status['known']:,} flows served, {status['alarms']:,} alarms"
    table = Table(title=title, box=None, header_style="bold cyan", pad_edge=False, title_justify="left")
    if status["table_fault"]:
        table.caption = Text(f"control table not taken: {printable(status['table_fault'])}", style="red")
        table.caption_justify = "left"
    for name in ("client", "topic"):
        table.add_column(name, overflow="fold")
    table.add_column("state", no_wrap=True)
    for name in ("period", "jitter", "on time", "late", "missed", "excess"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in found["flows"]:
        known = row["period_us"] > 0
        table.add_row(
            Text(printable(row["client_id"])),
            Text(printable(row["topic"])),
            Text(row["state"], style=STYLES.get(row["state"], "")),
            duration(row["period_us"]) if known else "–",
            duration(row["jitter_us"]) if row["jitter_us"] else "–",
            f"{row['on_time_rate']:.1%}" if row["on_time"] + row["late"] else "–",
            f"{row['late']:,}",
            f"{row['missed']:,}",
            f"{row['excess']:,}",
            Text(printable(row["reason"].partition(":")[0] or row["told"])),
        )
    return table
