"""Stands between the clients and the node: sees every packet, and loses packets and connections when told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock_lab.experiments.qos2 import wire

if TYPE_CHECKING:
    from collections.abc import Callable

HOST: Final = "127.0.0.1"


class Relay:
    """A port for each client, all of which lead to the node."""

    def __init__(self, version: int, passes: Callable[[str, bool, wire.Seen], bool]) -> None:
        """`passes` is asked about each packet: of which client, whether it goes to the node, and which it
        is."""
        self._version = version
        self._passes = passes
        self._node = 0
        """Port of the node; 0: it is not there, and connections are closed at once."""
        self._servers: list[asyncio.Server] = []
        self._clients: dict[asyncio.StreamWriter, str] = {}
        self._nodes: set[asyncio.StreamWriter] = set()
        """The two ends of all connections."""
        self._away: set[str] = set()
        """Clients that cannot connect."""
        self._carried: set[asyncio.Task[None]] = set()
        """One for each connection."""

    async def listen(self, client: str) -> int:
        """The port for a client."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._carry(client, reader, writer))
            self._carried.add(task)
            task.add_done_callback(self._carried.discard)

        server = await asyncio.start_server(accept, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def open(self, port: int) -> None:
        """The node listens."""
        self._node = port

    def cut(self) -> None:
        """The node is gone: clients get what was passed on before, and nothing more."""
        self._node = 0
        for writer in self._nodes:
            writer.transport.abort()
        for writer in self._clients:
            writer.close()

    def keep_away(self, client: str) -> None:
        """End a client's connection, and let it have no other."""
        self._away.add(client)
        for writer, who in self._clients.items():
            if who == client:
                writer.close()

    def let_in(self, client: str) -> None:
        """Let a client connect again."""
        self._away.discard(client)

    async def close(self) -> None:
        """Stop listening."""
        self.cut()
        for server in self._servers:
            server.close()
            await server.wait_closed()
        await asyncio.gather(*self._carried)

    async def _carry(self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients[writer] = client
        behind = None
        try:
            if self._node and client not in self._away:
                node, behind = await asyncio.open_connection(HOST, self._node)
                self._nodes.add(behind)
                await asyncio.gather(
                    self._pump(client, reader, behind, to_node=True),
                    self._pump(client, node, writer, to_node=False),
                )
        except OSError:
            pass
        finally:
            del self._clients[writer]
            writer.close()
            if behind is not None:
                self._nodes.discard(behind)
                behind.transport.abort()

    async def _pump(
        self, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_node: bool
    ) -> None:
        buffer = bytearray()
        while chunk := await reader.read(65_536):
            buffer += chunk
            for frame in wire.cut(buffer):
                passes = self._passes(client, to_node, wire.read(frame, self._version))
                if passes and not writer.is_closing():
                    writer.write(frame)
        with suppress(OSError):
            writer.close()
