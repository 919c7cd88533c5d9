"""Listeners of a node: TCP, TLS, WebSocket and WebSocket over TLS; each hands bytes to a connection."""

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
from penstock.node.access.tls import TlsHandshakes
from penstock.node.broker.websocket import WebSocketListener
from penstock.node.config import certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.node.config.schema import Bounds, Listener

_WHY: Final = {
    errno.EADDRINUSE: "is in use: another program, perhaps another node, listens there; choose another port",
    errno.EACCES: "may not be opened by this user; ports below 1024 belong to the system",
    errno.EADDRNOTAVAIL: "is no address of this machine",
}


def cannot_listen(host: str, port: int, error: OSError) -> NodeError:
    """An error that says why a port cannot be opened."""
    if isinstance(error, socket.gaierror):
        return NodeError(f"host {host}: {error.strerror}")
    return NodeError(f"port {port} of {host} {_WHY.get(error.errno or 0, f'cannot be opened: {error}')}")


def set_inherited_options(server: asyncio.Server) -> None:
    """Set options of a listening socket that its connections inherit: three calls less for each of them."""
    for sock in server.sockets:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # What is in the kernel's buffer is out of the policy's reach: keep little there.
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, limits.UNSENT_LOWAT)


@dataclass(frozen=True, slots=True)
class OpenListener:
    """One listener that is open."""

    listener: Listener
    """The settings, with the port that was opened."""
    server: asyncio.Server
    secure: TlsHandshakes | None
    web: WebSocketListener | None


class Listeners:
    """All listeners of a node."""

    def __init__(self, connection: Callable[[Listener], asyncio.Protocol]) -> None:
        self._connection = connection
        self._opened: list[OpenListener] = []

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The open listeners, with their ports."""
        return tuple(opened.listener for opened in self._opened)

    async def open(self, listeners: Iterable[Listener], bounds: Bounds) -> None:
        """Open listeners; NodeError names a port that cannot be opened."""
        for listener in listeners:
            self._opened.append(await self._open(listener, bounds))

    async def _open(self, listener: Listener, bounds: Bounds) -> OpenListener:
        made: Callable[[], asyncio.Protocol] = partial(self._connection, listener)
        web = secure = None
        if listener.websocket:
            web = WebSocketListener(listener, bounds, connection=made)
            made = web.protocol
        if listener.encrypted:
            secure = TlsHandshakes(
                certificates.context(listener), handshake_s=bounds.connect_s, connection=made
            )
            made = secure.protocol
        try:
            server = await asyncio.get_running_loop().create_server(
                made, listener.host, listener.port, backlog=limits.LISTEN_BACKLOG
            )
        except OSError as error:
            raise cannot_listen(listener.host, listener.port, error) from None
        set_inherited_options(server)
        port = server.sockets[0].getsockname()[1]
        return OpenListener(msgspec.structs.replace(listener, port=port), server, secure, web)

    def reload_certificates(self, listeners: Iterable[Listener]) -> None:
        """Read the files of TLS again, for connections made from now on."""
        for opened, listener in zip(self._opened, listeners, strict=True):
            if opened.secure is not None:
                certificates.load(opened.secure.context, listener)

    def stop(self) -> None:
        """Stop listening; open connections go on."""
        for opened in self._opened:
            opened.server.close()

    async def close(self) -> None:
        """Stop listening, and end unfinished handshakes."""
        self.stop()
        for opened in self._opened:
            if opened.secure is not None:
                await opened.secure.close()
            if opened.web is not None:
                await opened.web.close()
        self._opened.clear()
