"""`penstock streams`: shows a running node's reliable streams; reads and writes them in a pipe."""

from __future__ import annotations

import json
import ssl
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import quote

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock import limits
from penstock.cli.api import TokenOption, api_address, ask_all
from penstock.cli.context.target import HERE, ApiOption, StreamOption, target
from penstock.cli.lines import local_time, payload_json, payload_text
from penstock.cli.options import CaOption, PasswordEnvOption, UserOption, password_of, tls_context
from penstock.cli.output import JsonFlag, print_json, print_text
from penstock.cli.terminal import figure_table, out, watching
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.errors import InputError, counted, printable
from penstock.model.instant import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.client import StreamMessage, StreamReader

IDLE_S: Final = 0.05
"""Seconds without a message after which the position is stored."""

TOGETHER: Final = 1_000
"""Messages after which the position is stored."""

StreamArgument = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream.")]


def read(
    stream: StreamArgument,
    *,
    start: Annotated[
        str,
        typer.Option("--from", metavar="earliest|new|TICK", help="First message: new, earliest or a tick."),
    ] = "new",
    count: Annotated[
        int | None, typer.Option("--count", min=1, metavar="N", help="End after N messages.")
    ] = None,
    to_end: Annotated[
        bool, typer.Option("--to-end", help="End after the messages that are there now.")
    ] = False,
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer", metavar="NAME", help="Store the position under this name, and continue from it."
        ),
    ] = None,
    node: StreamOption = HERE,
    user: UserOption = None,
    password_env: PasswordEnvOption = None,
    ca: CaOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the messages of a stream in order, each with its tick, until interrupted.

    With --json each line is an object.
    """
    from penstock.client import StreamReader  # noqa: PLC0415  # other commands need no client

    url, tls = _place(node, user, password_env, ca)
    reader = StreamReader(
        url,
        stream,
        consumer=consumer,
        start=_start(start),
        until="end" if to_end else None,
        tls=tls,
    )
    with suppress(KeyboardInterrupt), reader:
        try:
            _show(reader, count, keep=consumer is not None, as_json=as_json)
        except BrokenPipeError:
            raise BrokenPipeError from None  # without its number typer does not take it for a failure


def _show(reader: StreamReader, count: int | None, *, keep: bool, as_json: bool) -> None:
    """Print messages as they arrive; with a consumer, store its position."""
    shown = committed = 0
    over = False
    while not over:
        try:
            message = reader.read(timeout_s=IDLE_S)
        except TimeoutError:
            message, idle = None, True
        else:
            idle = over = message is None
        if message is not None:
            sys.stdout.write((_json_line(message) if as_json else _line(message)) + "\n")
            shown += 1
            over = shown == count
        if shown > committed and (idle or over or shown - committed >= TOGETHER):
            sys.stdout.flush()
            if keep:
                reader.commit()
            committed = shown


def write(
    stream: StreamArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="One of the stream's topics.")],
    *,
    writer: Annotated[
        str | None,
        typer.Option(
            "--writer",
            metavar="NAME",
            help="Name of the writer: of lines written again under it only missing ones are added.",
        ),
    ] = None,
    node: StreamOption = HERE,
    user: UserOption = None,
    password_env: PasswordEnvOption = None,
    ca: CaOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write each line of standard input into a stream; end when all are on the node's disk."""
    from penstock.client import StreamWriter  # noqa: PLC0415

    lines = 0
    url, tls = _place(node, user, password_env, ca)
    with StreamWriter(url, stream, writer, tls=tls) as out:
        known = out.last
        for lines, line in enumerate(_lines(), start=1):  # the last one is their number
            out.write(topic, line, number=lines)
        out.flush()
    there = min(known, lines)
    if as_json:
        print_json({"stream": stream, "lines": lines, "written": lines - there, "there": there})
    else:
        print_text(f"{lines - there} written" + (f", {there} were there already" if there else ""))


