"""MQTT over WebSocket (MQTT 5, section 6): a transport whose bytes travel in binary messages.

aiohttp does the handshake, parses frames and answers pings; that clients mask their frames is checked here.
What a connection writes goes to the socket at once, as one frame, and the socket's flow control reaches
the connection as it would over TCP. Incoming bytes may be cut into messages anywhere.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError

from penstock import limits
from penstock.errors import printable
from penstock.model.host import is_loopback
from penstock.node.access.unfinished import UnfinishedConnections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aiohttp._websocket.reader import WebSocketReader

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


def _close_frame(code: WSCloseCode, why: str = "") -> bytes:
    """A close frame, as a server sends it; `why` has at most 123 bytes."""
    payload = code.to_bytes(2, "big") + why.encode()
    return bytes((0x88, len(payload))) + payload


def http_log(name: str) -> logging.Logger:
    """Return a log for aiohttp without tracebacks about invalid HTTP, and about clients that are gone."""
    found = logging.getLogger(f"{name}.aiohttp")
    if not found.filters:
        found.addFilter(
            lambda record: (
                not (
                    record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | ConnectionError)
                )
            )
        )
    return found


class MaskedFrames:
    """Gives bytes of a client to aiohttp's reader as long as each frame is masked; aiohttp does not check it.

    A server must close the connection when a client sends a frame that is not masked (RFC 6455, section 5.1).
    """

    __slots__ = ("_head", "_left", "_reader", "_refuse", "unmasked")

    def __init__(self, reader: WebSocketReader, *, refuse: Callable[[], None]) -> None:
        self._reader = reader
        self._refuse = refuse
        self._head = b""
        """The beginning of a frame whose length is not known yet."""
        self._left = 0
        """Bytes of the present frame that are still to come, its mask included."""
        self.unmasked = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes of the client; what this returns tells aiohttp to go on."""
        if self.unmasked or not self._masked(data):
            return False, b""
        return self._reader.feed_data(data)

    def feed_eof(self) -> None:
        """Tell the reader that nothing more comes."""
        self._reader.feed_eof()

    def _masked(self, data: bytes) -> bool:
        """Follow the frames; returns whether all that begin in these bytes are masked."""
        data, at = self._head + data, self._left
        while len(data) - at >= 2:
            second = data[at + 1]
            if second < 0x80:
                self.unmasked = True
                self._refuse()
                return False
            size, length_bytes = second & 0x7F, 0
            if size > 125:
                length_bytes = 2 if size == 126 else 8
                if len(data) - at < 2 + length_bytes:
                    break
                size = int.from_bytes(data[at + 2 : at + 2 + length_bytes], "big")
            at += 2 + length_bytes + 4 + size
        self._left = max(0, at - len(data))
        self._head = data[at:]
        return True


class WebSocketTransport(asyncio.Transport):
    """The transport of an MQTT connection over WebSocket."""

    def __init__(self, below: asyncio.Transport, above: asyncio.Protocol) -> None:
        super().__init__()
        self._below = below
        self.above = above
        self._closing = False
        self._reading = asyncio.Event()
        self._reading.set()
        self._read_up = False
        """Whether no more messages will be given to the connection."""
        self._gone: tuple[BaseException | None] | None = None
        """Why the socket is gone, while messages that came before are still given to the connection."""

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
        if self._gone is None:
            self._reading.clear()

    def resume_reading(self) -> None:
        """Give the connection received bytes again."""
        self._reading.set()

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._closing or self._below.is_closing()

    def close(self) -> None:
        """Send the waiting bytes and a close frame, then close."""
        self.end(WSCloseCode.OK)

    def end(self, code: WSCloseCode, why: str = "") -> None:
        """Send the waiting bytes and a close frame that says why, then close."""
        if not self.is_closing():
            self._closing = True
            self._reading.set()
            self._below.write(_close_frame(code, why))
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
            if self._closing:
                return
            self.above.data_received(data[start : start + _CHUNK])

    def socket_lost(self, error: BaseException | None) -> None:
        """The socket is gone: tell the connection, behind the messages that came before.

        With TLS the end often arrives together with the last messages, a DISCONNECT for example, which are
        read by a task of their own. A connection that takes nothing at the moment is told at once.
        """
        if self._read_up or not self._reading.is_set():
            self.lost(error)
        else:
            self._gone = (error,)

    def read_up(self) -> None:
        """Nothing more comes from the WebSocket."""
        self._read_up = True
        if self._gone is not None:
            (error,), self._gone = self._gone, None
            self.lost(error)

    def lost(self, error: BaseException | None) -> None:
        """The socket is closed."""
        self._closing = True
        self._reading.set()
        self.above.connection_lost(error if isinstance(error, Exception) else None)


