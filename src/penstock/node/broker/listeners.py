"""Listeners of a node: TCP, TLS, WebSocket and WebSocket over TLS; each hands bytes to a connection.

MQTT over WebSocket (MQTT 5, section 6) is a transport whose bytes travel in binary messages. aiohttp
does the handshake, parses frames and answers pings. What a connection writes goes to the socket at once,
as one frame, and the socket's flow control reaches the connection as it would over TCP. Incoming bytes
may be cut into messages anywhere.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from penstock import limits
from penstock.errors import NodeError, printable
from penstock.model.host import is_loopback
from penstock.node.access.tls import TlsHandshakes
from penstock.node.access.unfinished import UnfinishedConnections
from penstock.node.config import certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.node.config.schema import Bounds, Listener

log = logging.getLogger(__name__)

SUBPROTOCOL: Final = "mqtt"

_CHUNK: Final = 1 << 16
"""Bytes given to a connection at once: between two chunks it may ask for a pause."""


def frame(payload: bytes) -> bytes:
    """A binary message in one frame, as a server sends it: not masked (RFC 6455, section 5.2)."""
    size = len(payload)
    if size < 126:
        return bytes((0x82, size)) + payload
    if size < 1 << 16:
        return b"\x82\x7e" + size.to_bytes(2, "big") + payload
    return b"\x82\x7f" + size.to_bytes(8, "big") + payload


_CLOSE: Final = b"\x88\x02" + WSCloseCode.OK.to_bytes(2, "big")


class WebSocketTransport(asyncio.Transport):
    """The transport of an MQTT connection over WebSocket."""

    def __init__(self, below: asyncio.Transport, above: asyncio.Protocol) -> None:
        super().__init__()
        self._below = below
        self.above = above
        self._closing = False
        self._reading = asyncio.Event()
        self._reading.set()

    # -- the connection's side -----------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Facts about the socket below."""
        return self._below.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the MQTT connection above the WebSocket."""
        return self.above

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send bytes as one binary message."""
        if data and not self.is_closing():
            self._below.write(frame(bytes(data)))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Send several pieces as one binary message."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Bytes the socket has not taken yet."""
        return self._below.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Low and high water."""
        return self._below.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """High and low water; beyond the first the connection hears `pause_writing`."""
        self._below.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        """A WebSocket has no half-closed state."""
        return False

    def is_reading(self) -> bool:
        """Whether the connection takes bytes."""
        return self._reading.is_set()

    def pause_reading(self) -> None:
        """Give the connection nothing; some 64 KB wait here, the rest at the sender."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Give the connection received bytes again."""
        self._reading.set()

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._closing or self._below.is_closing()

    def close(self) -> None:
        """Send the waiting bytes and a close frame, then close."""
        if not self.is_closing():
            self._closing = True
            self._reading.set()
            self._below.write(_CLOSE)
            self._below.close()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._reading.set()
        self._below.abort()

    # -- the socket's side ---------------------------------------------------------------------------------

    async def receive(self, data: bytes) -> None:
        """Give the connection a message, as fast as it takes it."""
        for start in range(0, len(data), _CHUNK):
            await self._reading.wait()
            if self.is_closing():
                return
            self.above.data_received(data[start : start + _CHUNK])

    def lost(self, error: BaseException | None) -> None:
        """The socket is closed."""
        self._closing = True
        self._reading.set()
        self.above.connection_lost(error if isinstance(error, Exception) else None)


class _Handler(web.RequestHandler):
    """One HTTP connection, which a handshake makes a WebSocket; passes on the socket's flow control."""

    __slots__ = ("_unfinished", "mqtt")

    def __init__(
        self,
        server: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        unfinished: UnfinishedConnections[_Handler],
    ) -> None:
        super().__init__(server, loop=loop, access_log=None, lingering_time=0)  # type: ignore[arg-type]
        self.mqtt: WebSocketTransport | None = None
        self._unfinished = unfinished

    def admit(self, transport: asyncio.Transport, above: asyncio.Protocol) -> WebSocketTransport:
        """The handshake is done: make an MQTT connection of this one."""
        self._unfinished.remove(self)
        self.mqtt = WebSocketTransport(transport, above)
        above.connection_made(self.mqtt)
        return self.mqtt

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self not in self._unfinished:  # closed while TLS made the connection
            self.close_unfinished()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.mqtt is not None:
            self.mqtt.above.pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.mqtt is not None:
            self.mqtt.above.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.mqtt is not None:
            self.mqtt.lost(exc)
        else:
            self._unfinished.remove(self)

    def close_unfinished(self) -> None:
        """Close the connection at once; if TLS has not made it yet, `connection_made` does."""
        if self.transport is not None:
            self.transport.abort()


class WebSocketListener:
    """A listener's HTTP side: `protocol` for each new connection."""

    def __init__(
        self, listener: Listener, bounds: Bounds, *, connection: Callable[[], asyncio.Protocol]
    ) -> None:
        self._listener = listener
        self._connect_s = bounds.connect_s
        self._most = bounds.packet_bytes + limits.WEBSOCKET_SPARE_BYTES
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._server = web.Server(self._handle)
        self._unfinished = UnfinishedConnections[_Handler](
            most=limits.WEBSOCKET_HANDSHAKES, wait_s=bounds.connect_s, close=_Handler.close_unfinished
        )

    def protocol(self) -> asyncio.Protocol:
        """Make the protocol of a new connection; its handshake begins."""
        handler = _Handler(self._server, loop=self._loop, unfinished=self._unfinished)
        self._unfinished.add(handler)
        return handler

    async def close(self) -> None:
        """Close connections that are no WebSocket yet, and forget the others."""
        await self._server.shutdown(timeout=0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        refused = self._refused(request)
        if refused is not None:
            return refused
        handler = request.protocol
        assert isinstance(handler, _Handler)
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), max_msg_size=self._most, compress=False, timeout=self._connect_s
        )
        await socket.prepare(request)
        if request.transport is None or handler not in self._unfinished:
            return socket  # disconnected or closed during the handshake
        transport = handler.admit(request.transport, self._connection())
        async for message in socket:
            if message.type is not WSMsgType.BINARY:  # [MQTT-6.0.0-1]
                await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=b"MQTT is binary")
                break
            await transport.receive(message.data)
        transport.abort() if socket.exception() else transport.close()
        return socket

    def _refused(self, request: web.BaseRequest) -> web.Response | None:
        """The response to a handshake that is refused; None if it is accepted."""
        if request.path != self._listener.path:
            return web.Response(status=404, text=f"MQTT over WebSocket is at {self._listener.path}\n")
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        if SUBPROTOCOL not in (one.strip() for one in offered.split(",")):
            return web.Response(status=400, text="the WebSocket's subprotocol must be mqtt\n")
        origin = request.headers.get("Origin")
        if origin is not None and not self._may_come_from(origin, request.host):
            log.warning("%s", printable(f"WebSocket from a page of {origin} refused; see `origins`"))
            return web.Response(status=403, text="pages of this origin may not connect\n")
        return None

    def _may_come_from(self, origin: str, host: str) -> bool:
        """Whether a browser may connect for a page of that origin.

        A page from anywhere can reach this machine's loopback through its reader's browser, so unless the
        configuration names its origin it has to be a page of this machine, asked for under such a name.
        """
        if "*" in self._listener.origins or origin.lower() in map(str.lower, self._listener.origins):
            return True
        try:
            page, asked = urlsplit(origin).hostname, urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return is_loopback(page or "") and is_loopback(asked or "")


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