def forget(
    stream: StreamArgument,
    consumer: Annotated[
        str, typer.Argument(metavar="CONSUMER", help="Name of the consumer, as `penstock streams` lists it.")
    ],
    *,
    node: StreamOption = HERE,
    user: UserOption = None,
    password_env: PasswordEnvOption = None,
    ca: CaOption = None,
) -> None:
    """Delete the stored position of a consumer."""
    from penstock.client.streams.reader import forget_consumer  # noqa: PLC0415

    url, tls = _place(node, user, password_env, ca)
    if not forget_consumer(url, stream, consumer, tls=tls):
        raise InputError(f"stream '{stream}' has no consumer '{consumer}'; `penstock streams` lists them")
    print_text(f"forgotten: {consumer}")


def _start(text: str) -> Literal["earliest", "new"] | int:
    match text:
        case "earliest" | "new":
            return text
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"--from is '{text}': earliest, new or a tick")
    return int(text)


def _place(
    node: str, user: str | None, password_env: str | None, ca: Path | None
) -> tuple[str, ssl.SSLContext | None]:
    """Return the address of `streams.listen` with user and password in it, and the certificates to trust."""
    found = target(node, "stream")
    password = password_of(password_env) if password_env is not None else None
    user, password, ca = found.login(user, password, ca)
    scheme, _, place = found.url.partition("://")
    if user is not None and "@" in place:
        raise InputError("give the user in the address, or with --user, not both", path="--user")
    login = "" if user is None else f"{quote(user, safe='')}:{quote(password or '', safe='')}@"
    return f"{scheme}://{login}{place}", None if ca is None else tls_context(ca)


def _lines() -> Iterator[bytes]:
    if sys.stdin is None:
        raise InputError("standard input is closed", path="-")
    while line := sys.stdin.buffer.readline(limits.STREAM_ROW_BYTES + 2):
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(body) > limits.STREAM_ROW_BYTES:
            raise InputError(f"a line of more than {limits.STREAM_ROW_BYTES} bytes", path="-")
        yield body


def _line(message: StreamMessage) -> str:
    said = f"{local_time(message.ts_us)} {printable(message.topic)} {payload_text(message.payload)}"
    return f"{message.tick} {said}"


def _json_line(message: StreamMessage) -> str:
    found: dict[str, Any] = {
        "stream": message.stream,
        "tick": message.tick,
        "topic": message.topic,
        "ts": message.ts_us,
        **payload_json(message.payload),
    }
    return json.dumps(found, ensure_ascii=False)


app = typer.Typer(invoke_without_command=True, help="Reliable streams: list, read and write them.")

app.command("read")(read)
app.command("write")(write)
app.command("forget")(forget)

STYLES: Final = {"stopped": "bold red", "catching up": "yellow", "waiting": "yellow", "live": "green"}


@app.callback()
def show(
    context: typer.Context,
    *,
    search: Annotated[
        str, typer.Option("--search", help="Show streams whose name, topics or host contain this text.")
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second.")] = False,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """List a running node's streams: logs, rates, who reads them and how far behind, links to other nodes.

    Without a subcommand.
    """
    if context.invoked_subcommand is not None:
        return
    where = api_address(node, token)
    look = partial(ask_all, where, "streams", search=search)
    found = look()
    if as_json:
        print_json({name: value for name, value in found.items() if name not in ("total", "offset")})
        return
    if not found["enabled"]:
        raise InputError("this node has no streams; give it some with `streams.host`", path=where.url)
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


def _streams(found: dict[str, Any]) -> Table:
    table = figure_table(
        f"{counted(len(found['streams']), 'stream')} at {printable(found['node'])}",
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
    table = figure_table("consumers", ("stream", "consumer", *["user"] * owned, "state"), ("place", "behind"))
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
    """Return how far a consumer is behind; a consumer that is not behind has an empty log after a while."""
    if row["log"] is not None and not row["log"]["messages"]:
        return "0.0 s"
    behind_s = max(0, row["position"] - place) / TICKS_PER_S
    return "everything" if place <= row["trimmed"] else f"{behind_s:.1f} s"


def _neighbours(found: list[dict[str, Any]]) -> Table:
    table = figure_table(
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
