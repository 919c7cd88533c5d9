"""TLS handshakes of listeners, bounded in time and in number, before a connection of MQTT is made.

A server of asyncio does handshakes by itself and bounds only their time: each connection that sends nothing
would hold a file descriptor and some 100 KB for that long.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.access.unfinished import UnfinishedConnections

if TYPE_CHECKING:
    from collections.abc import Callable


class TlsHandshakes:
    """Does the handshakes of one listener."""

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        handshake_s: float,
        connection: Callable[[], asyncio.Protocol],
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`failed` is told the address of a client whose handshake has failed."""
        self.context = context
        self._failed = failed
        self._handshake_s = handshake_s
        self._connection = connection
        self._unfinished = UnfinishedConnections[_Handshake](
            most=limits.TLS_HANDSHAKES, wait_s=handshake_s, close=_Handshake.close
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""
        return _AcceptedSocket(self._accepted)

    def _accepted(self, taken: socket.socket) -> None:
        handshake = _Handshake(taken)
        handshake.task = asyncio.ensure_future(self._shake(handshake))
        self._tasks.add(handshake.task)
        handshake.task.add_done_callback(self._tasks.discard)
        self._unfinished.add(handshake)

    async def _shake(self, handshake: _Handshake) -> None:
        handshake.begun = True
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connection,
                handshake.socket,
                ssl=self.context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=limits.TLS_SHUTDOWN_S,
            )
        except (OSError, ssl.SSLError):  # not TLS, a refused certificate, a timeout, or disconnected
            self._failed(handshake.address)
            handshake.socket.close()
        finally:
            self._unfinished.remove(handshake)

    async def close(self) -> None:
        """End all handshakes in progress."""
        tasks = list(self._tasks)
        self._unfinished.close_all()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Handshake:
    """A handshake on an accepted socket."""

    __slots__ = ("address", "begun", "socket", "task")

    def __init__(self, taken: socket.socket) -> None:
        self.socket = taken
        self.address = "an unknown address"
        with suppress(OSError):  # the client has disconnected
            self.address = str((taken.getpeername() or (self.address,))[0])
        self.begun = False
        """Whether the task runs: from then on a transport closes the socket."""
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End the handshake and its connection."""
        with suppress(OSError):  # the client has disconnected
            self.socket.shutdown(socket.SHUT_RDWR)
        assert self.task is not None
        self.task.cancel()
        if not self.begun:  # a task that is cancelled before it begins closes nothing
            self.socket.close()


class _AcceptedSocket(asyncio.Protocol):
    """Takes the socket of an accepted connection from a transport that has read nothing yet."""

    def __init__(self, taken: Callable[[socket.socket], None]) -> None:
        self._taken = taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            number = os.dup(transport.get_extra_info("socket").fileno())
        except OSError:  # no file descriptor is left
            transport.abort()  # type: ignore[attr-defined]
            return
        taken = socket.socket(fileno=number)
        taken.setblocking(False)
        transport.abort()  # type: ignore[attr-defined]  # closes its own descriptor, not the connection
        self._taken(taken)
