"""The port for direct connections of other nodes: who connects has to prove soon that it is one.

Connections that say nothing, something else or a wrong proof are closed and counted, and their addresses are
named in the log, each now and then.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import NodeError, printable
from penstock.model.host import is_wildcard
from penstock.node.access.rate import RateLimits
from penstock.node.access.tls import TlsHandshakes
from penstock.node.access.unfinished import UnfinishedConnections
from penstock.node.cluster.direct.connection import DirectConnection
from penstock.node.cluster.direct.handshake import NONCE_BYTES, Acceptor
from penstock.node.config.cluster import Address, address_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.view import Sighting
    from penstock.node.cluster.direct.connection import ConnectionHost
    from penstock.node.config.cluster import ClusterSettings

log = logging.getLogger(__name__)

NAMED_AGAIN_US: Final = 300_000_000
"""An address that was refused is named in the log again after this time."""


def listen_address(settings: ClusterSettings) -> Address:
    """Where a node accepts direct connections: a free port of the host of `cluster.listen` unless told."""
    listen = address_of(settings.listen) or Address("tcp", "127.0.0.1", 0)
    return address_of(settings.direct) or listen._replace(port=0)


def tls_context(settings: ClusterSettings, purpose: ssl.Purpose) -> ssl.SSLContext:
    """TLS with the certificates of the cluster: both ends show one that the authority has signed.

    Names are not checked. An address that nodes tell each other need not be in a certificate; who is at the
    other end is known by the ticket. Whoever has a certificate may join the cluster as well.
    """
    made = ssl.create_default_context(purpose, cafile=settings.ca)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(settings.certificate, settings.key)
    return made


class DirectListener:
    """Accepts direct connections, and keeps those that are no node's apart until they are."""

    def __init__(
        self,
        settings: ClusterSettings,
        own: Sighting,
        host: ConnectionHost,
        *,
        key_for: Callable[[Sighting], bytes | None],
    ) -> None:
        self._settings = settings
        self._own = own
        self._host = host
        self._key_for = key_for
        self._server: asyncio.Server | None = None
        self._secure: TlsHandshakes | None = None
        self._unfinished = UnfinishedConnections[DirectConnection](
            most=limits.CLUSTER_DIRECT_UNFINISHED,
            wait_s=limits.CLUSTER_DIRECT_HELLO_S,
            close=lambda one: one.close(f"it has not said who it is for {limits.CLUSTER_DIRECT_HELLO_S:g} s"),
        )
        self._named = RateLimits(interval_us=NAMED_AGAIN_US, burst=1, keys=limits.CLUSTER_REFUSED)
        self.refused = 0
        """Connections that never became a node's."""
        self.told = ""
        """Address that other nodes are told; empty until the port is open."""

    async def open(self) -> None:
        """Listen; NodeError if the port or the certificates cannot be used."""
        address = listen_address(self._settings)
        made: Callable[[], asyncio.Protocol] = self._accept
        try:
            if address.protocol == "tls":
                self._secure = TlsHandshakes(
                    tls_context(self._settings, ssl.Purpose.CLIENT_AUTH),
                    handshake_s=limits.CLUSTER_DIRECT_HELLO_S,
                    connection=made,
                    failed=lambda place: self._refuse(place, "no TLS, or another certificate"),
                )
                made = self._secure.protocol
            self._server = await asyncio.get_running_loop().create_server(made, address.host, address.port)
        except (OSError, ValueError) as error:
            raise NodeError(f"cluster.direct {address}: {getattr(error, 'strerror', '') or error}") from None
        port = self._server.sockets[0].getsockname()[1]
        host = socket.gethostname() if is_wildcard(address.host) else address.host
        told = address_of(self._settings.direct_advertise) or Address(address.protocol, host, port)
        self.told = str(told._replace(protocol=address.protocol))

    def _accept(self) -> asyncio.Protocol:
        acceptor = Acceptor(self._own, self._key_for, nonce=secrets.token_bytes(NONCE_BYTES))
        return DirectConnection(self._host, acceptor, None)

    def begun(self, connection: DirectConnection) -> None:
        """A connection is made: it has a while to say whose it is."""
        self._unfinished.add(connection)

    def finished(self, connection: DirectConnection) -> None:
        """A connection is a node's from now on."""
        self._unfinished.remove(connection)

    def failed(self, connection: DirectConnection, why: str) -> None:
        """A connection has ended before it was a node's."""
        self._unfinished.remove(connection)
        if why:
            self._refuse(connection.address, why)

    def _refuse(self, place: str, why: str) -> None:
        self.refused += 1
        if self._named.take(place, now_us=time.monotonic_ns() // 1_000):
            log.warning(
                "cluster: a direct connection from %s was refused: %s", printable(place), printable(why)
            )

    async def close(self) -> None:
        """Listen no more, and end connections that are no node's."""
        if self._server is not None:
            self._server.close()
        if self._secure is not None:
            await self._secure.close()
        self._unfinished.close_all()
