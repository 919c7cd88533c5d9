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
        self._first[type(one)] = handshake.encode(one)
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

    async def run(self, reader: asyncio.StreamReader, *, heard: Callable[[LinkFrame], None]) -> str:
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

    async def _receive(self, reader: asyncio.StreamReader, heard: Callable[[LinkFrame], None]) -> str:
        frames = wire.FrameReader(handshake.decode_said)
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
        limit, rate = None, 0.0
        with suppress(OSError):  # the receiving side says why
            while True:
                if rate != self.neighbour.bytes_per_s:
                    rate = self.neighbour.bytes_per_s
                    limit = RateLimit.of(rate, ahead_s=BURST_S) if rate else None
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


class LinkState:
    """Of one neighbour of the configuration."""

    def __init__(self, link: Link, *, clock: Callable[[], int]) -> None:
        neighbour = link.neighbour
        self.link = link
        self.name = neighbour.name
        self.state: Literal["up", "down", "off"] = "down" if neighbour.enabled else "off"
        self.address = f"{neighbour.host}:{neighbour.port}" if neighbour.host else ""
        self.connections = 0
        """Since the start."""
        self.changed = asyncio.Event()
        """Set when it may be worth calling before its time."""
        self._fault = ""
        self._clock = clock
        self._since_us = clock()

    def enter(self, state: Literal["up", "down", "off"], why: str = "") -> None:
        """Write down, and tell once, what has changed."""
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
        """A snapshot."""
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
