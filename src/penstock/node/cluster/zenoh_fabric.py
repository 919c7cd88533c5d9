"""The fabric of a cluster made of Eclipse Zenoh: discovery, liveness, transport and TLS.

Keys: `penstock/alive/<version>/<cluster>/<node>/<incarnation>` is the liveliness token of a node, and
`penstock/link/<cluster>/<node>/<incarnation>/<from>/<incarnation>` carries the frames to it. Nodes find each
other through the addresses they join and through gossip; multicast is off.

Zenoh drops, without a word, what does not fit in its own queue, and would block the caller otherwise. Links
send less at once than that queue holds, and send again what was lost. Zenoh calls back from threads of its
own: what they bring is collected and handled in the event loop of the node.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.core.cluster.view import Sighting
from penstock.errors import MissingTool, NodeError, printable
from penstock.node.broker.background import Background
from penstock.node.cluster.refusals import Refusals
from penstock.node.config.cluster import PORT, Address, address_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import zenoh

    from penstock.node.cluster.fabric import FabricEvents
    from penstock.node.config.cluster import ClusterSettings

log = logging.getLogger(__name__)

USER: Final = "penstock"
"""User name with which nodes log in to each other; the password is the secret."""

QUEUE_BATCHES: Final = 16
"""Batches of 64 KB in Zenoh's queue for a link, the most it allows: four of our windows."""

INBOX_BYTES: Final = 64 << 20
"""Bytes of frames that wait for the event loop; an honest node never has more than its window there, so more
comes from one that floods, or from a node that was frozen. What is dropped here is sent again."""

SENDERS: Final = 1_000
"""Keys of other nodes that are remembered."""

PROBE_S: Final = 10.0
"""How often a node that is alone although it should not be looks why."""


def load_zenoh() -> Any:
    """Import Zenoh; MissingTool says how to install it."""
    try:
        import zenoh  # noqa: PLC0415  # only a node of a cluster needs it
    except ImportError:
        raise MissingTool("a cluster needs Eclipse Zenoh: pip install 'penstock[cluster]'") from None
    return zenoh


