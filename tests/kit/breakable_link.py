"""A way between a client and a node that can be cut, closed and stalled."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock import Client
from tests.kit.peer import node
from tests.kit.vitals import url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from tests.kit.peer import Running

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Way:
    """Carries bytes from its own port to another."""

    def __init__(self, to: int) -> None:
        self._to = to
        self.port = 0
        self.open = True
        """Whether connections come through; else they are closed at once."""
        self.flowing = asyncio.Event()
        """Whether bytes go towards the node."""
        self.flowing.set()
        self.made = 0
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.close()
            return
        self.made += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, back]
        await asyncio.gather(self._copy(reader, back, self.flowing), self._copy(there, writer, None))

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event | None
    ) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(1 << 14):
                if flowing is not None:
                    await flowing.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()

    def cut(self) -> None:
        """Every connection breaks."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def shut(self) -> None:
        """Every connection breaks, and no other comes through."""
        self.open = False
        self.cut()


@asynccontextmanager
async def way(to: int) -> AsyncIterator[Way]:
    found = Way(to)
    server = await asyncio.start_server(found.carry, "127.0.0.1", 0, limit=1 << 14)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        found.shut()
        found.flowing.set()
        server.close()


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
