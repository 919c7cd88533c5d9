"""`penstock notify`: people and programs that a running node notifies of changes."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from penstock.cli.api import TokenOption, api_address, ask
from penstock.cli.context.target import HERE, ApiOption
from penstock.cli.output import JsonFlag, print_json, print_text, warn
from penstock.cli.terminal import print_table
from penstock.core.channels.address import canonical
from penstock.errors import InputError, printable

app = typer.Typer(no_args_is_help=True, help="Notifications by chat, webhook, Apprise and feed.")


@app.command()
def status(node: ApiOption = HERE, token: TokenOption = "", as_json: JsonFlag = False) -> None:
    """Show what was sent, what waits, and the state of each transport."""
    found = ask(api_address(node, token), "/notify")
    if as_json:
        print_json(found)
        return
    names = ("taken", "sent", "digested", "waiting", "forgotten")
    print_table("Changes", names, [tuple(f"{found[name]:,}" for name in names)])
    transports = [
        (name, ", ".join(f"{key} {value}" for key, value in state.items() if value != ""))
        for name, state in found["transports"].items()
    ]
    print_table("Transports", ("transport", "state"), [tuple(map(printable, each)) for each in transports])
    for who, reason in found["sending"]["failing"].items():
        warn(printable(f"{who}: {reason}"))
    if found["fault"]:
        warn(printable(found["fault"]))


@app.command("test")
def send_test(
    who: Annotated[str, typer.Argument(metavar="WHO", help="As xmpp:ann@example.org, webhook:https://…")],
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Send a test to a person or program, subscribed or not."""
    found = ask(api_address(node, token), "/notify/test", {"who": who})
    print_json(found) if as_json else print_text(printable(found["done"]))


@app.command()
def key(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A webhook's address.")],
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Print the key by which the receiver of a webhook checks signatures."""
    found = ask(api_address(node, token), f"/notify/webhook-key?target={quote(target, safe='')}")
    print_json(found) if as_json else print_text(found["key"])


@app.command()
def feed(
    page: Annotated[str, typer.Option("--page", metavar="URL", help="Feed of one page.")] = "",
    who: Annotated[str, typer.Option("--who", metavar="WHO", help="Feed of all pages of a subscriber.")] = "",
    node: ApiOption = HERE,
    token: TokenOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Print the address of an Atom feed; whoever knows it can read the feed."""
    if bool(page) == bool(who):
        raise InputError("give either --page or --who", path="penstock notify feed")
    query = f"url={quote(canonical(page), safe='')}" if page else f"who={quote(who, safe='')}"
    found = ask(api_address(node, token), f"/notify/feed?{query}")
    print_json(found) if as_json else print_text(found["url"])
