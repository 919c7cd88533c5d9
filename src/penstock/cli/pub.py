"""`penstock pub`: publishes a message, a file, or each line of standard input."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock import limits
from penstock.cli.context.target import HERE, MqttOption
from penstock.cli.files import read_bytes
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
from penstock.cli.output import JsonFlag, print_json, print_text, warn
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.client import Client

UNANSWERED: Final = 256
"""Bound of QoS 1 and 2 lines without an answer."""

CHUNKS: Final = 4
"""Pieces of standard input, 64 KB each at most, that are read ahead."""

SILENT_S: Final = 10.0
"""Seconds without an answer of the node after which a warning is printed."""


def pub(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Topic to publish to.", show_default=False)
    ] = None,
    message: Annotated[str | None, typer.Argument(metavar="MESSAGE", help="The payload, as text.")] = None,
    *,
    topic_option: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The same as TOPIC.")
    ] = None,
    message_option: Annotated[
        str | None, typer.Option("--message", "-m", metavar="TEXT", help="The same as MESSAGE.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="File of the payload; - for standard input."),
    ] = None,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines", "-l", help="Publish each line of standard input as a message, as it arrives."
        ),
    ] = False,
    qos: QosOption = 0,
    retain: Annotated[
        bool, typer.Option("--retain", "-r", help="Retain: the node keeps the message for later subscribers.")
    ] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="User property; repeatable."),
    ] = None,
    content_type: Annotated[
        str | None, typer.Option("--content-type", metavar="TYPE", help="Content type, as application/json.")
    ] = None,
    expiry_s: Annotated[
        int | None,
        typer.Option(
            "--expiry",
            min=0,
            max=0xFFFF_FFFF,
            metavar="S",
            help="Message expiry: seconds after which the message is no longer delivered.",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="Publish at most N lines a second.")
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
    as_json: JsonFlag = False,
) -> None:
    """Publish to a node.

    With QoS 1 and 2 the command waits for the node's answers. It reconnects when the connection is lost.
    """
    if topic_option is not None and topic is not None and message is None:
        topic, message = None, topic  # pub -t TOPIC MESSAGE
    topic = _one(topic, topic_option, "TOPIC", "--topic")
    if topic is None:
        raise typer.BadParameter("give a topic: penstock pub TOPIC MESSAGE, or -t TOPIC -m MESSAGE")
    message = _one(message, message_option, "MESSAGE", "--message")
    if sum((message is not None, file is not None, lines)) != 1:
        raise typer.BadParameter("give exactly one of MESSAGE, --file and --lines")
    if password_stdin and (lines or str(file) == "-"):
        raise typer.BadParameter("--password-stdin: standard input holds the message; use --password-env")
    if rate is not None and not 0 < rate < float("inf"):
        raise typer.BadParameter(f"--rate is {rate}; it is a number above 0")
    how = {
        "qos": qos,
        "retain": retain,
        "properties": dict(map(_pair, properties or ())),
        "content_type": content_type,
        "expiry_s": expiry_s,
    }
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
    payload = None
    if file is not None:
        payload = read_bytes(file, most=limits.MQTT_PACKET_BYTES)
    elif message is not None:
        payload = message.encode("utf-8", "surrogateescape")  # as it stood on the command line
    show_warnings()
    found = asyncio.run(_publish(where, topic, payload, how, rate))
    if as_json:
        print_json(found)
    else:
        answered = (
            f", {found['acknowledged']} acknowledged" if qos else " (QoS 0: no answer; -q 1 waits for one)"
        )
        nobody = f"; nobody subscribes to {found['unrouted']} of them" if found["unrouted"] else ""
        print_text(f"{found['published']} published{answered}{nobody}")


def _one(argument: str | None, option: str | None, name: str, flag: str) -> str | None:
    """Return what was given as an argument or as an option, not both."""
    if argument is not None and option is not None:
        raise typer.BadParameter(f"{name} and {flag}: give one of them")
    return option if argument is None else argument


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--property '{text}' should be like unit=bpm")
    return name, value


async def _publish(
    where: NodeLogin, topic: str, payload: bytes | None, how: dict[str, Any], rate: float | None
) -> dict[str, Any]:
    unrouted = 0

    async def one(body: bytes) -> None:
        nonlocal unrouted
        answer = await client.publish(topic, body, **how)
        unrouted += answer.reason == 0x10

    async with where.client() as client:
        watching = asyncio.create_task(_watch(client)) if how["qos"] else None
        try:
            if payload is not None:
                await one(payload)
            elif how["qos"]:
                await _several(one, rate)
            else:
                async for body in _paced(_lines(), rate):
                    await one(body)
        finally:
            if watching is not None:
                watching.cancel()
    return _told(client, topic, unrouted)


async def _watch(client: Client) -> None:
    """Warn when nothing is acknowledged for long: a node with a full disk does not answer."""
    before = (0, 0)
    while True:
        await asyncio.sleep(SILENT_S)
        sent = client.statistics().sent
        answered = sent.acknowledged + sent.refused
        now = (answered, sent.sent - answered)
        if now == before and now[1]:
            warn(
                f"{now[1]:,} not acknowledged for {SILENT_S:g} s; `penstock top` and `penstock streams` say "
                "what the node waits for"
            )
        before = now


async def _several(one: Any, rate: float | None) -> None:
    """Publish lines without waiting for each answer; stop at the first refusal."""
    under_way: set[asyncio.Task[None]] = set()
    try:
        async for body in _paced(_lines(), rate):
            under_way.add(asyncio.create_task(one(body)))
            if len(under_way) >= UNANSWERED:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        await asyncio.gather(*under_way)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input as they arrive, without line ends."""
    kept = b""
    async for chunk in _chunks():
        *whole, kept = (kept + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
        if len(kept) > limits.MQTT_PACKET_BYTES:
            raise InputError(f"a line of more than {limits.MQTT_PACKET_BYTES} bytes", path="--lines")
    if kept:
        yield kept


async def _chunks() -> AsyncIterator[bytes]:
    """Yield standard input as it arrives.

    A thread reads: this works for pipes, files and terminals, and an interrupt need not wait for a line.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed", path="--lines")
    handle = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    came: asyncio.Queue[bytes] = asyncio.Queue()
    # Bounds how far the thread reads ahead of a slow node.
    free = threading.Semaphore(CHUNKS)

    def read() -> None:
        chunk = b"-"
        with suppress(RuntimeError):  # the loop is closed: the command has ended
            while chunk:
                free.acquire()
                chunk = os.read(handle, 1 << 16)
                loop.call_soon_threadsafe(came.put_nowait, chunk)

    # A daemon: a read that blocks on a terminal must not keep the process alive.
    threading.Thread(target=read, daemon=True).start()
    while chunk := await came.get():
        free.release()
        yield chunk


async def _paced(bodies: AsyncIterator[bytes], rate: float | None) -> AsyncIterator[bytes]:
    """Yield messages no faster than `rate` a second, or without a delay if `rate` is None."""
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    async for body in bodies:
        if rate is not None:
            await asyncio.sleep(next_s - loop.time())
            next_s = max(next_s, loop.time() - 1) + 1 / rate
        yield body


def _told(client: Client, topic: str, unrouted: int) -> dict[str, Any]:
    statistics = client.statistics()
    sent = statistics.sent
    return {
        "topic": topic,
        "published": sent.published,
        "sent": sent.sent,
        "acknowledged": sent.acknowledged,
        "unrouted": unrouted,
        "abandoned": sent.abandoned,
        "connections": statistics.connections,
    }
