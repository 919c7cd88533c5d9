"""Relays between two programs on this machine: a way that can be cut, closed and stalled, and a slow link.

    node ──► slow link, so many bytes a second ──► receiver

A slow link passes what the receiver sends at full speed. Socket buffers on the way are as small as the kernel
allows, so that messages wait in the node and not in the relay.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

from penstock_lab.rigs.ports import HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType


CHUNK_BYTES: Final = 1 << 14


class Way:
    """Carries bytes from its own port to another."""

    def __init__(self, to: int) -> None:
        self._to = to
        self.port = 0
        self.open = True
        """Whether connections come through; else they are closed at once."""
        self.flowing = asyncio.Event()
        """Whether bytes go towards the port behind the way."""
        self.flowing.set()
        self.bytes_per_s = 0.0
        """Rate in each direction of each connection; 0: as fast as it goes."""
        self.made = 0
        """Connections that came through."""
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def url(self) -> str:
        """URL of the way for MQTT clients."""
        return f"mqtt://{HOST}:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a new connection."""
        if self._closed:  # it was accepted before, and is told only now
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # a task may be cancelled before it begins

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(HOST, self._to, limit=CHUNK_BYTES)
        except OSError:
            writer.close()  # nobody listens behind the way: the caller sees a closed connection
        else:
            await self.carry(reader, writer, there, back)

    async def carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        """Carry bytes between two connections until one ends, unless the way is closed."""
        try:
            if self.open:
                self.made += 1
                self._writers += [writer, back]
                await asyncio.gather(self._copy(reader, back, self.flowing), self._copy(there, writer, None))
        finally:
            writer.close()
            back.close()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event | None
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if flowing is not None:
                    await flowing.wait()
                if self.bytes_per_s:
                    await asyncio.sleep(len(chunk) / self.bytes_per_s)
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

    async def close(self) -> None:
        """Carry nothing more."""
        self._closed = True
        self.shut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the ends are closed in the next turn


@asynccontextmanager
async def way(to: int) -> AsyncIterator[Way]:
    """A way to a port of this machine for the length of the block."""
    found = Way(to)
    server = await asyncio.start_server(found.accept, HOST, 0, limit=CHUNK_BYTES)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        await found.close()


_BUFFER_BYTES: Final = 1_024
"""Socket buffer size that is requested; the kernel doubles it and has a minimum of its own."""
_SEGMENT_BYTES: Final = 256
"""Largest segment towards the relay. With larger ones its small buffer is full after two or three messages:
the kernel then drops segments, and the node waits up to seconds before it sends them again."""
_TICK_S: Final = 0.02
"""The relay sends what the rate allows in this time, then waits."""


class SlowLink:
    """Connections to `port` go to (`host`, `to_port`), and what comes back is limited."""

    def __init__(self, to_port: int, *, bytes_per_s: float, host: str = "127.0.0.1") -> None:
        self.port = 0
        self.carried = 0
        """Bytes sent to receivers."""
        self._to = (host, to_port)
        self._piece = max(1, round(bytes_per_s * _TICK_S))
        self._bytes_per_s = bytes_per_s
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        _hold_nothing_back(sock)  # connections inherit it
        sock.bind(("127.0.0.1", 0))
        self._server = await asyncio.start_server(self._accept, sock=sock)
        self.port = sock.getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        # A plain socket and no stream towards the node: a stream would read ahead by itself.
        far = socket.socket()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        _hold_nothing_back(far)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
        far.setblocking(False)
        try:
            await loop.sock_connect(far, self._to)
            both = (asyncio.ensure_future(_onward(near, far)), asyncio.ensure_future(self._copy(far, back)))
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass  # the node is gone; the receiver sees that when `back` is closed
        finally:
            far.close()
            back.close()

    async def _copy(self, far: socket.socket, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        with suppress(OSError):
            while data := await loop.sock_recv(far, self._piece):
                due_s = max(due_s, loop.time() - _TICK_S) + len(data) / self._bytes_per_s
                # Wait before writing: data arrives when its transmission has ended.
                await asyncio.sleep(max(0.0, due_s - loop.time()))
                writer.write(data)
                self.carried += len(data)
                await writer.drain()


def _hold_nothing_back(sock: socket.socket) -> None:
    """Have the kernel send what the relay writes at once; asyncio does so only for sockets it has made.

    Else a piece is kept until the one before is confirmed, which a receiver's kernel puts off for 40 ms.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def _onward(near: asyncio.StreamReader, far: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await near.read(65_536):
            await loop.sock_sendall(far, data)