class _Handler(web.RequestHandler):
    """One HTTP connection, which a handshake makes a WebSocket; passes on the socket's flow control."""

    __slots__ = ("_frames", "_unfinished", "mqtt")

    def __init__(
        self,
        server: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        unfinished: UnfinishedConnections[_Handler],
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            logger=http_log(__name__),
            access_log=None,  # type: ignore[arg-type]
            lingering_time=0,
        )
        self.mqtt: WebSocketTransport | None = None
        self._frames: MaskedFrames | None = None
        self._unfinished = unfinished

    def admit(self, transport: asyncio.Transport, above: asyncio.Protocol) -> WebSocketTransport:
        """The handshake is done: make an MQTT connection of this one."""
        self._unfinished.remove(self)
        self.mqtt = WebSocketTransport(transport, above)
        above.connection_made(self.mqtt)
        if self._frames is not None and self._frames.unmasked:  # came with the handshake
            self._refuse_unmasked()
        return self.mqtt

    def set_parser(self, parser: WebSocketReader, data_received_cb: Callable[[], None] | None = None) -> None:
        self._frames = MaskedFrames(parser, refuse=self._refuse_unmasked)
        super().set_parser(self._frames, data_received_cb)  # type: ignore[arg-type]

    def _refuse_unmasked(self) -> None:
        if self.mqtt is not None:
            self.mqtt.end(WSCloseCode.PROTOCOL_ERROR, "frames of a client must be masked")

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
            self.mqtt.socket_lost(exc)
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
            refused.force_close()  # a client that waits for the end of the connection must not wait in vain
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
        try:
            async for message in socket:
                if message.type is not WSMsgType.BINARY:  # [MQTT-6.0.0-1]
                    await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=b"MQTT is binary")
                    break
                await transport.receive(message.data)
        except ConnectionError:
            # A ping that came with the bytes that ended the connection has nobody to answer it.
            transport.abort()
        finally:
            transport.read_up()
        transport.abort() if socket.exception() else transport.close()
        return socket

    def _refused(self, request: web.BaseRequest) -> web.Response | None:
        """The response to a handshake that is refused; None if it is accepted."""
        if request.path not in (self._listener.path, "/"):  # clients that are given no path ask for /
            return web.Response(status=404, text=f"MQTT over WebSocket is at {self._listener.path}\n")
        if request.method != "GET" or request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(
                status=426, text="here is MQTT over WebSocket\n", headers={"Upgrade": "websocket"}
            )
        if not _asks_for_upgrade(request):
            return web.Response(status=400, text="the header Connection must have the value Upgrade\n")
        if request.headers.get("Sec-WebSocket-Version") != "13":
            return web.Response(
                status=426, text="the version must be 13\n", headers={"Sec-WebSocket-Version": "13"}
            )
        if not _is_key(request.headers.get("Sec-WebSocket-Key", "")):
            return web.Response(status=400, text="Sec-WebSocket-Key must be 16 bytes in base64\n")
        offered = ",".join(request.headers.getall("Sec-WebSocket-Protocol", ()))
        if SUBPROTOCOL not in (one.strip() for one in offered.split(",")):
            # Headers need not be UTF-8.
            plain = printable(offered.encode("ascii", "backslashreplace").decode())
            found = f"offered: {plain[:100]}" if offered else "none was offered"
            return web.Response(
                status=400, text=f"the WebSocket's subprotocol must be {SUBPROTOCOL}; {found}\n"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not self._may_come_from(origin, request.host):
            log.warning("%s", printable(f"WebSocket from a page of {origin!a} refused; see `origins`"))
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


def _asks_for_upgrade(request: web.BaseRequest) -> bool:
    """Whether the header Connection names the upgrade, in plain ASCII.

    The library refuses other values too, but puts them into its response, which fails if they are not UTF-8.
    """
    values = ",".join(request.headers.getall("Connection", ()))
    return values.isascii() and "upgrade" in (one.strip() for one in values.lower().split(","))


def _is_key(text: str) -> bool:
    """Whether a handshake's key is one (RFC 6455, section 4.2.1)."""
    try:
        return len(b64decode(text, validate=True)) == 16
    except ValueError:  # not base64, or not even ASCII
        return False
