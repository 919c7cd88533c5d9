"""A fabric that sends frames over direct connections where they stand, and over another fabric elsewhere.

The other fabric, Zenoh, says which nodes are there. A node gets a connection when it appears, and loses it
when it vanishes. Links put right what a change from one way to the other drops, repeats or reorders, so
nothing is arranged for it. A connection that fails is tried for again; until it stands frames go by Zenoh.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import ClusterError, printable
from penstock.node.broker.background import Background
from penstock.node.cluster.direct.attempts import Attempts
from penstock.node.cluster.direct.connection import DirectConnection
from penstock.node.cluster.direct.handshake import NONCE_BYTES, Connector, key_of, ticket_for
from penstock.node.cluster.direct.listener import DirectListener, listen_address, tls_context
from penstock.node.cluster.direct.offers import ARRANGES, Ask, Offer, decode, encode
from penstock.node.config.cluster import address_of

if TYPE_CHECKING:
    from penstock.core.cluster.view import Sighting
    from penstock.node.cluster.fabric import Fabric, FabricEvents
    from penstock.node.config.cluster import Address, ClusterSettings

log = logging.getLogger(__name__)


class DirectFabric:
    """Carries frames between nodes, past the fabric that it is given if it can."""

    def __init__(self, inner: Fabric, settings: ClusterSettings, own: Sighting) -> None:
        self._inner = inner
        self._settings = settings
        self._own = own
        self._events: FabricEvents
        self._secret = secrets.token_bytes(32)
        """All tickets of this incarnation are made of it."""
        self._dice = Random()  # noqa: S311  # spreads attempts
        self._peers: dict[Sighting, Attempts] = {}
        """Nodes that are there; of this node and another one the one with the smaller name makes attempts."""
        self._up: dict[Sighting, DirectConnection] = {}
        """Connections over which frames go."""
        self._leaving: dict[DirectConnection, None] = {}
        """Connections whose other end still reads what was sent."""
        self._connecting: dict[Sighting, asyncio.Task[None]] = {}
        self._said: dict[Sighting, str] = {}
        """Why there is no direct connection to a node, as it was last logged."""
        self._background = Background()
        self._tls: ssl.SSLContext | None = None
        """For connections that this node makes."""
        self._listener: DirectListener | None = None
        if settings.direct != "off":
            self._listener = DirectListener(settings, own, self, key_for=self._key_for)

    @property
    def address(self) -> str:
        """Address at which other nodes join."""
        return self._inner.address

    @property
    def refused(self) -> int:
        """Connections of others that never became a node, at both ports."""
        return self._inner.refused + (0 if self._listener is None else self._listener.refused)

    @property
    def problem(self) -> str:
        """Why this node is alone although it should not be."""
        return self._inner.problem

    def is_direct(self, to: Sighting) -> bool:
        """Whether frames to this node go over a direct connection."""
        return to in self._up

    async def open(self, events: FabricEvents) -> None:
        """Listen, join, and announce this node; NodeError if that cannot be."""
        self._events = events
        if self._listener is not None:
            await self._listener.open()
            if self._settings.ca:
                self._tls = tls_context(self._settings, ssl.Purpose.SERVER_AUTH)
            self._background.begin(self._look(), "direct connections that stand still are not closed")
        await self._inner.open(self)

    async def close(self) -> None:
        """Leave, when the others have read what was sent: then they are told at once."""
        for attempts in self._peers.values():
            attempts.stop()
        self._peers.clear()
        self._leaving, self._up = dict.fromkeys(self._up.values()), {}
        await self._background.close()
        for connection in self._leaving:
            connection.farewell()
        # Zenoh would tell them first that this node has gone, and they would read no further.
        until_s = asyncio.get_running_loop().time() + limits.CLUSTER_DIRECT_FAREWELL_S
        while self._leaving and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(0.002)
        await self._inner.close()
        for connection in list(self._leaving):
            connection.close("")
        if self._listener is not None:
            await self._listener.close()

    def send(self, to: Sighting, frame: bytes) -> None:
        """Send a frame without waiting; it may be lost."""
        connection = self._up.get(to)
        if connection is not None:
            connection.send(frame)
        else:
            self._inner.send(to, frame)

    def join(self, addresses: tuple[str, ...]) -> None:
        """Look for other nodes at these addresses from now on, while this one is alone."""
        self._inner.join(addresses)

    def forget(self, to: Sighting) -> None:
        """No more frames go to this node."""
        self._lose(to)
        self._inner.forget(to)

    # -- called by the other fabric --------------------------------------------------------------------------

    def appeared(self, seen: Sighting) -> None:
        """A node is there: try for a connection to it."""
        self._events.appeared(seen)
        own = self._own
        ours = (seen.cluster, seen.version) == (own.cluster, own.version) and seen.name != own.name
        new = seen not in self._peers and len(self._peers) < limits.CLUSTER_MEMBERS
        if self._listener is None or not ours or not new:
            return
        offer, ask = partial(self._offer, seen), partial(self._inner.send, seen, encode(Ask()))
        self._peers[seen] = attempts = Attempts(self._dice, offer=offer, ask=ask)
        if own.name < seen.name:
            attempts.begin()
        else:
            ask()  # the other node may have made its offer before this one knew it

    def vanished(self, seen: Sighting) -> None:
        """A node is not there any more."""
        self._lose(seen)
        self._events.vanished(seen)

    def received(self, sender: Sighting, frame: bytes) -> None:
        """A frame has come by Zenoh."""
        if frame[:1] != ARRANGES:
            self._events.received(sender, frame)
            return
        try:
            said = decode(frame)
        except ClusterError as error:
            log.warning("cluster: from node %s: %s", printable(sender.name), printable(str(error)))
            return
        if self._listener is None:
            if isinstance(said, Ask) or said.address:
                self._inner.send(sender, encode(Offer("")))
        elif sender in self._peers:
            if isinstance(said, Ask):
                self._offer(sender)
            else:
                self._offered(sender, said)

    # -- making connections ----------------------------------------------------------------------------------

    def _key_for(self, seen: Sighting) -> bytes | None:
        """The key with which another node connects; None if it is not there."""
        if seen not in self._peers:
            return None
        return key_of(ticket_for(self._secret, seen), self._settings.password)

    def _offer(self, to: Sighting) -> None:
        """Tell another node where it may connect to this one."""
        assert self._listener is not None
        self._inner.send(to, encode(Offer(self._listener.told, ticket_for(self._secret, to))))

    def _offered(self, to: Sighting, offer: Offer) -> None:
        """Another node says where this one may connect."""
        if not offer.address:
            self._peers[to].stop()
            self._say(to, "its cluster.direct is off")
        elif to not in self._up and to not in self._connecting:
            task = self._background.begin(self._connect(to, offer), "there is no direct connection to a node")
            self._connecting[to] = task
            task.add_done_callback(lambda _: self._connecting.pop(to, None))

    async def _connect(self, to: Sighting, offer: Offer) -> None:
        address = address_of(offer.address)
        secure = listen_address(self._settings).protocol == "tls"
        if address is None or (secure and address.protocol == "tcp"):
            self._say(to, f"{offer.address} is no address with TLS" if secure else "it tells no address")
            return
        key = key_of(offer.ticket, self._settings.password)
        handshake = Connector(self._own, to, key, nonce=secrets.token_bytes(NONCE_BYTES))
        connection = DirectConnection(self, handshake, to)
        try:
            async with asyncio.timeout(limits.CLUSTER_DIRECT_HELLO_S):
                await self._reach(connection, address)
                await connection.settled.wait()
        except (OSError, ClusterError) as error:  # a timeout is an OSError, too
            why = "it takes too long" if isinstance(error, TimeoutError) else str(error)
            self._say(to, f"{address}: {why}")
        finally:
            if not connection.up:
                connection.close("")

    async def _reach(self, connection: DirectConnection, address: Address) -> None:
        """Connect, with TLS if the other node wants it; OSError or ClusterError if that cannot be."""
        secure = address.protocol == "tls"
        if secure and self._tls is None:
            raise ClusterError("it has TLS, and this node has no certificates")
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            address.host,
            address.port,
            ssl=self._tls if secure else None,
            server_hostname=address.host if secure else None,
        )

    def _say(self, to: Sighting, why: str) -> None:
        """Log why there is no connection to a node, if it is another reason than before."""
        if to in self._peers and self._said.get(to) != why:
            self._said[to] = why
            log.info(
                "cluster: no direct connection to node %s, what is for it goes by Zenoh: %s",
                printable(to.name),
                printable(why),
            )

    # -- called by connections -------------------------------------------------------------------------------

    def begun(self, connection: DirectConnection) -> None:
        """A connection is made."""
        if connection.accepted and self._listener is not None:
            self._listener.begun(connection)

    def established(self, connection: DirectConnection) -> None:
        """A connection is a node's: frames go over it from now on."""
        peer = connection.peer
        assert peer is not None
        if connection.accepted and self._listener is not None:
            self._listener.finished(connection)
        if peer not in self._peers:  # it has vanished meanwhile
            connection.close("")
            return
        before = self._up.get(peer)
        self._up[peer] = connection
        self._peers[peer].stop()
        self._said.pop(peer, None)
        log.debug("cluster: direct connection to node %s", printable(peer.name))
        if before is not None:
            before.close("there is a newer one")

    def carried(self, sender: Sighting, frame: bytes) -> None:
        """A frame has come over a connection."""
        self._events.received(sender, frame)

    def ended(self, connection: DirectConnection, why: str) -> None:
        """A connection is gone."""
        self._leaving.pop(connection, None)
        peer = connection.peer
        if not connection.up or peer is None:
            if connection.accepted and self._listener is not None:
                self._listener.failed(connection, why)
            elif peer is not None and why:
                self._say(peer, why)
        elif self._up.get(peer) is connection:
            del self._up[peer]
            if why:
                self._say(peer, why)
            if self._own.name < peer.name:
                self._peers[peer].again(lasted_s=connection.looks * limits.CLUSTER_DIRECT_LOOK_S)

    def _lose(self, seen: Sighting) -> None:
        """A node is not there, or nothing goes to it any more: neither connection nor attempts."""
        attempts = self._peers.pop(seen, None)
        if attempts is not None:
            attempts.stop()
        task = self._connecting.get(seen)
        if task is not None:
            task.cancel()
        self._said.pop(seen, None)
        connection = self._up.pop(seen, None)
        if connection is not None:
            connection.close("")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(limits.CLUSTER_DIRECT_LOOK_S)
            for connection in list(self._up.values()):
                connection.look()
