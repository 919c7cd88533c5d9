"""A policy for readings of a pulse, such readings, and what a client gets of them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from penstock.client import ReceivedEvent
from penstock.model import Digest

if TYPE_CHECKING:
    from penstock.client import Subscription
    from tests.kit.peer import Running

VITALS = """
name: vitals
attribute: pulse
digest: [count, mean, max]
levels:
  - drop: {within: [50, 100]}
  - keep: {latest: 3}
"""


def url(running: Running) -> str:
    return f"mqtt://127.0.0.1:{running.port}"


def pulse(value: int, *, size: int = 0) -> bytes:
    return json.dumps({"pulse": value}).encode() + b" " * size


async def events(subscription: Subscription, count: int) -> list[ReceivedEvent]:
    found = []
    for _ in range(count):
        item = await asyncio.wait_for(subscription.get(), 120)
        assert isinstance(item, ReceivedEvent), item
        found.append(item)
    return found


async def accounted(subscription: Subscription, total: int) -> list[ReceivedEvent | Digest]:
    """Items that stand for so many events."""
    found: list[ReceivedEvent | Digest] = []
    while total > 0:
        item = await asyncio.wait_for(subscription.get(), 120)
        assert item is not None
        total -= item.count if isinstance(item, Digest) else 1
        found.append(item)
    assert total == 0
    return found
