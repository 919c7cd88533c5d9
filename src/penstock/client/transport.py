"""Addresses of nodes (mqtt://, mqtts://, ws://, wss://) and byte links to them: TCP, TLS and WebSocket.

A link reports received bytes, whether it can be written to, and its end to the connection above it.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import urlsplit

from penstock import limits
from penstock.errors import InputError, MissingTool, Unreachable

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
"""Default ports by scheme."""

OTHER_NAMES: Final = {"penstock": "mqtt", "penstocks": "mqtts"}
"""Schemes under another name: an address that is plainly of a node of Penstock."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a node's address."""

    scheme: str
    host: str
    port: int
    path: str = ""
    """Path of a WebSocket."""

    @property
    def secure(self) -> bool:
        """Whether the link uses TLS."""
        return self.scheme in ("mqtts", "wss")

    @property
    def web(self) -> bool:
        """Whether the link is a WebSocket."""
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def read_address(url: str) -> Address:
    """Read an address; raises InputError that says what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"'{url}' is not a valid address: {error}") from None
    scheme = OTHER_NAMES.get(parts.scheme, parts.scheme)
    if scheme not in PORTS or not parts.hostname:
        known = ", ".join(f"{scheme}://" for scheme in PORTS)
        raise InputError(f"'{url}' should be like mqtt://127.0.0.1:1883; it begins with one of {known}")
    if parts.username is not None or parts.password is not None:
        raise InputError("an address holds no user and no password; give them as `user` and `password`")
    web = scheme in ("ws", "wss")
    if parts.query or parts.fragment or (parts.path.strip("/") and not web):
        raise InputError(f"'{url}' has a path or query; only ws:// and wss:// have a path, none has a query")
    path = (parts.path if parts.path.strip("/") else "/mqtt") if web else ""
    return Address(scheme, parts.hostname, port or PORTS[scheme], path)


class LinkOwner(Protocol):
    """The owner of a link, which the link calls with bytes, when it is writable, and at its end."""

    def received(self, chunk: bytes) -> None:
        """Handle bytes from the node."""
        ...

    def may_write(self, *, now: bool) -> None:
        """Called when the send buffer gets full, and when it has room again."""
        ...

    def lost(self, error: Exception | None) -> None:
        """Called once when the link has ended."""
        ...


class Link(Protocol):
    """A byte link to a node."""

    def write(self, data: bytes) -> None:
        """Send bytes, in order."""
        ...

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Resume reading after `pause_reading`."""
        ...

    async def close(self) -> None:
        """Send what waits, then close."""
        ...

    def abort(self) -> None:
        """Close at once; what waits is not sent."""
        ...


async def open_link(address: Address, above: LinkOwner, *, tls: ssl.SSLContext | None) -> Link:
    """Open a link to an address; raises Unreachable that says why that fails."""
    context = (tls or ssl.create_default_context()) if address.secure else None
    opening = _open_websocket if address.web else _open_tcp
    try:
        async with asyncio.timeout(limits.CONNECT_S):
            return await opening(address, above, context)
    except TimeoutError:
        raise Unreachable(f"{address}: no answer within {limits.CONNECT_S} s; is the node up?") from None
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"{address}: its certificate is not trusted: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Unreachable(f"{address}: TLS failed: {error.reason or error}; is it a TLS port?") from None
    except OSError as error:
        if address.secure and isinstance(error, ConnectionResetError | ConnectionAbortedError):
            raise Unreachable(f"{address}: closed during the TLS handshake; is it a TLS port?") from None
        number = error.errno or 0  # of names that are not found it is negative
        said = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise Unreachable(f"{address}: {said}; is the node up?") from None


# -- TCP and TLS ---------------------------------------------------------------------------------------------


async def _open_tcp(address: Address, above: LinkOwner, tls: ssl.SSLContext | None) -> Link:
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(lambda: TcpLink(above), address.host, address.port, ssl=tls)
    return link


