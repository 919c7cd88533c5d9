"""A relay in front of a node's port for direct connections: each goes through the way between its two nodes.

A node tells all others one address, while a way that can be cut or slowed is between two of them. So the
relay reads the names from the handshakes.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.errors import ClusterError
from penstock.node.cluster.direct.framing import LENGTH
from penstock.node.cluster.direct.handshake import read_hello
from penstock_lab.rigs.ports import HOST
from penstock_lab.rigs.way import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock_lab.rigs.way import Way


class DirectWays:
    """Passes connections to a port on to the ways that they belong to."""

    def __init__(self, way_of: Callable[[str], Way | None]) -> None:
        """`way_of` finds the way by the name of the node that connects."""
        self._way_of = way_of
        self.port = 0
        self.to = 0
        """Port of the node for direct connections."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def address(self) -> str:
        """Address for the setting `cluster.direct_advertise`."""
        return f"tcp/{HOST}:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a new connection."""
        if self._closed:  # it was accepted before, and is told only now
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # it may be cancelled before it begins

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back = None
        try:
            there, back = await asyncio.open_connection(HOST, self.to, limit=CHUNK_BYTES)
            writer.write(await _frame(there))
            hello = await _frame(reader)
            back.write(hello)
            way = self._way_of(read_hello(hello[LENGTH.size :]).name)
            if way is not None:
                await way.carry(reader, writer, there, back)
        except (OSError, EOFError, ClusterError):
            pass  # an end is gone, or is no node: both see a closed connection
        finally:
            if back is not None:
                back.transport.abort()

    async def close(self) -> None:
        """Carry nothing more."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the ends are closed in the next turn


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(LENGTH.size)
    return head + await reader.readexactly(LENGTH.unpack(head)[0])


@asynccontextmanager
async def direct_ways(way_of: Callable[[str], Way | None]) -> AsyncIterator[DirectWays]:
    """A relay for the length of the block; the caller sets `to`."""
    found = DirectWays(way_of)
    server = await asyncio.start_server(found.accept, HOST, 0, limit=CHUNK_BYTES)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        await found.close()
