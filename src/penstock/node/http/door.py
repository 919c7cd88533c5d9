"""The door before the HTTP server: so many connections, and no server for those that say nothing.

aiohttp waits for ever for the first request of a connection. Here a connection is handed to it only when the
head of a request has arrived whole; a stranger who sends it byte by byte is sent away.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from penstock import limits

if TYPE_CHECKING:
    from aiohttp.web import Server

_END: Final = b"\r\n\r\n"


class Door:
    """Makes the protocol of each new connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.waiting: set[Visitor] = set()

    def __call__(self) -> Visitor:
        """Somebody knocks."""
        return Visitor(self)

    @property
    def full(self) -> bool:
        """Whether no more connections are accepted."""
        return len(self.waiting) + len(self._server.connections) >= limits.HTTP_CONNECTIONS

    def enter(self, transport: asyncio.Transport, head: bytes) -> None:
        """The request's head is here: from now on the connection is the server's."""
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
        handler.data_received(head)

    def close(self) -> None:
        """Send away who still waits."""
        for visitor in list(self.waiting):
            visitor.leave()


class Visitor(asyncio.Protocol):
    """A connection whose first request is not complete."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the head of a request, not for ever."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not say so
        if self._door.full:
            self._transport.abort()
            return
        self._door.waiting.add(self)
        self._timer = asyncio.get_running_loop().call_later(limits.HTTP_HEAD_S, self.leave)

    def data_received(self, data: bytes) -> None:
        """A part of the head, or all of it."""
        if self not in self._door.waiting:
            return
        self._head += data
        if _END in self._head:
            self._forget()
            assert self._transport is not None
            self._door.enter(self._transport, self._head)
        elif len(self._head) > limits.HTTP_HEAD_BYTES:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """They left."""
        self._forget()

    def leave(self) -> None:
        """Send them away."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _forget(self) -> None:
        self._door.waiting.discard(self)
        if self._timer is not None:
            self._timer.cancel()
