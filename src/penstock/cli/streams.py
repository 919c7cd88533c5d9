"""`penstock streams`: a running node's reliable streams, and reading and writing them from a terminal."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.output import JsonFlag, out, print_json, watching
from penstock.cli.streams_programs import forget, read, write
from penstock.cli.window import WINDOW, TokenOption, WindowOption, ask_all, where_of
from penstock.core.channels.polling.words import duration
from penstock.core.streams.tick import TICKS_PER_S
from penstock.errors import InputError, printable

app = typer.Typer(
    invoke_without_command=True, help="Reliable streams: at a running node, read, or written to."
)

app.command("read")(read)
app.command("write")(write)
app.command("forget")(forget)

STYLES: Final = {"stopped": "bold red", "catching up": "yellow", "waiting": "yellow", "live": "green"}


@app.callback()
def show(
    context: typer.Context,
    *,
    search: Annotated[str, typer.Option("--search", help="Text within name, topics or host.")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Look again every second.")] = False,
    url: WindowOption = WINDOW,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """List a running node's streams: logs, rates, who reads them and how far behind, links to other nodes.

    Without a subcommand.
    """
    if context.invoked_subcommand is not None:
        return
    look = partial(ask_all, where_of(url, token), "streams", search=search)
    found = look()
    if as_json:
        print_json({name: value for name, value in found.items() if name not in ("total", "offset")})
        return
    if not found["enabled"]:
        raise InputError("this node has no streams; give it some with `streams.host`", path=url)
    if not watch or not out.is_terminal:
        out.print(_drawn(found))
        return
    watching(lambda: _drawn(look()))


def _drawn(found: dict[str, Any]) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{printable(fault)}", style="bold red") for fault in found["faults"]]
    parts.append(_streams(found))
    consumers = [(row, one) for row in found["streams"] for one in row["consumers"]]
    if consumers:
        parts.append(_consumers(consumers))
    if found["neighbours"]:
        parts.append(_neighbours(found["neighbours"]))
    return Group(*parts)


def _table(title: str, texts: tuple[str, ...], figures: tuple[str, ...]) -> Table:
    table = Table(title=title, box=None, header_style="bold cyan", pad_edge=False, title_justify="left")
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _streams(found: dict[str, Any]) -> Table:
    table = _table(
        f"{len(found['streams']):,} stream{'s' * (len(found['streams']) != 1)} at {printable(found['node'])}",
        ("stream", "topics", "host", "state"),
        ("log", "commits", "rate", "held", "messages", "behind", "readers"),
    )
    for row in found["streams"]:
        log, readers = row["log"], row["readers"]
        table.add_row(
            Text(printable(row["name"])),
            Text(printable(" ".join(row["topics"]))),
            Text("here" if row["hosted"] else printable(row["host"])),
            Text(row["state"], style=STYLES.get(row["state"], "")),
            "–" if log is None else f"{log['messages']:,}, {_bytes(log['bytes'])}",
            "–" if not log or not log["commits"] else f"{log['commits_per_s']:,.0f}/s, {_took(log)}",
            "–" if row["rate"] is None else f"{row['rate']:,.0f}/s",
            f"{row['held'] + row['waiting']:,}",
            f"{row['published'] if row['hosted'] else row['delivered']:,}",
            f"{row['lag_s']:.1f} s",
            f"{readers['live']:,}" + _more(readers),
        )
    return table


def _took(log: dict[str, Any]) -> str:
    return str(duration(log["commit_us"]))


def _more(readers: dict[str, Any]) -> str:
    behind = [
        f"{readers[name]:,} {words}"
        for name, words in (("catching_up", "catching up"), ("away", "away"), ("missed", "missed messages"))
        if readers[name]
    ]
    return f" ({', '.join(behind)})" if behind else ""


def _consumers(found: list[tuple[dict[str, Any], dict[str, Any]]]) -> Table:
    owned = any(one["user"] for _, one in found)
    table = _table("consumers", ("stream", "consumer", *["user"] * owned, "state"), ("place", "behind"))
    for row, one in found:
        table.add_row(
            Text(printable(row["name"])),
            Text(printable(one["name"])),
            *[Text(printable(one["user"] or "–"))] * owned,
            "connected" if one["connected"] else "away",
            str(one["place"]),
            _behind(row, one["place"]),
        )
    return table


def _behind(row: dict[str, Any], place: int) -> str:
    """How far a consumer is behind; the log of one that has everything is empty after a while."""
    if row["log"] is not None and not row["log"]["messages"]:
        return "0.0 s"
    behind_s = max(0, row["position"] - place) / TICKS_PER_S
    return "everything" if place <= row["trimmed"] else f"{behind_s:.1f} s"


def _neighbours(found: list[dict[str, Any]]) -> Table:
    table = _table(
        "neighbours",
        ("neighbour", "state"),
        ("queue", "sent", "received", "dropped", "reconnects"),
    )
    for row in found:
        fault = f": {printable(row['fault'])}" if row["fault"] else ""
        style = "green" if row["state"] == "up" else "bold red" if row["state"] == "down" else ""
        table.add_row(
            Text(printable(row["name"])),
            Text(f"{row['state']}{fault}", style=style),
            _bytes(row["queue_bytes"]),
            f"{row['sent']:,} ({_bytes(row['sent_bytes'])})",
            f"{row['received']:,} ({_bytes(row['received_bytes'])})",
            f"{row['dropped']:,}",
            f"{row['reconnects']:,}",
        )
    return table


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} TB"
