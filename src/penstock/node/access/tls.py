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

if TYPE_CHECKING:
    from collections.abc import Callable


class TlsHandshakes:
    """Does the handshakes of one listener."""

    def __init__(
        self, context: ssl.SSLContext, *, handshake_s: float, connection: Callable[[], asyncio.Protocol]
    ) -> None:
        self.context = context
        self._handshake_s = handshake_s
        self._connection = connection
        self._handshakes: dict[socket.socket, asyncio.Task[None]] = {}
        """Handshakes in progress, the oldest first."""
        self._new: set[socket.socket] = set()
        """Sockets whose handshake has not begun: no transport closes them yet."""

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""
        return _AcceptedSocket(self._accepted)

    def _accepted(self, taken: socket.socket) -> None:
        """Begin a handshake; if too many are in progress, end the oldest."""
        if len(self._handshakes) >= limits.TLS_HANDSHAKES:
            oldest = next(iter(self._handshakes))
            self._end(oldest, self._handshakes.pop(oldest))
        self._new.add(taken)
        self._handshakes[taken] = asyncio.ensure_future(self._shake_hands(taken))

    async def _shake_hands(self, taken: socket.socket) -> None:
        self._new.remove(taken)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connection,
                taken,
                ssl=self.context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=limits.TLS_SHUTDOWN_S,
            )
        except (OSError, ssl.SSLError):  # not TLS, a refused certificate, a timeout, or disconnected
            taken.close()
        finally:
            self._handshakes.pop(taken, None)

    async def close(self) -> None:
        """End all handshakes in progress."""
        handshakes, self._handshakes = self._handshakes, {}
        for taken, task in handshakes.items():
            self._end(taken, task)
        await asyncio.gather(*handshakes.values(), return_exceptions=True)

    def _end(self, taken: socket.socket, task: asyncio.Task[None]) -> None:
        with suppress(OSError):  # the client has disconnected
            taken.shutdown(socket.SHUT_RDWR)
        task.cancel()
        if taken in self._new:  # its task will never run
            self._new.remove(taken)
            taken.close()


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
