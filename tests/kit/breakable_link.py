"""A node, and a way to it that can be lost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock import Client
from penstock_lab.rigs.way import Way, way
from tests.kit.peer import node
from tests.kit.vitals import url
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from tests.kit.peer import Running

__all__ = ["Way", "apart", "attached", "away", "back", "way"]


@asynccontextmanager
async def apart(**how: Any) -> AsyncIterator[tuple[Running, Way, Client, Client]]:
    """A node, a way to it that can be lost, a client at its end, and one that stays connected."""
    async with (
        node() as running,
        way(running.port) as found,
        Client(found.url, client_id="far", **how) as far,
        Client(url(running), client_id="near") as near,
    ):
        yield running, found, far, near


async def away(running: Running, found: Way, far: Client) -> None:
    """The way is closed, and both ends have noticed."""
    found.shut()
    await until(lambda: not far.connected)
    await until(lambda: "far" not in attached(running))


async def back(found: Way, far: Client) -> None:
    found.open = True
    await until(lambda: far.connected)


def attached(running: Running) -> list[str]:
    return [each.client_id for each in running.broker.status().clients if each.state == "attached"]