class ZenohFabric:
    """Carries frames between nodes with Zenoh."""

    def __init__(self, settings: ClusterSettings, own: Sighting) -> None:
        self._settings = settings
        self._own = own
        self._zenoh = load_zenoh()
        self._session: zenoh.Session | None = None
        self._listen = listen_address(settings)
        self._publishers: dict[Sighting, zenoh.Publisher] = {}
        self._declared: list[Any] = []
        self._events: FabricEvents | None = None
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...], int]] = deque()
        self._inbox_bytes = 0
        self._senders: dict[str, Sighting] = {}
        """Other nodes by the keys of their frames."""
        self._joined: tuple[str, ...] = ()
        """Addresses that Zenoh was told to join."""
        self._news = asyncio.Event()
        """Set when there are other addresses to join."""
        self._background = Background()
        self.refusals = Refusals(self._listen.port)
        self.problem = ""
        """Why this node is alone although it should not be."""

    @property
    def refused(self) -> int:
        """Connections of others that never became a node."""
        return self.refusals.refused

    @property
    def address(self) -> str:
        """Address at which other nodes join."""
        return str(self._listen)

    # -- joining and leaving ---------------------------------------------------------------------------------

    async def open(self, events: FabricEvents) -> None:
        """Listen, join, and announce this node; NodeError if that cannot be."""
        self._events = events
        await self._begin()
        self._background.begin(self.refusals.watch(), "connections that are refused are not told")
        self._background.begin(self._look_for_others(), "nobody looks why this node is alone")

    async def _begin(self) -> None:
        own = self._own
        self._joined = self._settings.join
        try:
            session = self._session = await asyncio.to_thread(self._open)
        except self._zenoh.ZError as error:
            raise NodeError(f"cluster.listen {self._listen}: {_short(str(error))}") from None
        watching = session.info.declare_link_events_listener(self.refusals.admitted, history=True)
        rivals: dict[str, None] = {}

        def look(sample: zenoh.Sample) -> None:
            key = str(sample.key_expr)
            if sample.kind == self._zenoh.SampleKind.PUT:
                rivals[key] = None
            else:
                rivals.pop(key, None)

        same = f"penstock/alive/*/{own.cluster}/{own.name}/*"
        watch = session.liveliness().declare_subscriber(same, look, history=True)
        try:
            await self._find_others(session, rivals)
        finally:
            watch.undeclare()  # type: ignore[no-untyped-call]
        self._declared = [
            watching,
            session.declare_subscriber(
                f"penstock/link/{own.cluster}/{own.name}/{own.incarnation}/*/*", self._on_frame
            ),
            session.liveliness().declare_subscriber("penstock/alive/**", self._on_alive, history=True),
            session.liveliness().declare_token(
                f"penstock/alive/{own.version}/{own.cluster}/{own.name}/{own.incarnation}"
            ),
        ]

    def join(self, addresses: tuple[str, ...]) -> None:
        """Look for other nodes at these addresses from now on, while this one is alone.

        Zenoh takes no further addresses while it runs, so it is opened again: a node that has others leaves
        them for nothing.
        """
        self._settings = msgspec.structs.replace(self._settings, join=addresses)
        self._news.set()

    def _open(self) -> zenoh.Session:
        config, secret = self._config()
        try:
            session: zenoh.Session = self._zenoh.open(self._zenoh.Config.from_json5(json.dumps(config)))
            return session
        finally:
            if secret is not None:
                secret.unlink(missing_ok=True)

    def _config(self) -> tuple[dict[str, Any], Path | None]:
        """The configuration of Zenoh, and the file with the password that it wants to read."""
        settings = self._settings
        config: dict[str, Any] = {
            "mode": "peer",
            "listen": {"endpoints": [str(self._listen)]},
            "connect": {"endpoints": [str(one) for one in self._seeds()], "exit_on_failure": False},
            "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": settings.gossip}},
            "transport": {
                "link": {
                    "tx": {
                        "lease": round(limits.CLUSTER_LEASE_S * 1_000),
                        "queue": {"size": {"data": QUEUE_BATCHES}},
                    }
                },
                "shared_memory": {"enabled": False},
            },
        }
        if settings.ca:
            config["transport"]["link"]["tls"] = {
                "root_ca_certificate": settings.ca,
                "listen_certificate": settings.certificate,
                "listen_private_key": settings.key,
                "connect_certificate": settings.certificate,
                "connect_private_key": settings.key,
                "enable_mtls": True,
            }
        secret = None
        if settings.password:
            handle, name = tempfile.mkstemp(prefix="penstock-cluster-")
            with os.fdopen(handle, "w") as file:
                file.write(f"{USER}:{settings.password}\n")
            secret = Path(name)
            config["transport"]["auth"] = {
                "usrpwd": {"user": USER, "password": settings.password, "dictionary_file": name}
            }
        return config, secret

    def _seeds(self) -> list[Address]:
        found = [address_of(text) for text in self._settings.join]
        return [one for one in found if one is not None and one != self._listen]

    async def _find_others(self, session: zenoh.Session, rivals: dict[str, None]) -> None:
        """Wait a while for other nodes; NodeError if one of them has this node's name and keeps it."""
        until_s = self._loop.time() + limits.CLUSTER_JOIN_S
        seeds = self._seeds()
        while seeds and not session.info.peers_zid() and self._loop.time() < until_s:
            await asyncio.sleep(0.02)
        if seeds and not session.info.peers_zid():
            await self._probe(seeds)
        elif seeds:
            await asyncio.sleep(0.2)  # those who are joined tell of the others
        # This node may have been killed or frozen, and its former self is noticed within its lease.
        until_s = self._loop.time() + limits.CLUSTER_JOIN_S
        while rivals and self._loop.time() < until_s:
            await asyncio.sleep(0.05)
        if rivals:
            own = self._own
            raise NodeError(
                f"cluster.node: cluster {own.cluster!r} has a node named {own.name!r} already; "
                "each node needs a name of its own"
            )

    async def _probe(self, seeds: list[Address]) -> None:
        """Find out why no node can be joined, and say so."""
        found = []
        for seed in seeds:
            try:
                async with asyncio.timeout(2):
                    _, writer = await asyncio.open_connection(seed.host, seed.port)
                writer.transport.abort()
                why = "answers, but does not let this node in: the passwords or certificates differ"
            except TimeoutError:
                why = "does not answer"
            except OSError as error:
                why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
            found.append(f"{seed} {why}")
        problem = "no node can be joined: " + "; ".join(found)
        if problem != self.problem:
            log.warning("cluster: %s; trying on", printable(problem))
        self.problem = problem

    async def _look_for_others(self) -> None:
        """Look from time to time whether a node that should not be alone is."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), PROBE_S if not self.problem else 1)
            self._news.clear()
            session = self._session
            if session is not None and session.info.peers_zid():
                if self.problem:
                    log.info("cluster: joined")
                self.problem = ""
            elif session is None or self._joined != self._settings.join:
                await self._open_again()
            elif self._seeds() and not self.problem:
                await self._probe(self._seeds())

    async def _open_again(self) -> None:
        """Join by other addresses than before: nobody is left alone for that."""
        await self._end()
        self.problem = ""
        try:
            await self._begin()
        except NodeError as error:
            self.problem = str(error)
            log.error("cluster: %s", printable(self.problem))  # noqa: TRY400  # it says what and where

    async def close(self) -> None:
        """Leave: the others are told at once."""
        await self._background.close()
        await self._end()

    async def _end(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        self._publishers.clear()
        self._declared.clear()
        with suppress(self._zenoh.ZError):
            await asyncio.to_thread(session.close)

    # -- frames ----------------------------------------------------------------------------------------------

    def send(self, to: Sighting, frame: bytes) -> None:
        """Send a frame without waiting; it may be lost."""
        if self._session is None:
            return
        publisher = self._publishers.get(to)
        if publisher is None:
            own = self._own
            publisher = self._publishers[to] = self._session.declare_publisher(
                f"penstock/link/{own.cluster}/{to.name}/{to.incarnation}/{own.name}/{own.incarnation}",
                congestion_control=self._zenoh.CongestionControl.DROP,
                reliability=self._zenoh.Reliability.RELIABLE,
            )
        try:
            publisher.put(frame)
        except self._zenoh.ZError as error:
            log.debug("cluster: a frame to %s was not sent: %s", to.name, error)

    def forget(self, to: Sighting) -> None:
        """No more frames go to this node."""
        publisher = self._publishers.pop(to, None)
        if publisher is not None and self._session is not None:
            with suppress(self._zenoh.ZError):
                publisher.undeclare()  # type: ignore[no-untyped-call]

    def is_direct(self, to: Sighting) -> bool:  # noqa: ARG002
        """Never: all frames go through Zenoh."""
        return False

    # -- called by threads of Zenoh --------------------------------------------------------------------------

    def _on_frame(self, sample: zenoh.Sample) -> None:
        key = str(sample.key_expr)
        sender = self._senders.get(key)
        if sender is None and (sender := _sender(key, self._own)) is not None:
            if len(self._senders) >= SENDERS:
                self._senders.clear()
            self._senders[key] = sender
        frame = sample.payload.to_bytes()
        assert self._events is not None
        if sender is not None and self._inbox_bytes < INBOX_BYTES:
            self._later(self._events.received, (sender, frame), len(frame))

    def _on_alive(self, sample: zenoh.Sample) -> None:
        seen = sighting_of(str(sample.key_expr))
        if seen is None:
            return
        assert self._events is not None
        here = sample.kind == self._zenoh.SampleKind.PUT
        self._later(self._events.appeared if here else self._events.vanished, (seen,), 0)

    def _later(self, call: Callable[..., None], arguments: tuple[Any, ...], size: int) -> None:
        """Have the event loop make a call. Appending to a deque and counting are safe between threads: a
        count that is off by a frame only shifts the bound by one."""
        first = not self._inbox
        self._inbox.append((call, arguments, size))
        self._inbox_bytes += size
        if first:
            with suppress(RuntimeError):  # the loop is closed: the node has stopped
                self._loop.call_soon_threadsafe(self._handle)

    def _handle(self) -> None:
        inbox = self._inbox
        while inbox:
            call, arguments, size = inbox.popleft()
            self._inbox_bytes -= size
            try:
                call(*arguments)
            except Exception:
                log.exception("a bug: a frame of another node was not handled")


def sighting_of(key: str) -> Sighting | None:
    """The node that a liveliness token announces; None if it is none of ours."""
    parts = key.split("/")
    if len(parts) != 6 or parts[:2] != ["penstock", "alive"] or not (parts[2] + parts[5]).isdecimal():
        return None
    return Sighting(parts[3], parts[4], int(parts[5]), int(parts[2]))


def _sender(key: str, own: Sighting) -> Sighting | None:
    parts = key.split("/")
    if len(parts) != 7 or not parts[6].isdecimal():
        return None
    return Sighting(own.cluster, parts[5], int(parts[6]), own.version)


def listen_address(settings: ClusterSettings) -> Address:
    """Where a node listens for others; a free port is chosen where none is given."""
    given = address_of(settings.listen) if settings.listen else None
    address = Address("tcp", "127.0.0.1", PORT) if given is None else given
    if given is None and settings.join and not _is_free(address):
        address = address._replace(port=0)
    if address.port:
        return address
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as sock:
        try:
            sock.bind((address.host, 0))
        except OSError as error:
            raise NodeError(f"cluster.listen {address}: {error.strerror}") from None
        return address._replace(port=sock.getsockname()[1])


def _is_free(address: Address) -> bool:
    with socket.socket(socket.AF_INET) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address.host, address.port))
        except OSError:
            return False
    return True


def _short(problem: str) -> str:
    """Zenoh's complaint in one line, without the places in its source."""
    if "Address already in use" in problem:
        return "the address is already in use"
    return problem.partition(" at /")[0]
