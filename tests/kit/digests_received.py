"""Digests as raw MQTT clients receive them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from penstock.model.digest_wire import from_message, is_marked

if TYPE_CHECKING:
    from penstock.mqtt.packets.publish import Publish
    from tests.kit.peer import Peer, Running


def is_digest(message: Publish) -> bool:
    return is_marked(message.properties.user)


def body(message: Publish) -> dict[str, Any]:
    """The JSON of an event, or of a digest in either form."""
    if is_digest(message):
        return from_message(message.payload)[1]
    found: dict[str, Any] = json.loads(message.payload)
    return found


async def away(running: Running, client: Peer, client_id: str) -> None:
    """The client vanishes, and the node has noticed."""
    client.abort()
    while next(c for c in running.broker.status().clients if c.client_id == client_id).state == "attached":
        await asyncio.sleep(0.005)
