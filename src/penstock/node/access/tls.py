"""TLS of listeners: contexts (1.2 or newer, client certificates where asked for) and handshakes.

Handshakes are bounded in time and in number, before anything of MQTT is made. A server of asyncio does
handshakes on its own and bounds the time only: whoever opens connections and says nothing would take a
file and some 100 KB each for as long.
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
    """Makes TLS of the connections of one listener."""

    def __init__(
        self, context: ssl.SSLContext, *, handshake_s: float, connection: Callable[[], asyncio.Protocol]
    ) -> None:
        self.context = context
        self._handshake_s = handshake_s
        self._connection = connection
        self._shaking: dict[socket.socket, asyncio.Task[None]] = {}
        """Handshakes under way, the oldest first."""
        self._new: set[socket.socket] = set()
        """Those that no transport has yet, which would close them."""

    def protocol(self) -> asyncio.Protocol:
        """For a new connection."""
        return _AcceptedSocket(self._knocked)

    def _knocked(self, taken: socket.socket) -> None:
        """A handshake begins; where too many are under way, the one that has tried longest goes."""
        if len(self._shaking) >= limits.TLS_HANDSHAKES:
            oldest = next(iter(self._shaking))
            self._send_away(oldest, self._shaking.pop(oldest))
        self._new.add(taken)
        self._shaking[taken] = asyncio.ensure_future(self._shake(taken))

    async def _shake(self, taken: socket.socket) -> None:
        self._new.remove(taken)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connection,
                taken,
                ssl=self.context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=limits.TLS_SHUTDOWN_S,
            )
        except (OSError, ssl.SSLError):  # no TLS, no certificate that we take, too slow, or gone
            taken.close()
        finally:
            self._shaking.pop(taken, None)

    async def close(self) -> None:
        """End what is left of the handshakes."""
        shaking, self._shaking = self._shaking, {}
        for taken, task in shaking.items():
            self._send_away(taken, task)
        await asyncio.gather(*shaking.values(), return_exceptions=True)

    def _send_away(self, taken: socket.socket, task: asyncio.Task[None]) -> None:
        with suppress(OSError):  # it has gone itself
            taken.shutdown(socket.SHUT_RDWR)
        task.cancel()
        if taken in self._new:  # its task will not even begin
            self._new.remove(taken)
            taken.close()


class _AcceptedSocket(asyncio.Protocol):
    """A connection that was accepted: its socket is taken from a transport that has read nothing yet."""

    def __init__(self, taken: Callable[[socket.socket], None]) -> None:
        self._taken = taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            number = os.dup(transport.get_extra_info("socket").fileno())
        except OSError:  # no file is left
            transport.abort()  # type: ignore[attr-defined]
            return
        taken = socket.socket(fileno=number)
        taken.setblocking(False)
        transport.abort()  # type: ignore[attr-defined]  # closes its own file, not the connection
        self._taken(taken)
