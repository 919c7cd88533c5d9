"""`penstock sub`: prints events as they arrive, and digests in place of dropped events."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.context.target import HERE, MqttOption
from penstock.cli.files import read_policy
from penstock.cli.lines import Printer, item_line
from penstock.cli.options import (
    CaOption,
    ClientIdOption,
    HostOption,
    NodeLogin,
    PasswordEnvOption,
    PasswordOption,
    PasswordStdinOption,
    PortOption,
    QosOption,
    UserOption,
    node_login,
    show_warnings,
)
from penstock.cli.output import colours
from penstock.errors import counted, printable

if TYPE_CHECKING:
    from penstock.client import Client, Subscription
    from penstock.client.statistics import ReceiveStatistics

POLICY_FILES: Final = frozenset({".yaml", ".yml", ".json", ".xml"})
"""File suffixes; the name of a registered policy has none of them."""

BATCH: Final = 100
"""Bound of lines that are written at once."""


@dataclass(frozen=True, slots=True)
class SubArguments:
    """The arguments of the command."""

    filters: tuple[str, ...]
    policy: str | None
    content: str | None
    fresh: str | None
    qos: int
    count: int | None
    seconds: float | None
    keep_s: int | None
    as_json: bool


def sub(
    filters: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILTER…", help="Topic filters, as ward/+/pulse.", show_default=False),
    ] = None,
    *,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="FILTER", help="The same as FILTER; repeatable."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="FILE|NAME",
            help="Which events may be dropped when this program is slow: a file, or a name at the node.",
        ),
    ] = None,
    content: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="Content filter: only events that pass, as 'keep: {gt: 100, attribute: pulse}'.",
        ),
    ] = None,
    fresh: Annotated[
        str | None,
        typer.Option(
            "--fresh",
            metavar="TIME",
            help="Time that no event should wait longer, as 500ms or 1s; in place of the policy's own.",
        ),
    ] = None,
    qos: QosOption = 0,
    count: Annotated[
        int | None, typer.Option("--count", "-C", min=1, metavar="N", help="End after N events.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", "-W", min=0, metavar="S", help="End after S seconds.")
    ] = None,
    keep_s: Annotated[
        int | None,
        typer.Option(
            "--keep",
            min=1,
            max=0xFFFF_FFFF,
            metavar="S",
            help="Stay subscribed for S seconds after the end, under --client-id: events wait meanwhile.",
        ),
    ] = None,
    node: MqttOption = HERE,
    host: HostOption = None,
    port: PortOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    password_env: PasswordEnvOption = None,
    password_stdin: PasswordStdinOption = False,
    ca: CaOption = None,
    client_id: ClientIdOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object in a line for each event and each digest.")
    ] = False,
) -> None:
    """Subscribe and print events, until interrupted.

    A digest is printed in place of events that were dropped: how many, by which filters, and a summary. The
    command reconnects when the connection is lost. At the end it prints counts on standard error.
    """
    wanted_topics = [*(filters or ()), *(topics or ())]
    if not wanted_topics:
        raise typer.BadParameter("give a topic filter: penstock sub FILTER, or -t FILTER")
    if keep_s is not None and not client_id:
        raise typer.BadParameter("--keep needs a --client-id, by which the node knows you again")
    where = node_login(
        node=node,
        user=user,
        password_env=password_env,
        password_stdin=password_stdin,
        ca=ca,
        client_id=client_id,
        password=password,
        host=host,
        port=port,
    )
    wanted = SubArguments(
        filters=tuple(dict.fromkeys(wanted_topics)),
        policy=None if policy is None else policy_given(policy),
        content=content,
        fresh=fresh,
        qos=qos,
        count=count,
        seconds=seconds,
        keep_s=keep_s,
        as_json=as_json,
    )
    show_warnings()
    found = asyncio.run(_show(where, wanted))
    typer.echo(_account(found), err=True)


def _account(found: ReceiveStatistics) -> str:
    """Say how many events came, and how many more the digests among them counted."""
    said = counted(found.taken, "event") if found.taken or found.digests else "no events"
    if found.digests:
        total = found.taken + found.taken_digested
        said += (
            f", {counted(found.digests, 'digest')} of {found.taken_digested:,} more: {total:,} accounted for"
        )
    elif found.taken:
        said += ", no digests"
    return said + (f"; {found.waiting:,} not shown" if found.waiting else "")


def policy_given(given: str) -> str:
    """Return the text of a policy in a file; any other argument is a name and returned unchanged."""
    path = Path(given)
    is_path = given == "-" or path.is_file() or "/" in given or path.suffix in POLICY_FILES
    if not is_path:
        return given
    from penstock.policy.text.forms import to_json  # noqa: PLC0415  # without a policy nothing parses YAML

    return to_json(read_policy(path), compact=True)


async def _show(where: NodeLogin, wanted: SubArguments) -> ReceiveStatistics:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with where.client(session_expiry_s=wanted.keep_s) as client:
        subscriptions = [
            await client.subscribe(
                each, qos=wanted.qos, policy=wanted.policy, filter=wanted.content, fresh=wanted.fresh
            )
            for each in wanted.filters
        ]
        typer.echo(f"subscribed to {printable(', '.join(wanted.filters))} at {where.shown}", err=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(wanted.seconds):
                await _until(stop, client, subscriptions, wanted)
        return client.statistics().received


async def _until(
    stop: asyncio.Event, client: Client, subscriptions: list[Subscription], wanted: SubArguments
) -> None:
    """Print items until interrupted, until enough were printed, or until an error."""

    printer = Printer()
    line_of = partial(item_line, as_json=wanted.as_json, colour=colours(err=False))

    def enough() -> bool:
        return wanted.count is not None and client.statistics().received.taken >= wanted.count

    async def show(subscription: Subscription) -> None:
        async for first in subscription:
            lines = [line_of(first, subscription.filter)]
            while len(lines) < BATCH and not enough() and (item := subscription.take()) is not None:
                lines.append(line_of(item, subscription.filter))
            await printer.print("\n".join(lines) + "\n")
            if enough():
                stop.set()
                return

    showing = [asyncio.create_task(show(each)) for each in subscriptions]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([*showing, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (*showing, stopping):
            task.cancel()
        await asyncio.gather(*showing, stopping, return_exceptions=True)
