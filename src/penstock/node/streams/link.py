"""The link to one neighbour: what waits for it, and the connection while there is one.

Control goes before data, and streams take turns. No more is written than goes out soon: what lies in buffers
below cannot be overtaken.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.streams import LinkQueue, meeting, wire
from penstock.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.meeting import Alive, Offer, Said
    from penstock.core.streams.messages import Message
    from penstock.node.streams.settings import Neighbour

log = logging.getLogger(__name__)

BURST_S: Final = 0.05
"""A limited link sends at once what it may send in this time: control waits no longer for data."""
LEAST_BYTES: Final = 512
"""Or so many bytes, however slow it is."""
READ_BYTES: Final = 1 << 16


class Link:
    """One neighbour's; `run` serves a connection until it ends."""

    def __init__(self, neighbour: Neighbour, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.neighbour = neighbour
        """As the configuration has it; may be replaced while the node runs."""
        self.queue = LinkQueue(neighbour.queue_bytes)
        self.sent = self.sent_bytes = self.received = self.received_bytes = 0
        self.ignored = 0
        """Messages of streams that are not known here, or come from elsewhere."""
        self.heard_s = self.wrote_s = 0.0
        self._clock_s = clock_s
        self._first: dict[type, bytes] = {}
        self._rest = memoryview(b"")
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._why = ""

    @property
    def up(self) -> bool:
        """Whether there is a connection."""
        return self._writer is not None

    def send(self, message: Message) -> None:
        """Let a message wait for its turn; without room it is lost, and whoever needs it asks again."""
        self.queue.offer(message)
        if self.queue.urgent_bytes > limits.STREAM_CONTROL_BYTES:
            self.end("it takes nothing, and too much waits for it")
        self._wake.set()

    def say(self, one: Offer | Alive) -> None:
        """Send this before everything that waits, and in the place of another of its kind that does."""
        self._first[type(one)] = meeting.encode(one)
        self._wake.set()

    def end(self, why: str) -> None:
        """Close the connection, if there is one."""
        if self._writer is not None:
            self._why = self._why or why
            self._writer.transport.abort()

    def change(self, *, bytes_per_s: float, enabled: bool, user: str | None = None) -> None:
        """Go on with other settings; the user counts when it calls again."""
        user = self.neighbour.user if user is None else user
        self.neighbour = msgspec.structs.replace(
            self.neighbour, bytes_per_s=bytes_per_s, enabled=enabled, user=user
        )
        self._changed.set()

    def open(self, writer: asyncio.StreamWriter) -> None:
        """There is a connection; `run` follows."""
        self._writer, self._why = writer, ""
        self.heard_s = self.wrote_s = self._clock_s()
        _prepare(writer)

    async def run(self, reader: asyncio.StreamReader, *, heard: Callable[[Said], None]) -> str:
        """Serve the connection; why it ended."""
        writer = self._writer
        assert writer is not None
        sending = asyncio.create_task(self._send(writer))
        try:
            why = await self._receive(reader, heard)
        finally:
            sending.cancel()
            writer.transport.abort()
            try:
                await asyncio.gather(sending, return_exceptions=True)
            finally:
                self.close()
        return self._why or why

    def close(self) -> None:
        """There is no connection any more, and nothing waits; only now may another one be opened."""
        self._writer = None
        self.queue.clear()
        self._first.clear()
        self._rest = memoryview(b"")

    async def _receive(self, reader: asyncio.StreamReader, heard: Callable[[Said], None]) -> str:
        frames = wire.FrameReader(meeting.decode_said)
        try:
            while data := await reader.read(READ_BYTES):
                self.heard_s = self._clock_s()
                self.received_bytes += len(data)
                for said in frames.feed(data):
                    self.received += 1
                    heard(said)
        except StreamError as error:
            return f"it says what cannot be: {error}"
        except OSError as error:
            return f"the connection broke: {error.strerror or error}"
        return "it closed the connection"

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        with suppress(OSError):  # the receiving side says why
            while True:
                rate = self.neighbour.bytes_per_s
                most = limits.STREAM_WRITE_BYTES
                if rate:  # a link that is very slow sends less, but is never silent for long
                    least = min(LEAST_BYTES, int(rate * limits.STREAM_ALIVE_S))
                    most = min(most, max(1, least, int(rate * BURST_S)))
                piece = self._next(most)
                if not piece:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                writer.write(piece)
                self.wrote_s = self._clock_s()
                self.sent_bytes += len(piece)
                await writer.drain()
                if rate:
                    due_s = max(due_s, loop.time() - BURST_S) + len(piece) / rate
                    if await self._changes_before(due_s - loop.time()):
                        due_s = loop.time()

    async def _changes_before(self, seconds: float) -> bool:
        """Wait for so long, or for other settings."""
        self._changed.clear()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                return await self._changed.wait()
        except TimeoutError:
            return False

    def _next(self, most: int) -> bytes:
        """Up to so many bytes of what goes next."""
        out = bytearray(self._rest[:most])
        self._rest = self._rest[most:]
        while len(out) < most:
            frame = self._first.pop(next(iter(self._first))) if self._first else self._frame()
            if not frame:
                break
            room = most - len(out)
            out += frame[:room]
            self._rest = memoryview(frame)[room:]
        return bytes(out)

    def _frame(self) -> bytes:
        while (found := self.queue.take()) is not None:
            self.sent += 1
            try:
                return wire.encode(found[0])
            except StreamError:
                log.exception("link to %r", self.neighbour.name)
        return b""


def _prepare(writer: asyncio.StreamWriter) -> None:
    """Small buffers, no waiting for more to send, and the kernel notices a dead host."""
    size = limits.STREAM_WRITE_BYTES
    writer.transport.set_write_buffer_limits(high=size, low=size // 4)
    sock = writer.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    dead_ms = int(limits.STREAM_DEAD_S * 1_000)
    for name, value in (("TCP_NODELAY", 1), ("TCP_NOTSENT_LOWAT", size), ("TCP_USER_TIMEOUT", dead_ms)):
        option = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
