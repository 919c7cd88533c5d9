"""The link to one neighbour: its queue, its connection while there is one, its state for log and status.

Control messages go before data, and streams take turns. The link writes only what leaves soon, because
control messages cannot overtake what is in the buffers of the socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from penstock import limits
from penstock.core.streams import LinkQueue, handshake, wire
from penstock.errors import StreamError
from penstock.model.instant import SECOND_US, to_us
from penstock.node.access.rate import RateLimit
from penstock.node.streams.status import NeighbourRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.handshake import Alive, LinkFrame, Offer
    from penstock.core.streams.messages import Message
    from penstock.node.config.streams import Neighbour

log = logging.getLogger(__name__)

BURST_S: Final = 0.05
"""A link with a rate limit writes at once what it may send in this time; a control message that comes
meanwhile waits no longer than that."""
LEAST_BYTES: Final = 512
"""Smallest such write, however low the rate is."""
READ_BYTES: Final = 1 << 16
"""Read from the socket at once."""


class Link:
    """Queue and connection to one neighbour; `run` serves a connection until it ends."""

    def __init__(self, neighbour: Neighbour, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.neighbour = neighbour
        """Settings of the neighbour; replaced when the configuration is reloaded."""
        self.queue = LinkQueue(neighbour.queue_bytes)
        self.sent = self.sent_bytes = self.received = self.received_bytes = 0
        self.ignored = 0
        """Messages received about streams that are not known here, or that come from another neighbour."""
        self.heard_s = self.wrote_s = 0.0
        """When something was received and written last, by `clock_s`."""
        self._clock_s = clock_s
        self._first: dict[type, bytes] = {}
        """Frames that go before the queue, by type."""
        self._rest = memoryview(b"")
        """The rest of a frame of which a part was written."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._why = ""

    @property
    def up(self) -> bool:
        """Whether there is a connection."""
        return self._writer is not None

    def send(self, message: Message) -> None:
        """Queue a message; it is dropped if the queue is full, and the neighbour asks for it again."""
        self.queue.offer(message)
        if self.queue.urgent_bytes > limits.STREAM_CONTROL_BYTES:
            self.end("queue full: the neighbour does not read")
        self._wake.set()

    def send_first(self, one: Offer | Alive) -> None:
        """Send this before the queue, in place of another of its type that has not been written."""
        self._first[type(one)] = handshake.encode(one)
        self._wake.set()

    def end(self, why: str) -> None:
        """Close the connection, if there is one."""
        if self._writer is not None:
            self._why = self._why or why
            self._writer.transport.abort()

    def change(self, *, bytes_per_s: float, enabled: bool, user: str | None = None) -> None:
        """Change settings of the running link; `user` takes effect with the next connection."""
        user = self.neighbour.user if user is None else user
        self.neighbour = msgspec.structs.replace(
            self.neighbour, bytes_per_s=bytes_per_s, enabled=enabled, user=user
        )
        self._changed.set()

    def open(self, writer: asyncio.StreamWriter) -> None:
        """Take a new connection; the caller then calls `run`."""
        self._writer, self._why = writer, ""
        self.heard_s = self.wrote_s = self._clock_s()
        _prepare(writer)

    async def run(self, reader: asyncio.StreamReader, *, received: Callable[[LinkFrame], None]) -> str:
        """Serve the connection until it ends; returns why it ended."""
        writer = self._writer
        assert writer is not None
        sending = asyncio.create_task(self._send(writer))
        try:
            why = await self._receive(reader, received)
        finally:
            sending.cancel()
            writer.transport.abort()
            try:
                await asyncio.gather(sending, return_exceptions=True)
            finally:
                self.close()
        return self._why or why

    def close(self) -> None:
        """Let go of the connection and empty the queue; only then may another connection be opened."""
        self._writer = None
        self.queue.clear()
        self._first.clear()
        self._rest = memoryview(b"")

    async def _receive(self, reader: asyncio.StreamReader, received: Callable[[LinkFrame], None]) -> str:
        frames = wire.FrameReader(handshake.decode_said)
        try:
            while data := await reader.read(READ_BYTES):
                self.heard_s = self._clock_s()
                self.received_bytes += len(data)
                for frame in frames.feed(data):
                    self.received += 1
                    received(frame)
        except StreamError as error:
            return f"protocol error: {error}"
        except OSError as error:
            return f"connection lost: {error.strerror or error}"
        return "connection closed by the neighbour"

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        limit, rate = None, 0.0
        with suppress(OSError):  # _receive reports the lost connection
            while True:
                if rate != self.neighbour.bytes_per_s:
                    rate = self.neighbour.bytes_per_s
                    limit = RateLimit.of(rate, ahead_s=BURST_S) if rate else None
                most = limits.STREAM_WRITE_BYTES
                if rate:  # a very slow link writes less at once, so that it is never silent for long
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
                if limit is not None:
                    now_us = to_us(loop.time())
                    limit.spend(len(piece), now_us=now_us)
                    await self._wait(limit.wait_us(now_us=now_us) / SECOND_US)

    async def _wait(self, seconds: float) -> None:
        """Wait for so long, or until the settings change."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _next(self, most: int) -> bytes:
        """The next bytes to write, at most `most`."""
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
                log.exception("link to %r: a message cannot be encoded and is dropped", self.neighbour.name)
        return b""


def _prepare(writer: asyncio.StreamWriter) -> None:
    """Set socket options: small buffers, no delay of small writes, detection of a dead host by the kernel."""
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


class LinkState:
    """Whether the link to one configured neighbour is up, since when, and why not; logs changes."""

    def __init__(self, link: Link, *, clock: Callable[[], int]) -> None:
        neighbour = link.neighbour
        self.link = link
        self.name = neighbour.name
        self.state: Literal["up", "down", "off"] = "down" if neighbour.enabled else "off"
        self.address = f"{neighbour.host}:{neighbour.port}" if neighbour.host else ""
        self.connections = 0
        """Connections since the start."""
        self.changed = asyncio.Event()
        """Set when the settings have changed, so that the next attempt to connect need not wait."""
        self._fault = ""
        self._clock = clock
        self._since_us = clock()

    def enter(self, state: Literal["up", "down", "off"], why: str = "") -> None:
        """Enter a state and log it, unless nothing has changed."""
        if (state, why) == (self.state, self._fault):
            return
        now_us = self._clock()
        if state == "up":
            self.connections += 1
            if self.connections > 1:
                after_s = max(0, now_us - self._since_us) / 1e6
                log.info("link to %r: up again after %.1f s", self.name, after_s)
            else:
                log.info("link to %r: up", self.name)
        elif state == "off":
            log.info("link to %r: %s", self.name, why)
        elif self.state == "off":
            log.info("link to %r: switched on", self.name)
        elif why:
            level = logging.INFO if self.state == "down" and self._fault else logging.WARNING
            log.log(level, "link to %r: down: %s", self.name, why)
        if state != self.state:
            self._since_us = now_us
        self.state, self._fault = state, why

    def row(self) -> NeighbourRow:
        """The status of the link."""
        link = self.link
        queue = link.queue.statistics()
        return NeighbourRow(
            name=self.name,
            state=self.state,
            address=self.address,
            since_us=self._since_us,
            queue_bytes=queue.bytes,
            sent=link.sent,
            sent_bytes=link.sent_bytes,
            received=link.received,
            received_bytes=link.received_bytes,
            dropped=queue.refused,
            reconnects=max(0, self.connections - 1),
            fault=self._fault,
            ignored=link.ignored,
        )
