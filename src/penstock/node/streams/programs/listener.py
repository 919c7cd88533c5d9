"""The listener for streams: accepts neighbour nodes, and programs that use streams without MQTT.

A caller sends `Hello` and is answered `Welcome`, or `Sorry` with the reason. The connection of a node goes
to `tree.links`, the connection of a program to `programs.server`, until it ends.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

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
from penstock.node.streams.tree.offers import NeighbourWants

if TYPE_CHECKING:
    import ssl

    from penstock.core.streams.handshake import Hello
    from penstock.node.access.gate import Gate
    from penstock.node.config.schema import Config
    from penstock.node.streams.service import StreamService

log = logging.getLogger(__name__)


class StreamListener:
    """`open`, and at the end `close`."""

    def __init__(self, service: StreamService, config: Config, gate: Gate) -> None:
        self._service = service
        self._gate = gate
        self._listener = _listener(config)
        self._context: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._background = Background()
        self._greeting = 0
        self._programs = 0
        self.refused = 0
        """Callers that were not let in."""
        self._bounds(config)

    @property
    def port(self) -> int:
        """Where it listens; 0: it does not."""
        return 0 if self._server is None else int(self._server.sockets[0].getsockname()[1])

    def _bounds(self, config: Config) -> None:
        self._connect_s = config.bounds.connect_s
        self._most_programs = config.streams.readers

    async def open(self) -> None:
        """Listen; NodeError says why not."""
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
        log.info("streams: listening on port %d of %s", self.port, listener.host)

    def reconfigure(self, config: Config) -> None:
        """Read the files of TLS again, for connections made from now on; NodeError if they do not load."""
        if self._context is not None:
            certificates.load(self._context, _listener(config))
        self._bounds(config)

    async def close(self) -> None:
        """Listen no more, and end the connections."""
        if self._server is not None:
            self._server.close()
        await self._background.close()

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._background.begin(self._answer(reader, writer), "a caller of streams was cut off")

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
            pass  # whoever called has gone
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
            raise StreamError(f"nothing was said within {self._connect_s:g} s") from None
        finally:
            self._greeting -= 1
        if hello.kind == "node":
            await self._node(hello, user, reader, writer)
        else:
            await self._program(hello, user, reader, writer)

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

    async def _node(
        self, hello: Hello, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        links = self._service.links
        if links is None:
            raise StreamError("this node has no neighbours")
        problem = links.refusal(hello, user)
        if problem:
            raise StreamError(problem)
        host, port = writer.get_extra_info("peername")[:2]
        wanted = NeighbourWants(hello.only, hello.where)
        await links.called(hello.name, reader, writer, wanted, address=f"{host}:{port}")

    async def _program(
        self, hello: Hello, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        serving = self._service.serving
        if serving is None:
            raise StreamError("this node serves no programs")
        if self._programs >= self._most_programs:
            raise StreamError(f"{self._programs:,} programs are connected, no more may (streams.readers)")
        self._programs += 1
        try:
            writer.write(handshake.encode(Welcome(VERSION, self._service.node)))
            await serving.connected(reader, writer, hello, user)
        finally:
            self._programs -= 1

    async def _sorry(self, writer: asyncio.StreamWriter, address: str, why: str) -> None:
        """Say why not, and close."""
        self.refused += 1
        log.warning("%s", printable(f"streams: a caller from {address} is not let in: {why}"))
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(limits.TLS_SHUTDOWN_S):
                writer.write(handshake.encode(Sorry(why)))
                await writer.drain()
                writer.close()
                await writer.wait_closed()


def _listener(config: Config) -> Listener:
    """The door as the gate and TLS want to know it."""
    door = config.streams.listen
    return Listener(
        kind="tls" if door.certificate else "tcp",
        host=door.host,
        port=door.port,
        certificate=door.certificate,
        key=door.key,
        client_ca=door.client_ca,
    )
