"""`penstock watch`: prints the changes of a web page as they are found."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from penstock.cli.lines import Printer, digest_line, local_time
from penstock.cli.options import (
    CaOption,
    ClientIdOption,
    NodeLogin,
    PasswordEnvOption,
    PasswordOption,
    PasswordStdinOption,
    UserOption,
    node_login,
    show_warnings,
)
from penstock.cli.sub import policy_given
from penstock.cli.terminal import err, escape
from penstock.core.channels.address import canonical, topic_of
from penstock.errors import ChannelError, counted, printable
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.core.channels.delta import Delta
    from penstock.model.digest import Digest
    from penstock.node.service import Node

EVERY_S: Final = 60.0
"""Interval between fetches without a node: often enough for most pages, and few servers object."""

LOOK_S: Final = 0.5
"""Interval between checks of the page's state."""

UNSEEN_S: Final = 2.0
"""Time after which the command explains why the page was not fetched."""

PRIVATE: Final = ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
"""Private networks that may be fetched from if the page is in one of them: the user named it."""


@dataclass(frozen=True, slots=True)
class WatchArguments:
    """Options of a run."""

    url: str
    policy: str | None
    every_s: float
    once: bool
    seconds: float | None
    as_json: bool


def watch(
    page: Annotated[str, typer.Argument(metavar="URL", help="A page or feed, as https://example.org/news.")],
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="FILE|NAME", help="Which changes may be dropped when this program is slow."
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="TIME",
            help="Interval of fetches, as 30s or 5min; 1min if omitted.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the first change.")] = False,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, metavar="S", help="End after S seconds.")
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--node",
            envvar="PENSTOCK_URL",
            metavar="NODE",
            help="A node that watches pages: a context, HOST, HOST:PORT or URL; if omitted, this command "
            "fetches by itself.",
        ),
    ] = None,
    user: UserOption = None,
    password: PasswordOption = None,
    password_env: PasswordEnvOption = None,
    password_stdin: PasswordStdinOption = False,
    ca: CaOption = None,
    client_id: ClientIdOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each change, in a line.")
    ] = False,
) -> None:
    """Show what changes on a web page, until interrupted.

    Without --node a node is run inside this command, for its time only. What is being watched, and what
    goes wrong, is said on standard error.
    """
    if every is not None and node is not None:
        raise typer.BadParameter("--every: a node decides for all subscribers; see `penstock channels add`")
    wanted = WatchArguments(
        url=canonical(page),
        policy=None if policy is None else policy_given(policy),
        every_s=EVERY_S if every is None else seconds_of(every),
        once=once,
        seconds=seconds,
        as_json=as_json,
    )
    where = node_login(
        node=node or "127.0.0.1",
        user=user,
        password_env=password_env,
        password_stdin=password_stdin,
        ca=ca,
        client_id=client_id,
        password=password,
    )
    show_warnings()
    changes = asyncio.run(_watch(where, wanted, alone=node is None))
    err.print(counted(changes, "change"))


def seconds_of(text: str, *, least_s: int = 1) -> float:
    """Parse the value of --every; return seconds."""
    from penstock.node.config.amounts import quantity  # noqa: PLC0415  # other commands need no node

    found = quantity(text, "s")
    if found is None or not least_s <= found <= 31 * 86_400:
        raise typer.BadParameter(f"--every {text}: a time from {least_s}s to 31d, as 30s, 5min or 2h")
    return float(found)


async def _watch(where: NodeLogin, wanted: WatchArguments, *, alone: bool) -> int:
    """Show changes as a node finds them, a node inside this command if it is `alone`; return their number."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        node = None
        if alone:
            node = await stack.enter_async_context(_node(wanted))
            where = replace(where, url=f"mqtt://127.0.0.1:{node.listeners[0].port}")
        client = await stack.enter_async_context(where.client())
        reporting = asyncio.create_task(_report(node, wanted))
        stack.callback(reporting.cancel)
        showing = asyncio.create_task(_show(client, wanted))
        stopping = asyncio.create_task(stop.wait())
        stack.callback(stopping.cancel)
        await asyncio.wait({showing, stopping}, timeout=wanted.seconds, return_when=asyncio.FIRST_COMPLETED)
        if showing.done():
            showing.result()
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing
        received = client.statistics().received
        return received.taken + received.taken_digested


def _node(wanted: WatchArguments) -> Node:
    """Make a node that polls this page only and stores nothing."""
    from yarl import URL  # noqa: PLC0415

    from penstock.node.config.channels import ChannelSettings, Polling  # noqa: PLC0415
    from penstock.node.config.read import LoadedConfig  # noqa: PLC0415
    from penstock.node.config.schema import Config, Http, Listener  # noqa: PLC0415
    from penstock.node.outbound.guard import AddressGuard  # noqa: PLC0415
    from penstock.node.service import Node  # noqa: PLC0415

    host = URL(wanted.url).host or ""
    own = host == "localhost" or bool(AddressGuard().refusal(host))
    every_s = wanted.every_s
    polling = Polling(least_s=every_s, most_s=max(every_s, Polling().most_s), networks=PRIVATE if own else ())
    channels = ChannelSettings(enabled=True, interval_s=every_s, polling=polling)
    config = Config(
        listeners=(Listener(port=0),), http=Http(enabled=False), data="", sys_interval_s=0, channels=channels
    )
    return Node(LoadedConfig(config))


async def _report(node: Node | None, wanted: WatchArguments) -> None:
    """Print what is watched, and what goes wrong with it."""
    if node is None:
        return
    assert node.channels is not None
    said, waited_s = "", 0.0
    while True:
        await asyncio.sleep(LOOK_S)
        waited_s += LOOK_S
        try:
            found = node.channels.channel(wanted.url)
        except ChannelError:
            continue  # not subscribed yet
        text = said
        if found.problem:
            text = found.problem
        elif found.version:
            text = f"watching {found.title or found.url} ({found.kind}), every {wanted.every_s:g} s"
        elif waited_s >= UNSEEN_S:
            text = (node.channels.why(wanted.url).splitlines()[1:] or [said])[0]  # the line that says when
        if text != said:
            said = text
            err.print(f"[dim]{escape(printable(text))}[/]", soft_wrap=True)


async def _show(client: Client, wanted: WatchArguments) -> None:
    topic = topic_of(wanted.url)
    # The retained message is an old change; only new ones are shown.
    subscription = await client.subscribe(topic, qos=1, policy=wanted.policy, retain_handling=2)
    printer = Printer()
    async for item in subscription:
        await printer.print(_text(item, topic, as_json=wanted.as_json))
        if wanted.once:
            return


def _text(item: Event | Digest, topic: str, *, as_json: bool) -> str:
    from penstock.core.channels.difference import from_json  # noqa: PLC0415  # loads parsers

    if not isinstance(item, Event):
        line = digest_line(item, topic)
        return (json.dumps({"digest": line.strip()}, ensure_ascii=False) if as_json else line) + "\n"
    if as_json:
        return msgspec.json.encode(msgspec.json.decode(item.payload)).decode() + "\n"
    delta = from_json(item.payload)
    return change_text(delta) + "\n"


def change_text(delta: Delta) -> str:
    """Format a change for a terminal: time, page and lines."""
    from penstock.core.channels.difference import text_of  # noqa: PLC0415  # loads parsers

    lines = [local_time(delta.at_us), *text_of(delta).splitlines()]
    return "\n".join(map(printable, lines)) + "\n"
