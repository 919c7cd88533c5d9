"""`penstock top`: shows a running node in the terminal."""

from __future__ import annotations

import time
from collections.abc import Generator
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.api import ApiAddress, TokenOption, api_address, refusal, unanswered
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import drawing, ended_by_q, out
from penstock.errors import InputError, counted, printable
from penstock.model.instant import duration

if TYPE_CHECKING:
    from penstock.node.observe.rows import ClientRow, Overview, Snapshot

FRAME_BYTES: Final = 16 << 20
"""The longest snapshot that is read: a hundred clients with long names take 1 MB."""

AGAIN_S: Final = (0.5, 1.0, 2.0, 4.0)
"""Pauses before each attempt to connect again; the last one is repeated."""

COLUMNS: Final = {
    "client": 0,
    "state": 0,
    "queue": 0,
    "level": 70,
    "oldest": 80,
    "wait": 100,
    "p99": 90,
    "delivered": 60,
    "dropped": 50,
    "dropped by": 110,
}
"""Columns of the table of clients, and the width of the terminal from which each is shown."""


def top(
    node: ApiOption = HERE,
    token: TokenOption = "",
    once: Annotated[
        bool,
        typer.Option("--once", help="Print one snapshot and exit; the default without a terminal."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show a running node: clients, queues, rates, the account.

    The account says whether every event is accounted for: delivered, counted in a digest, or waiting.
    `q` ends the command. With --json one snapshot is printed, as /api/v1/live of the node sends it.
    """
    where = api_address(node, token)
    if as_json:
        print_json(msgspec.to_builtins(_first(where)))
    elif once or not out.is_terminal:
        out.print(_drawn(_first(where)))
    else:
        with ended_by_q():
            _follow(where)


def _follow(where: ApiAddress) -> None:
    """Draw each snapshot; connect again when the connection is lost."""
    snapshot = _first(where)
    frames = _frames(where)
    with drawing(_drawn(snapshot), whole=True) as screen:
        failures = 0
        while True:
            try:
                for frame in frames:
                    failures = 0
                    snapshot = _snapshot(frame)
                    screen.update(_drawn(snapshot), refresh=True)
                lost = "the node closed the connection"
            except InputError as error:
                lost = str(error)
            screen.update(_drawn(snapshot, lost=lost), refresh=True)
            time.sleep(AGAIN_S[min(failures, len(AGAIN_S) - 1)])
            failures += 1
            frames = _frames(where)


def _first(where: ApiAddress) -> Snapshot:
    frames = _frames(where)
    try:
        return _snapshot(next(frames))
    except StopIteration:
        raise InputError("the node closed the connection without an answer", path=where.url) from None
    finally:
        frames.close()


def _frames(where: ApiAddress) -> Generator[bytes]:
    """Yield snapshots as the node sends them; InputError if there are none."""
    connection = where.connection()
    try:
        connection.request("GET", f"{where.path}/api/v1/live", headers=where.headers)
        answer = connection.getresponse()
        if answer.status != HTTPStatus.OK:
            raise InputError(refusal(answer), path=where.url)
        if answer.getheader("Content-Type", "") != "text/event-stream":
            raise InputError(
                "the answer is not a node's; is this the URL of its HTTP port (--node)?", path=where.url
            )
        while line := answer.readline(FRAME_BYTES):
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ")
    except (OSError, HTTPException) as error:
        raise unanswered(error, where) from None
    finally:
        connection.close()


def _snapshot(frame: bytes) -> Snapshot:
    from penstock.node.observe.rows import Snapshot  # noqa: PLC0415  # `penstock --help` needs no rows

    try:
        return msgspec.json.decode(frame, type=Snapshot)
    except msgspec.DecodeError as error:
        raise InputError(f"the node has another version: {error}") from None


# -- drawing -------------------------------------------------------------------------------------------------


def _drawn(snapshot: Snapshot, *, lost: str = "") -> RenderableType:
    node = snapshot.overview
    rows = max(3, out.size.height - 9 - len(node.faults)) if out.is_terminal else len(snapshot.clients)
    faults = [Text(f"! {printable(fault)}", style="bold red") for fault in node.faults]
    parts: list[RenderableType] = [_heading(node), _conservation(node), *faults]
    parts.append(_table(snapshot.clients[:rows], node))
    hidden = node.attached + node.detached - min(rows, len(snapshot.clients))
    if hidden > 0:
        parts.append(Text(f"and {counted(hidden, 'more client')}, none further behind", style="dim"))
    if lost:
        parts.append(Text(f"reconnecting: {printable(lost)}", style="bold red"))
    return Group(*parts)


def _heading(node: Overview) -> Text:
    rates = node.rates
    return Text.assemble(
        (f"penstock {printable(node.version)}", "bold"),
        f"  up {duration(node.now_us - node.started_us)}"
        f"  clients {node.attached:,} + {node.detached:,} detached, {node.behind:,} behind"
        f"  in {rates.messages_received:,.0f}/s  out {rates.messages_sent:,.0f}/s"
        f"  dropped {rates.digested + rates.counted:,.0f}/s",
    )


def _conservation(node: Overview) -> Text:
    account = node.account
    sign, verdict, style = ("=", "✓", "green") if node.balanced else ("≠", "✗ not accounted for", "bold red")
    return Text(
        f"accepted {account.accepted:,} {sign} delivered {account.delivered:,} + digested"
        f" {account.digested:,} + counted {account.counted:,} + queued {account.queued:,}"
        f" + abandoned {account.abandoned:,}  {verdict}",
        style=style,
    )


def _table(clients: tuple[ClientRow, ...], node: Overview) -> Table:
    table = Table(box=None, header_style="bold cyan", pad_edge=False, expand=True)
    shown = [name for name, least in COLUMNS.items() if out.width >= least]
    for name in shown:
        if name in ("client", "dropped by"):
            table.add_column(name, overflow="ellipsis", no_wrap=True, ratio=1)
        elif name == "state":
            table.add_column(name, no_wrap=True, min_width=8)
        else:
            table.add_column(name, justify="right", no_wrap=True, min_width=max(7, len(name)))
    for client in clients:
        full = client.items / max(1, node.queue_events)
        cells: dict[str, Text | str] = {
            "client": Text(printable(client.client_id)),
            "state": Text(
                "behind" if client.behind else client.state, style="yellow" if client.behind else ""
            ),
            "queue": Text(
                f"{client.items:,}", style="red" if full >= 0.9 else "yellow" if full >= 0.5 else ""
            ),
            "level": Text(str(client.level), style="yellow" if client.level and client.items else ""),
            "oldest": duration(client.oldest_us) if client.items else "–",
            "wait": duration(client.wait_us) if client.wait_us else "–",
            "p99": duration(client.latency_p99_us) if client.latency_p99_us else "–",
            "delivered": f"{client.account.delivered:,}",
            "dropped": f"{client.account.digested + client.account.counted:,}",
            "dropped by": Text(_dropped(client)),
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _dropped(client: ClientRow) -> str:
    sums: dict[str, int] = {}
    for one in client.subscriptions:
        for found in one.filters:
            name = f"{found.level}.{found.position} {found.filter}" if found.level else found.filter
            sums[name] = sums.get(name, 0) + found.dropped
    most = sorted(((count, name) for name, count in sums.items() if count), reverse=True)
    return printable(", ".join(f"{name} {count:,}" for count, name in most[:3]))