class TcpLink(asyncio.Protocol):
    """A TCP socket, with or without TLS."""

    def __init__(self, above: LinkOwner) -> None:
        self._above = above
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the socket is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports have another base class
        self._transport.set_write_buffer_limits(high=limits.CLIENT_WRITE_BYTES)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        self._above.received(data)

    def pause_writing(self) -> None:
        """Called by asyncio when the send buffer is full."""
        self._above.may_write(now=False)

    def resume_writing(self) -> None:
        """Called by asyncio when the send buffer has room again."""
        self._above.may_write(now=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the socket is closed."""
        self._gone.set()
        self._above.lost(exc)

    def write(self, data: bytes) -> None:
        """Send bytes, in order."""
        assert self._transport is not None
        self._transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading: bytes wait in the kernel, then at the node."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading after `pause_reading`."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    async def close(self) -> None:
        """Send what waits, then close; a peer that does not read it in time is cut off."""
        assert self._transport is not None
        self._transport.close()
        try:
            async with asyncio.timeout(limits.TLS_SHUTDOWN_S):
                await self._gone.wait()
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Close at once; what waits is not sent."""
        assert self._transport is not None
        self._transport.abort()


# -- WebSocket -----------------------------------------------------------------------------------------------


async def _open_websocket(address: Address, above: LinkOwner, tls: ssl.SSLContext | None) -> Link:
    try:
        import aiohttp  # noqa: PLC0415  # a quarter of a second, for those who need it
    except ImportError:
        raise MissingTool("ws:// and wss:// need aiohttp: pip install aiohttp") from None
    http = aiohttp.ClientSession()
    scheme = "https" if address.secure else "http"
    url = str(address).replace(address.scheme, scheme, 1)
    try:
        socket = await http.ws_connect(
            url,
            protocols=("mqtt",),
            ssl=tls if tls is not None else True,
            max_msg_size=0,  # packets are bounded by their own length
            autoping=True,
        )
    except aiohttp.ClientConnectorCertificateError as error:
        await http.close()
        raise Unreachable(f"{address}: its certificate is not trusted: {error.certificate_error}") from None
    except aiohttp.WSServerHandshakeError as error:
        await http.close()
        raise Unreachable(f"{address}: no WebSocket there: HTTP {error.status} {error.message}") from None
    except BaseException as error:
        await http.close()
        if isinstance(error, aiohttp.ClientError) and not isinstance(error, OSError):
            raise Unreachable(f"{address}: {error}") from None
        raise
    if socket.protocol != "mqtt":
        await http.close()
        raise Unreachable(f"{address}: the WebSocket there speaks no MQTT")
    return WebSocketLink(http, socket, above)


class WebSocketLink:
    """A WebSocket; one task reads it, another writes it."""

    def __init__(self, http: ClientSession, socket: ClientWebSocketResponse, above: LinkOwner) -> None:
        self._http = http
        self._socket = socket
        self._above = above
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._something = asyncio.Event()
        self._reading = asyncio.Event()
        self._reading.set()
        self._full = False
        self._closing = False
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        self._end = asyncio.create_task(self._ended())

    def write(self, data: bytes) -> None:
        """Send bytes, in order."""
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._something.set()
        if not self._full and self._unsent_bytes > limits.CLIENT_WRITE_BYTES:
            self._full = True
            self._above.may_write(now=False)

    def pause_reading(self) -> None:
        """Stop reading: bytes wait in the WebSocket, which holds some 64 KB, then at the node."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Resume reading after `pause_reading`."""
        self._reading.set()

    async def close(self) -> None:
        """Send what waits, then close."""
        self._closing = True
        self._something.set()
        await asyncio.wait(self._tasks[1:], timeout=limits.TLS_SHUTDOWN_S)
        self.abort()
        await self._end

    def abort(self) -> None:
        """Close at once; what waits is not sent."""
        for task in self._tasks:
            task.cancel()

    async def _read(self) -> None:
        from aiohttp import WSMsgType  # noqa: PLC0415

        while True:
            await self._reading.wait()
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                await self._reading.wait()
                self._above.received(message.data)
            elif message.type is WSMsgType.ERROR:
                raise message.data
            elif message.type is WSMsgType.TEXT:
                raise ConnectionError("WebSocket text message received; MQTT uses binary messages")
            else:
                return

    async def _write(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            data = b"".join(self._unsent)
            self._unsent.clear()
            if data:
                await self._socket.send_bytes(data)
                self._unsent_bytes -= len(data)
            if self._full and self._unsent_bytes <= limits.CLIENT_WRITE_BYTES // 2:
                self._full = False
                self._above.may_write(now=True)
            if self._closing and not self._unsent:
                return

    async def _ended(self) -> None:
        """Close the link when one of its tasks ends."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        error: Exception | None = None
        for task in done:
            if not task.cancelled() and isinstance(found := task.exception(), Exception):
                error = found
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(Exception):
            async with asyncio.timeout(limits.TLS_SHUTDOWN_S):
                await self._socket.close()
        with suppress(Exception):
            await self._http.close()
        self._above.lost(error)
