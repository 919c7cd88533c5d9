"""Reads messages that follow each other in a JetStream stream: with a consumer of its own, gone after it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

PULL_S: Final = 5.0
"""How long the server may take for all of them."""
FORGET_S: Final = 30.0
"""After which the server forgets a reading that was broken off."""


async def pull(client: Client, stream: str, sequence: int, most: int) -> list[tuple[int, bytes]]:
    """The first messages from a sequence on, with their sequences: `most` of them, or all there are."""
    from nats.js import api  # noqa: PLC0415  # an extra

    manager = client.jsm()
    reading = await manager.add_consumer(
        stream,
        api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=sequence,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=FORGET_S,
        ),
    )
    most = min(most, reading.num_pending or 0)
    found = await _next(client, f"{stream}.{reading.name}", most) if most else []
    await manager.delete_consumer(stream, reading.name)
    return found


async def _next(client: Client, reading: str, most: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    done = asyncio.get_running_loop().create_future()

    async def take(message: Msg) -> None:
        if message.reply:  # $JS.ACK.stream.consumer.deliveries.sequence.…
            found.append((int(message.reply.split(".")[5]), message.data))
        if (not message.reply or len(found) == most) and not done.done():
            done.set_result(None)

    inbox = client.new_inbox()
    listening = await client.subscribe(inbox, cb=take)
    request = json.dumps({"batch": most, "no_wait": True}).encode()
    try:
        await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{reading}", request, reply=inbox)
        async with asyncio.timeout(PULL_S):
            await done
    finally:
        await listening.unsubscribe()
    return found
