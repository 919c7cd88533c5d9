"""`penstock cluster`: the other nodes of a running node, and the links to them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.api import TokenOption, api_address, ask
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.output import JsonFlag, print_json
from penstock.cli.terminal import out, watching
from penstock.errors import InputError, printable
from penstock.model.instant import duration

app = typer.Typer(
    no_args_is_help=True,
    help="The cluster of a running node: nodes, links, account.",
)

STYLES: Final = {"here": "green", "joining": "yellow", "away": "bold red"}

WatchFlag = Annotated[bool, typer.Option("--watch", help="Refresh every second.")]


@app.command("status")
def status(
    *, watch: WatchFlag = False, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False
) -> None:
    """Show the links of a node and the account of the cluster: every event is handed over, or told of."""
    _show(node, token, _links, watch=watch, as_json=as_json)


@app.command("members")
def members(
    *, watch: WatchFlag = False, node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False
) -> None:
    """List the nodes of the cluster: state, zone, addresses for clients, attached clients."""
    _show(node, token, _members, watch=watch, as_json=as_json)


def _show(node: str, token: str, draw: Any, *, watch: bool, as_json: bool) -> None:
    where = api_address(node, token)

    def look() -> dict[str, Any]:
        found = ask(where, "/cluster")
        if not found["enabled"] and not as_json:
            raise InputError(
                "this node belongs to no cluster; its configuration needs a section `cluster`, "
                "or `penstock up` the option --join",
                path=where.url,
            )
        return found["status"] if found["enabled"] else {}

    found = look()
    if as_json:
        print_json({"enabled": bool(found), "status": found or None})
    elif watch and out.is_terminal:
        watching(lambda: draw(look()))
    else:
        out.print(draw(found))


def _links(found: dict[str, Any]) -> RenderableType:
    table = _table(
        f"cluster {printable(found['cluster'])}, node {printable(found['node'])} at {found['address']}",
        ("link to", "state"),
        ("wants", "queued", "in flight", "handed", "digested", "abandoned", "received", "round trip"),
    )
    for row in found["links"]:
        events = row["events"]
        table.add_row(
            Text(printable(row["name"])),
            Text("up" if row["connected"] else "away", style="green" if row["connected"] else "bold red"),
            f"{row['filters']:,}",
            *(
                f"{events[name]:,}"
                for name in ("queued", "in_flight", "handed", "digested", "abandoned", "received")
            ),
            duration(row["round_trip_us"]) if row["round_trip_us"] else "–",
        )
    total = found["total"]
    account = Text(
        f"all nodes: {total['accepted']:,} accepted for other nodes = {total['handed']:,} handed + "
        f"{total['digested']:,} digested + {total['queued']:,} queued + {total['in_flight']:,} in flight + "
        f"{total['abandoned']:,} abandoned"
    )
    account.append("" if found["balanced"] else "  does not add up", style="bold red")
    lines: list[RenderableType] = [table, account]
    if found["problem"]:
        lines.append(Text(printable(found["problem"]), style="red"))
    return Group(*lines)


def _members(found: dict[str, Any]) -> RenderableType:
    here = 1 + sum(row["state"] != "away" for row in found["members"])
    table = _table(
        f"cluster {printable(found['cluster'])}: {here:,} of {1 + len(found['members']):,} nodes here",
        ("node", "state", "zone", "clients connect to"),
        ("clients", "since"),
    )
    own = Text(f"{printable(found['node'])} (this one)")
    table.add_row(
        own,
        Text("here", style=STYLES["here"]),
        Text(printable(found["zone"]) or "–"),
        Text(printable(", ".join(found["clients"]))),
        f"{found['load']:,}",
        "",
    )
    for row in found["members"]:
        table.add_row(
            Text(printable(row["name"])),
            Text(row["state"], style=STYLES[row["state"]]),
            Text(printable(row["zone"]) or "–"),
            Text(printable(", ".join(row["clients"]))),
            f"{row['load']:,}",
            duration(row["since_us"]),
        )
    return table


def _table(title: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, box=None, header_style="bold cyan", pad_edge=False, title_justify="left")
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table
