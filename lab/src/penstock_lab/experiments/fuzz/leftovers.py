"""Ends the sessions and retained messages that a run has left: a node keeps them on purpose."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from penstock.mqtt.codes import V5, Kind
from penstock.mqtt.packets.connect import PINGREQ, Connect, Disconnect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock_lab.experiments.fuzz.player import HOST

if TYPE_CHECKING:
    from penstock_lab.experiments.fuzz.subject import Subject

PAGE: Final = 100
"""Sessions that are asked for, and ended, at once."""
ROUNDS: Final = 10_000
"""Most pages of sessions that are fetched."""
STEP_S: Final = 10.0
"""Longest wait for one answer."""


async def clear(subject: Subject) -> None:
    """End all detached sessions, and delete all retained messages that a client can see."""
    if not subject.http:
        return
    before = -1
    for _ in range(ROUNDS):
        total, names = await asyncio.to_thread(_detached, subject.http)
        if not names or total == before:
            break
        before = total
        await asyncio.gather(*(_end_session(subject.ports["mqtt"], name) for name in names))
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(STEP_S):
            await _delete_retained(subject.ports["mqtt"])


def _detached(url: str) -> tuple[int, list[str]]:
    with urlopen(f"{url}api/v1/clients?state=detached&limit={PAGE}", timeout=STEP_S) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found["total"], [client["client_id"] for client in found["clients"]]


async def _end_session(port: int, name: str) -> None:
    """Take a session over with a clean start that is not kept."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(STEP_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(encode(Connect(name), V5) + encode(Disconnect(), V5))
                while await reader.read(65_536):
                    pass
            finally:
                writer.transport.abort()


async def _delete_retained(port: int) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(encode(Connect(), V5) + encode(Subscribe(1, (Subscription("#"),)), V5) + PINGREQ)
        framer, asked = Framer(), False
        while chunk := await reader.read(65_536):
            for frame in framer.feed(chunk):
                if frame[0] >> 4 == Kind.PINGRESP and asked:
                    return
                if frame[0] >> 4 == Kind.PINGRESP:
                    asked = True
                    writer.write(PINGREQ)
                if frame[0] >> 4 == Kind.PUBLISH:
                    message = decode(frame, V5)
                    if isinstance(message, Publish) and message.retain:
                        writer.write(encode(Publish(message.topic, b"", retain=True), V5))
    finally:
        writer.transport.abort()
