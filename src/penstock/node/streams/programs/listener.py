"""The listener for streams: accepts neighbour nodes, and programs that use streams without MQTT.

Whoever connects sends `Hello` and gets `Welcome`, or `Sorry` with the reason. The listener then hands the
connection to one of two functions, one for nodes and one for programs, until it ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from penstock import limits
from penstock.core.streams import handshake
from penstock.core.streams.handshake import VERSION, Sorry, Welcome
from penstock.errors import StreamError, printable
from penstock.node.access.gate import NotAdmitted
from penstock.node.broker.background import Background
from penstock.node.broker.listeners import cannot_listen
from penstock.node.config import certificates
from penstock.node.config.schema import Listener
from penstock.node.streams.tree.links import read_frame

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from penstock.core.streams.handshake import Hello
    from penstock.node.access.gate import Gate
    from penstock.node.config.schema import Config

    Serve: TypeAlias = Callable[[Hello, str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    """Serves a connection until it ends: greeting, user, reader and writer. StreamError: refused."""

log = logging.getLogger(__name__)


class StreamListener:
    """Accepts connections from `open` to `close`."""

    def __init__(
        self, config: Config, gate: Gate, *, node: str, serve_node: Serve | None, serve_program: Serve
    ) -> None:
        """`node` is the name of this node; `serve_node` is None if it has no neighbours."""
        self._gate = gate
        self._node_name = node
        self._serve_node = serve_node
        self._serve_program = serve_program
        self._listener = _listener(config)
        self._context: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._background = Background()
        self._greeting = 0
        """Connections whose greeting is not complete."""
        self._programs = 0
        """Connected programs."""
        self.refused = 0
        """Connections refused since the start."""
        self._bounds(config)

    @property
    def port(self) -> int:
        """The port it listens on; 0 if it is not open."""
        return 0 if self._server is None else int(self._server.sockets[0].getsockname()[1])

    def _bounds(self, config: Config) -> None:
        self._connect_s = config.bounds.connect_s
        self._most_programs = config.streams.readers

    async def open(self) -> None:
        """Begin to listen; NodeError says why that is not possible."""
        listener = self._listener
        self._context = certificates.context(listener) if listener.encrypted else None
        try:
            self._server = await asyncio.start_server(
                self._called,
                listener.host,
                listener.port,
                ssl=self._context,
                ssl_handshake_timeout=self._connect_s if self._context else None,
                ssl_shutdown_timeout=limits.TLS_SHUTDOWN_S if self._context else None,
                backlog=limits.LISTEN_BACKLOG,
            )
        except OSError as error:
            raise cannot_listen(listener.host, listener.port, error) from None
        log.info("streams: listening on %s port %d", listener.host, self.port)

    def reconfigure(self, config: Config) -> None:
        """Load the TLS files again, for new connections; NodeError if they cannot be loaded."""
        if self._context is not None:
            certificates.load(self._context, _listener(config))
        self._bounds(config)

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        await self._background.close()

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._background.begin(
            self._answer(reader, writer), "a connection to the stream listener was cut off"
        )

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("",))[0])
        admitted = False
        try:
            if self._greeting >= limits.STREAM_HANDSHAKES or not self._gate.admit_address(address):
                self.refused += 1
                return
            admitted = True
            await self._serve(reader, writer, address)
        except StreamError as error:
            await self._sorry(writer, address, str(error))
        except OSError:
            pass  # the other side has closed the connection
        finally:
            if admitted:
                self._gate.released(address)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        self._greeting += 1
        try:
            async with asyncio.timeout(self._connect_s):
                hello = handshake.decode_hello(await read_frame(reader))
                user = await self._admitted(hello, writer, address)
        except TimeoutError:
            raise StreamError(f"no greeting within {self._connect_s:g} s") from None
        finally:
            self._greeting -= 1
        if hello.kind == "program":
            await self._program(hello, user, reader, writer)
        elif self._serve_node is None:
            raise StreamError("this node has no neighbours")
        else:
            await self._serve_node(hello, user, reader, writer)

    async def _admitted(self, hello: Hello, writer: asyncio.StreamWriter, address: str) -> str:
        found = await self._gate.admit(
            client_id=hello.name,
            user=hello.user or None,
            password=hello.password.encode() if hello.user else None,
            address=address,
            listener=self._listener,
            certificate=writer.get_extra_info("peercert"),
        )
        if isinstance(found, NotAdmitted):
            raise StreamError(found.why)
        return found.user

    async def _program(
        self, hello: Hello, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._programs >= self._most_programs:
            raise StreamError(f"too many programs connected: {self._programs:,} (streams.readers)")
        self._programs += 1
        try:
            writer.write(handshake.encode(Welcome(VERSION, self._node_name)))
            await self._serve_program(hello, user, reader, writer)
        finally:
            self._programs -= 1

    async def _sorry(self, writer: asyncio.StreamWriter, address: str, why: str) -> None:
        """Send the reason for a refusal, and close the connection."""
        self.refused += 1
        log.warning("%s", printable(f"streams: connection from {address} refused: {why}"))
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(limits.TLS_SHUTDOWN_S):
                writer.write(handshake.encode(Sorry(why)))
                await writer.drain()
                writer.close()
                await writer.wait_closed()


def _listener(config: Config) -> Listener:
    """The settings of the stream listener in the form that the gate and TLS take."""
    listen = config.streams.listen
    return Listener(
        kind="tls" if listen.certificate else "tcp",
        host=listen.host,
        port=listen.port,
        certificate=listen.certificate,
        key=listen.key,
        client_ca=listen.client_ca,
    )
