"""The doors of a node: TCP, TLS, WebSocket and WebSocket over TLS, each giving its bytes to a connection."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.errors import NodeError
from penstock.node import tls
from penstock.node.tls_door import TlsDoor
from penstock.node.websocket import WebSocketDoor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.node.config import Bounds, Listener

_WHY: Final = {
    errno.EADDRINUSE: "is in use: another program, perhaps another node, listens there; choose another port",
    errno.EACCES: "may not be opened by this user; ports below 1024 belong to the system",
    errno.EADDRNOTAVAIL: "is no address of this machine",
}


def cannot_listen(host: str, port: int, error: OSError) -> NodeError:
    """Why a place cannot be listened at."""
    if isinstance(error, socket.gaierror):
        return NodeError(f"host {host}: {error.strerror}")
    return NodeError(f"port {port} of {host} {_WHY.get(error.errno or 0, f'cannot be opened: {error}')}")


@dataclass(frozen=True, slots=True)
class Door:
    """One listener that is open."""

    listener: Listener
    """With the port it has."""
    server: asyncio.Server
    secure: TlsDoor | None
    web: WebSocketDoor | None


class Doors:
    """All listeners of a node."""

    def __init__(self, connection: Callable[[Listener], asyncio.Protocol]) -> None:
        self._connection = connection
        self._doors: list[Door] = []

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Those that are open, with the ports they have."""
        return tuple(door.listener for door in self._doors)

    async def open(self, listeners: Iterable[Listener], bounds: Bounds) -> None:
        """Listen; NodeError names the place that cannot be listened at."""
        for listener in listeners:
            self._doors.append(await self._open(listener, bounds))

    async def _open(self, listener: Listener, bounds: Bounds) -> Door:
        made: Callable[[], asyncio.Protocol] = partial(self._connection, listener)
        web = secure = None
        if listener.web:
            web = WebSocketDoor(listener, bounds, connection=made)
            made = web.protocol
        if listener.encrypted:
            secure = TlsDoor(tls.context(listener), handshake_s=bounds.connect_s, connection=made)
            made = secure.protocol
        try:
            server = await asyncio.get_running_loop().create_server(
                made, listener.host, listener.port, backlog=limits.LISTEN_BACKLOG
            )
        except OSError as error:
            raise cannot_listen(listener.host, listener.port, error) from None
        port = server.sockets[0].getsockname()[1]
        return Door(msgspec.structs.replace(listener, port=port), server, secure, web)

    def reload_certificates(self, listeners: Iterable[Listener]) -> None:
        """Read the files of TLS again, for connections made from now on."""
        for door, listener in zip(self._doors, listeners, strict=True):
            if door.secure is not None:
                tls.load(door.secure.context, listener)

    def stop(self) -> None:
        """Listen no more; open connections go on."""
        for door in self._doors:
            door.server.close()

    async def close(self) -> None:
        """Stop, and end what is left of the handshakes."""
        self.stop()
        for door in self._doors:
            if door.secure is not None:
                await door.secure.close()
            if door.web is not None:
                await door.web.close()
        self._doors.clear()
