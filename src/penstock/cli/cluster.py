"""`penstock cluster`: the nodes of a cluster, the links between them, and nodes that send clients away."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from penstock import limits
from penstock.cli.api import ApiAddress, TokenOption, api_address, ask
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.output import JsonFlag, print_json, print_text
from penstock.cli.terminal import figure_table, out, progress, watching
from penstock.errors import GoalMissed, InputError, counted, printable
from penstock.model.instant import duration

app = typer.Typer(
    no_args_is_help=True,
    help="The cluster of a running node: nodes, links, account.",
)

STYLES: Final = {"here": "green", "joining": "yellow", "draining": "yellow", "away": "bold red"}

LOOK_S: Final = 0.5
"""How often the progress of a node that sends its clients away is looked at."""

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


NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NODE",
        help="Name of the node, as in `penstock cluster members`; the one that is asked if omitted.",
        show_default=False,
    ),
]
RateOption = Annotated[
    int,
    typer.Option(
        "--rate", min=1, max=limits.CLUSTER_DRAIN_MOST, metavar="N", help="Clients sent away per second."
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", min=0, metavar="S", help="Longest time to wait for the end, in seconds; 0: do not wait."
    ),
]


@app.command("drain")
def drain(  # each is an option
    name: NameArgument = "",
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Have the node take clients again.")] = False,
    rate: RateOption = limits.CLUSTER_DRAIN_RATE,
    timeout_s: TimeoutOption = 600,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Have a node send its clients to the others, before it is stopped.

    It takes no new clients, and sends the present ones away in small steps. Clients of MQTT 5 are told where
    to go; those of 3.1.1 are disconnected. The node stays in the cluster until it is stopped, or --undo.
    """
    order = {"node": name, "undo": undo, "rate": rate}
    where = api_address(node, token)
    asked: dict[str, Any] = ask(where, "/cluster/drain", order)
    if undo:
        _done(asked["node"], "takes clients again", asked | {"state": "here"}, as_json=as_json)
        return
    left = _followed(where, asked, timeout_s) if timeout_s else asked["clients"]
    said = "has no clients any more" if not left else f"has {counted(left, 'client')} still"
    _done(asked["node"], said, asked | {"state": "draining", "left": left}, as_json=as_json)
    if left and timeout_s:
        raise GoalMissed(f"node {asked['node']} {said} after {timeout_s:g} s; it goes on sending them away")


