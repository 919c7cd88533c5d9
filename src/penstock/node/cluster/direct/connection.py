"""One direct connection between two nodes: a handshake, then frames in both directions.

Frames of one byte are its own: `ALIVE` says that this end is there, `FAREWELL` that it has sent its last
frame. TCP does not tell that the other end is frozen or the network cut. So whoever has got something and has
had nothing to send since then says `ALIVE`; an end that has sent something and hears nothing for a lease
closes the connection, and its frames go by Zenoh.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.errors import ClusterError
from penstock.node.cluster.direct.framing import FrameReader, framed
from penstock.node.cluster.direct.handshake import Acceptor, Connector

if TYPE_CHECKING:
    from penstock.core.cluster.view import Sighting

log = logging.getLogger(__name__)

ALIVE: Final = b"+"
FAREWELL: Final = b"-"


class ConnectionHost(Protocol):
    """What a direct connection reports to."""

    def begun(self, connection: DirectConnection) -> None:
        """The connection is made; nothing is known of the other end."""
        ...

    def established(self, connection: DirectConnection) -> None:
        """The handshake is done: frames may be sent."""
        ...

    def carried(self, sender: Sighting, frame: bytes) -> None:
        """A frame has come."""
        ...

    def ended(self, connection: DirectConnection, why: str) -> None:
        """The connection is gone; told once. `why` is empty if the other end has done nothing wrong."""
        ...


class DirectConnection(asyncio.Protocol):
    """One end of a connection; both ends are alike after the handshake.

    Asyncio sets TCP_NODELAY: a frame does not wait for the acknowledgement of the one before.
    """

    def __init__(self, host: ConnectionHost, handshake: Acceptor | Connector, peer: Sighting | None) -> None:
        """`peer` is the other node, if it is known: this end connects to it."""
        self._host = host
        self._handshake = handshake
        self.peer = peer
        self.up = False
        """Whether the handshake is done, and the connection has not ended."""
        self.settled = asyncio.Event()
        """Set when the handshake is done, or the connection has ended."""
        self._over = False
        self._hello_sent = False
        self._transport: asyncio.Transport
        self._made = False
        self._reader = FrameReader(most=limits.CLUSTER_DIRECT_HELLO_BYTES)
        self._owes = False
        """Whether the other end has sent something, and has got nothing since then."""
        self._waits = False
        """Whether something was sent to the other end, and nothing has come from it since then."""
        self._silent_looks = 0
        """Looks at which this end has waited."""
        self.looks = 0
        """Looks since the handshake."""
        self.dropped = 0
        """Frames that did not fit."""

    @property
    def accepted(self) -> bool:
        """Whether the other end has connected to this one."""
        return isinstance(self._handshake, Acceptor)

    @property
    def address(self) -> str:
        """Address of the other end, for the log."""
        place = self._transport.get_extra_info("peername")
        return str(place[0]) if place else "an unknown address"

    # -- called by the owner ---------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting; it is dropped if too much waits already."""
        transport = self._transport
        if transport.is_closing() or transport.get_write_buffer_size() > limits.CLUSTER_DIRECT_BUFFER_BYTES:
            self.dropped += 1
            return
        self._waits = True
        self._owes = False
        transport.write(framed(frame))

    def look(self) -> None:
        """Show the other end that this one is there, and close the connection if nothing comes from there."""
        self.looks += 1
        if self._owes or self._reader.partial:  # a large frame may take longer than a lease to come
            self._owes = False
            self._transport.write(framed(ALIVE))
        if not self._waits:
            return
        self._silent_looks += 1
        # Looks are counted, and not seconds: if this node was frozen itself, that says nothing of others.
        if self._silent_looks > math.ceil(limits.CLUSTER_LEASE_S / limits.CLUSTER_DIRECT_LOOK_S):
            self.close(f"nothing has come for {limits.CLUSTER_LEASE_S:g} s")

    def farewell(self) -> None:
        """Send nothing more; the other end closes the connection when it has read everything."""
        self._transport.write(framed(FAREWELL))

    def close(self, why: str) -> None:
        """End the connection at once."""
        self._end(why)
        if self._made:
            self._transport.abort()

    # -- called by asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = transport  # type: ignore[assignment]  # a stream has no other
        self._made = True
        self._host.begun(self)
        if isinstance(self._handshake, Acceptor):
            self._transport.write(framed(self._handshake.challenge()))

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self._waits = False
        self._silent_looks = 0
        try:
            for frame in self._reader.feed(data):
                if not self.up:
                    self._shake(frame)
                elif len(frame) > 1:
                    self._owes = True
                    self._take(frame)
                elif frame == FAREWELL:
                    self.close("")
                if self._over:
                    return
        except ClusterError as error:
            self.close(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        why = "the connection was closed" if error is None else str(error) or type(error).__name__
        # A node that stops while it connects has not done anything wrong.
        self._end("" if self.accepted and not self.up else why)

    # --------------------------------------------------------------------------------------------------------

    def _shake(self, frame: bytes) -> None:
        """Take a frame of the handshake; ClusterError if it is wrong."""
        handshake = self._handshake
        if isinstance(handshake, Acceptor):
            self.peer, welcome = handshake.admit(frame)
            self._transport.write(framed(welcome))
        elif not self._hello_sent:
            self._hello_sent = True
            self._transport.write(framed(handshake.hello(frame)))
            return
        else:
            handshake.check(frame)
        self.up = True
        self.settled.set()
        self._reader.most = limits.CLUSTER_DIRECT_FRAME_BYTES
        self._host.established(self)

    def _take(self, frame: bytes) -> None:
        assert self.peer is not None
        try:
            self._host.carried(self.peer, frame)
        except Exception:
            log.exception("a bug: a frame of another node was not handled")

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._host.ended(self, why)
            self.up = False
            self.settled.set()
