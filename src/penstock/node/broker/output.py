"""The output of a connection: what is written within one turn of the event loop goes out in one piece.

A `Flusher` writes once for each connection at the end of the turn. The transport's own buffer is kept empty:
as soon as it holds anything, the session is behind and its queues take over. A client that proves to be slow
gets small buffers (`buffers`), because no policy reaches what waits in them.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

from penstock import limits
from penstock.node.broker.buffers import SendBuffers
from penstock.node.broker.pacing import not_sent, unsent_bytes

if TYPE_CHECKING:
    import asyncio
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from penstock.model.instant import Instant
    from penstock.node.broker.link import Sampled
    from penstock.node.broker.session import Session


class Written(Protocol):
    """A connection that collects what it writes."""

    def unmark(self) -> None:
        """Write the collected bytes; the flusher has forgotten the connection."""
        ...


class Flusher:
    """Connections with something to write."""

    __slots__ = ("_dirty", "_loop", "_scheduled", "reading")

    def __init__(self) -> None:
        self._dirty: list[Written] = []
        self._loop: AbstractEventLoop | None = None
        self._scheduled = False
        self.reading = False
        """Whether a chunk is being dealt with: then `done` follows."""

    def start(self, loop: AbstractEventLoop) -> None:
        """Write in this loop."""
        self._loop = loop

    def soon(self, connection: Written) -> None:
        """Have a connection write its collected bytes at the end of this turn."""
        self._dirty.append(connection)
        if not self.reading and not self._scheduled:
            self._schedule()

    def done(self) -> None:
        """A chunk was dealt with."""
        self.reading = False
        if self._dirty and not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        assert self._loop is not None
        self._scheduled = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.unmark()


class OutputHost(Protocol):
    """The broker, as outputs use it."""

    clock: Callable[[], Instant]
    now_us: Instant
    """When the present turn of the event loop began."""
    flushed_us: Instant
    """When something was written for the last time."""
    bytes_sent: int
    flusher: Flusher


class OutputOwner(Protocol):
    """The connection, as its output uses it."""

    session: Session | None

    @property
    def reading(self) -> bool:
        """Whether bytes of the client are read."""
        ...

    def hold_reading(self) -> None:
        """Stop reading until `release_reading`."""
        ...

    def release_reading(self) -> None:
        """Release one hold on reading; resume when none is left."""
        ...


class Output:
    """Collects and writes the bytes for one client (an `Outlet`)."""

    __slots__ = (
        "_buffers",
        "_flush_bytes",
        "_host",
        "_marked",
        "_out",
        "_out_bytes",
        "_owner",
        "_paused_us",
        "_since_us",
        "_unread_answers",
        "_written",
        "paused",
        "sampled",
        "transport",
    )

    def __init__(self, host: OutputHost, owner: OutputOwner) -> None:
        self._host = host
        self._owner: OutputOwner | None = owner
        """None: the connection is closed. A cycle would keep both until the next collection."""
        self.transport: asyncio.Transport | None = None
        self.paused = False
        """Whether the transport takes nothing at the moment."""
        self.sampled: Sampled | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._written = 0
        """Bytes given to the transport."""
        self._flush_bytes = limits.FLUSH_BYTES
        """Bytes that are collected before a write that does not wait for the end of the turn."""
        self._buffers: SendBuffers | None = None
        """Chooses the sizes of writes and buffers; None: the client was never slow."""
        self._paused_us = 0
        self._since_us = 0
        """When the first byte that waits to be written was added."""
        self._marked = False
        """Whether the broker knows that there is something to flush."""
        self._unread_answers = False
        """Whether reading is held because the client does not read its answers."""

    @property
    def _session(self) -> Session | None:
        return None if self._owner is None else self._owner.session

    def close(self) -> None:
        """Forget what was not written: the connection is gone."""
        if self._buffers is not None:
            self._buffers.close()
        self._buffers = self.transport = self._owner = None
        self._out.clear()

    def write(self, data: bytes) -> None:
        """Send in order, with whatever else this turn brings."""
        if not self._marked:
            self._marked = True
            self._since_us = self._host.now_us
            self._host.flusher.soon(self)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > self._flush_bytes:
            self.flush()

    def write_now(self, data: bytes) -> None:
        """Send at once, unless something waits already."""
        if self._out or self.transport is None:
            self.write(data)
        else:
            self._host.bytes_sent += len(data)
            self._written += len(data)
            self.transport.write(data)

    def write_late(self, data: bytes, *, since_us: Instant) -> None:
        """Send what has waited for the disk since then, and what waits behind it."""
        host = self._host
        now_us = host.now_us = host.clock()
        if not self._marked:
            self._marked = True
            self._since_us = since_us
            host.flusher.soon(self)
        self.write(data)
        session = self._session
        if session is not None and not session.delivery.keeping_up:
            session.drain(now_us=now_us)

    def unmark(self) -> None:
        """The broker's flush has come."""
        self._marked = False
        self.flush()

    def flush(self) -> None:
        """Write the collected bytes to the transport."""
        out, transport = self._out, self.transport
        if not out or transport is None or transport.is_closing():
            out.clear()
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        host = self._host
        host.bytes_sent += len(data)
        self._written += len(data)
        host.flushed_us = host.now_us
        transport.write(data)
        if self.sampled is not None:
            self.sampled.latency.add(host.clock() - self._since_us)
            self.sampled = None
        owner = self._owner
        if (
            self.paused
            and owner is not None
            and owner.reading
            and transport.get_write_buffer_size() > limits.UNSENT_BYTES
        ):
            owner.hold_reading()
            self._unread_answers = True

    def progress(self) -> tuple[int, int]:
        """Bytes that the other end has taken so far, and bytes that were written and not taken yet."""
        transport = self.transport
        if transport is None:
            return self._written, 0
        below = transport.get_write_buffer_size() + unsent_bytes(transport.get_extra_info("socket"))
        return self._written - below, self._out_bytes + below

    def pause(self) -> None:
        """The transport holds something: the client is behind."""
        self.paused = True
        self._paused_us = self._host.clock()
        if self._buffers is not None:
            self._buffers.paused(self.progress()[0])
        session = self._session
        if session is not None:
            session.delivery.keeping_up = False

    def resume(self) -> None:
        """The transport is empty again."""
        self.paused = False
        owner = self._owner
        if owner is None:
            return
        if self._unread_answers:
            self._unread_answers = False
            owner.release_reading()
        session = owner.session
        if session is not None:
            now_us = self._host.now_us = self._host.clock()
            self._fit_buffers(session, now_us - self._paused_us)
            session.drain(now_us=now_us)

    def _fit_buffers(self, session: Session, pause_us: int) -> None:
        """Give a slow client small buffers: what waits in them is out of its policy's reach."""
        buffers = self._buffers
        if buffers is None and pause_us <= limits.SLOW_PAUSE_US:
            return
        if buffers is None:
            buffers = self._new_buffers()
        delivery = session.delivery
        timed = delivery.pacing is not None or delivery.metered is not None
        buffers.resumed(pause_us, taken=self.progress()[0] if timed else 0, timed=timed)
        self._flush_bytes = buffers.size
        if buffers.size == limits.FLUSH_BYTES:
            delivery.metered = None

    def keep_little(self) -> None:
        """Have little wait in the kernel for a client whose queues keep time, until it proves to be fast."""
        (self._buffers or self._new_buffers()).keep_little()

    def be_slow(self) -> None:
        """Have as little as possible wait outside the queues, until the client proves to be fast."""
        buffers = self._buffers or self._new_buffers()
        buffers.slow()
        self._flush_bytes = buffers.size

    @property
    def full(self) -> bool:
        """Whether the kernel holds enough for a client for which time counts; if so, drain again soon."""
        return self._buffers is not None and self._buffers.full

    def _drain_again(self) -> None:
        session = self._session
        if session is not None:
            now_us = self._host.now_us = self._host.clock()
            session.drain(now_us=now_us)

    def unsent(self) -> int:
        """Bytes that were written and wait for the link, not counting those on the way."""
        transport = self.transport
        if transport is None:
            return 0
        waiting, _ = not_sent(transport.get_extra_info("socket"))
        return self._out_bytes + transport.get_write_buffer_size() + waiting

    def _new_buffers(self) -> SendBuffers:
        sock = None if self.transport is None else self.transport.get_extra_info("socket")
        tcp = sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6)
        self._buffers = SendBuffers(sock if tcp else None, again=self._drain_again)
        return self._buffers