@app.command("leave")
def leave(
    name: NameArgument = "",
    *,
    rate: RateOption = limits.CLUSTER_DRAIN_RATE,
    timeout_s: TimeoutOption = 600,
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Have a node leave the cluster for good: it sends its clients away, hands over what waits, and stops.

    The other nodes forget it at once. A node that is to come back is drained and stopped instead.
    """
    where = api_address(node, token)
    asked: dict[str, Any] = ask(where, "/cluster/drain", {"node": name, "rate": rate, "leave": True})
    left = _followed(where, asked, timeout_s, gone=True) if timeout_s else asked["clients"]
    said = "has left the cluster" if not left else "is about to leave the cluster"
    _done(asked["node"], said, asked | {"state": "left" if not left else "leaving"}, as_json=as_json)
    if left and timeout_s:
        raise GoalMissed(f"node {asked['node']} {said}, and has not after {timeout_s:g} s")


def _followed(where: ApiAddress, asked: dict[str, Any], timeout_s: float, *, gone: bool = False) -> int:
    """Show the progress until a node has no clients, or until it is gone; returns how many are left."""
    name: str = asked["node"]
    clients: int = asked["clients"]
    until_s = time.monotonic() + timeout_s
    left = clients
    with progress(f"clients of node {printable(name)}") as step:
        while True:
            row = _row(where, name, gone=gone)
            if row is None or (not gone and row["state"] == "away"):
                return 0
            load: int = row["load"]
            clients, left = max(clients, load), load + gone
            step(clients - load, clients, "sent away")
            if not left or time.monotonic() >= until_s:
                return left
            if row["state"] == "here" and not gone:
                raise InputError(f"node {printable(name)} was told to take clients again", path=where.url)
            time.sleep(LOOK_S)


def _row(where: ApiAddress, name: str, *, gone: bool) -> dict[str, Any] | None:
    """Return a node as the one that is asked sees it; None if it is not there any more."""
    try:
        found = ask(where, "/cluster")["status"]
    except InputError:
        if gone:  # it was the node itself that was asked
            return None
        raise
    if found is None:
        return None
    if found["node"] == name:
        return {"state": "draining" if found["draining"] else "here", "load": found["load"]}
    return next((row for row in found["members"] if row["name"] == name), None)


def _done(name: str, said: str, facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        print_text(printable(f"node {name} {said}"))


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
        out.print(draw(found), soft_wrap=not out.is_terminal)  # `grep` wants sentences in one line


def _links(found: dict[str, Any]) -> RenderableType:
    table = figure_table(
        f"cluster {printable(found['cluster'])}, node {printable(found['node'])} at {found['address']}",
        ("link to", "state", "over", "via", "queue"),
        ("wants", "queued", "in flight", "handed", "digested", "abandoned", "received", "round trip"),
    )
    for row in found["links"]:
        events = row["events"]
        table.add_row(
            Text(printable(row["name"])),
            Text("up" if row["connected"] else "away", style="green" if row["connected"] else "bold red"),
            "–" if not row["connected"] else "direct" if row["direct"] else "zenoh",
            Text(printable(" → ".join(row["via"])) or "–"),
            f"split in {len(row['private']):,}" if row["split"] else "shared",
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
    lines: list[RenderableType] = [table, account, _sessions(found)]
    if any(row["private"] for row in found["links"]):
        lines.insert(1, _private(found["links"]))
    forwarded = sum(row["forwarded"] for row in found["links"])
    if forwarded or found["repaired"]:
        lines.append(
            Text(
                f"trees: {counted(forwarded, 'frame')} passed on for other nodes; "
                f"{counted(found['repaired'], 'link')} sent to directly because another node had failed"
            )
        )
    if found["draining"]:
        sent = counted(found["sent_away"], "client")
        lines.append(Text(f"this node takes no clients, and has sent {sent} away", style="yellow"))
    if found["refused"]:
        lines.append(
            Text(f"{counted(found['refused'], 'connection')} of others did not become a node", "red")
        )
    if found["problem"]:
        lines.append(Text(printable(found["problem"]), style="red"))
    return Group(*lines)


def _sessions(found: dict[str, Any]) -> Text:
    """The sessions of all nodes, and what has moved."""
    total: dict[str, int] = dict(found["sessions"])
    for row in found["members"]:
        for name, count in row["sessions"].items():
            total[name] += count
    said = Text(
        f"sessions: {total['held']:,} at all nodes, {found['sessions']['held']:,} here; "
        f"{total['came']:,} moved, {total['recalled'] + total['alone']:,} without their node"
    )
    if total["standby"]:
        said.append(f", {total['standby']:,} of nodes that are away", style="yellow")
    if total["abandoned"]:
        said.append(f"; {counted(total['abandoned'], 'event')} abandoned", style="red")
    return said


def _private(links: list[dict[str, Any]]) -> RenderableType:
    """The private queues of links that are split."""
    table = figure_table(
        "private queues of links that are behind",
        ("link to", "receivers of", "policy"),
        ("level", "queued", "in flight", "handed", "digested"),
    )
    for link in links:
        for row in link["private"]:
            table.add_row(
                Text(printable(link["name"])),
                Text(printable(row["filter"]) or "all without a policy"),
                Text(row["policy"][:8] or "–"),
                f"{row['level']:,}" if row["policy"] else "–",
                *(f"{row['events'][name]:,}" for name in ("queued", "in_flight", "handed", "digested")),
            )
    return table


def _members(found: dict[str, Any]) -> RenderableType:
    here = 1 + sum(row["state"] != "away" for row in found["members"])
    table = figure_table(
        f"cluster {printable(found['cluster'])}: {here:,} of {1 + len(found['members']):,} nodes here",
        ("node", "state", "zone", "clients connect to"),
        ("clients", "sessions", "moved here", "moved away", "since"),
    )
    own = Text(f"{printable(found['node'])} (this one)")
    state = "draining" if found["draining"] else "here"
    table.add_row(
        own,
        Text(state, style=STYLES[state]),
        Text(printable(found["zone"]) or "–"),
        Text(printable(", ".join(found["clients"]))),
        f"{found['load']:,}",
        *(f"{found['sessions'][name]:,}" for name in ("held", "came", "went")),
        "",
    )
    for row in found["members"]:
        table.add_row(
            Text(printable(row["name"])),
            Text(row["state"], style=STYLES[row["state"]]),
            Text(printable(row["zone"]) or "–"),
            Text(printable(", ".join(row["clients"]))),
            f"{row['load']:,}",
            *(f"{row['sessions'][name]:,}" for name in ("held", "came", "went")),
            duration(row["since_us"]),
        )
    return table
