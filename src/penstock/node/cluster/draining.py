"""A node that sends its clients away: it takes no new ones, and the present ones go in small steps.

A client of MQTT 5 is told *Use another server*, with the address of the least loaded node for its kind of
connection, of this node's zone if there is one. A client of MQTT 3.1.1 is only disconnected. While no other
node is there, clients are let in and stay: an outage helps nobody.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Annotated, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from penstock import limits
from penstock.errors import ClusterError, UseAnotherServer, counted, printable
from penstock.model.host import is_loopback, is_wildcard
from penstock.node.config.cluster import address_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.core.cluster.view import Member, Sighting
    from penstock.node.broker.background import Background
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.connection import Connection
    from penstock.node.broker.session import Session
    from penstock.node.cluster.asking import Questions
    from penstock.node.cluster.peer import ClusterPeer
    from penstock.node.config.cluster import ClusterSettings
    from penstock.node.config.schema import Listener

log = logging.getLogger(__name__)

WAIT_US: Final = 10_000_000
"""How long another node may take to answer an order."""

encode = msgspec.msgpack.encode

STEP_S: Final = 0.1
"""Clients are sent away in steps of this length, some in each."""

SENT_AWAY: Final = "this node sends its clients to other nodes"


class DrainOrder(msgspec.Struct, frozen=True, array_like=True):
    """Tells a node to send its clients away, or to stop doing so."""

    undo: bool = False
    rate: Annotated[int, msgspec.Meta(ge=1, le=limits.CLUSTER_DRAIN_MOST)] = limits.CLUSTER_DRAIN_RATE
    """Clients per second."""
    leave: bool = False
    """Whether the node then leaves the cluster and stops."""


class DrainHost(Protocol):
    """The cluster, as draining sees it."""

    own: Sighting
    questions: Questions

    def say(self) -> None:
        """Tell all other nodes about this one."""
        ...

    def peer(self, name: str) -> ClusterPeer | None:
        """Another node, by its name."""
        ...


class Draining:
    """Sends the clients of this node away while it is told to."""

    def __init__(
        self,
        broker: Broker,
        background: Background,
        host: DrainHost,
        *,
        members: Mapping[str, Member],
        zone: str,
        left: Callable[[], None],
    ) -> None:
        """`members` are the other nodes; `left` is called when a node that leaves has no clients any more."""
        self._broker = broker
        self._background = background
        self._host = host
        self._members = members
        self.zone = zone
        self._left = left
        self._order: DrainOrder | None = None
        self._referred: dict[str, tuple[object, int]] = {}
        """Clients referred to a node since it last told its load, with what it told."""
        self.sent_away = 0
        """Clients that were sent away since the order came."""
        host.questions.handlers["drain"] = self._asked

    @property
    def on(self) -> bool:
        """Whether this node sends its clients away."""
        return self._order is not None

    @property
    def leaving(self) -> bool:
        """Whether this node leaves the cluster when its clients have gone."""
        return self._order is not None and self._order.leave

    async def ask(self, node: str, order: DrainOrder) -> tuple[str, int]:
        """Give an order to a node of the cluster; returns its name and its clients.

        ClusterError if there is no such node, or it cannot obey.
        """
        own = self._host.own.name
        if node in ("", own):
            self.obey(order)
            return own, self._load()
        peer = self._host.peer(node)
        if peer is None:
            known = ", ".join(sorted((own, *self._members)))
            raise ClusterError(f"there is no node named {node!r} in this cluster; there are: {known}")
        body = await self._host.questions.ask(peer, "drain", encode(order), wait_us=WAIT_US)
        try:
            return node, msgspec.msgpack.decode(body, type=int)
        except msgspec.DecodeError as error:
            raise ClusterError(
                f"node {printable(node)} gave an answer that cannot be read: {error}"
            ) from None

    def _asked(self, peer: ClusterPeer, body: bytes) -> bytes:
        """Another node passes an order on."""
        try:
            order = msgspec.msgpack.decode(body, type=DrainOrder)
        except msgspec.DecodeError as error:
            raise ClusterError(f"an order to drain that cannot be read: {error}") from None
        log.info("cluster: told by way of node %s", printable(peer.seen.name))
        self.obey(order)
        return encode(self._load())

    def _load(self) -> int:
        return sum(1 for _ in self._attached())

    def obey(self, order: DrainOrder) -> None:
        """Take an order; ClusterError if there is nowhere to send clients to."""
        if order.undo:
            if self.on:
                log.info("cluster: this node takes clients again")
            self._order, self._broker.turn_away = None, None
            self._host.say()
            return
        if not order.leave and not any(True for _ in self._others()):
            raise ClusterError("there is no other node to send its clients to")
        begun, self._order = self.on, order
        self._broker.turn_away = self._turn_away
        if not begun:
            self.sent_away = 0
            log.info("cluster: %s, %s a second", SENT_AWAY, counted(order.rate, "client"))
            self._background.begin(self._drain(), "clients are not sent away")
        self._host.say()

    async def _drain(self) -> None:
        """Send clients away, step by step, as long as the order stands."""
        due = 0.0
        while (order := self._order) is not None:
            attached = list(self._attached())
            due = min(due + order.rate * STEP_S, float(max(1, order.rate)))
            if any(True for _ in self._others()):
                for session in attached[: int(due)]:
                    self._send_away(session)
                    due -= 1
                if attached:
                    self._host.say()
            if order.leave and not (attached and any(True for _ in self._others())):
                self._left()
                return
            await asyncio.sleep(STEP_S)

    def _attached(self) -> Iterator[Session]:
        return (session for session in self._broker.sessions if session.link is not None)

    def _send_away(self, session: Session) -> None:
        link = session.link
        if link is None:
            return
        if session.will is not None and not session.will.properties.will_delay_s:
            session.will = None  # it is the node that goes, not the client
        self.sent_away += 1
        link.end(UseAnotherServer(SENT_AWAY, where="node", reference=self._reference(link.listener.scheme)))

    def _turn_away(self, connection: Connection) -> UseAnotherServer | None:
        """The answer to a CONNECT; None: the client is let in."""
        if not any(True for _ in self._others()):
            return None
        return UseAnotherServer(
            SENT_AWAY, where="CONNECT", reference=self._reference(connection.listener.scheme)
        )

    def _others(self) -> Iterator[Member]:
        """Nodes that take clients."""
        for member in self._members.values():
            if not member.away and member.about is not None and not member.about.draining:
                yield member

    def _reference(self, scheme: str) -> str:
        """Host and port of the node that a client should go to; empty if none has such a listener.

        What a node told of its load is some seconds old, so clients that were sent there since are added.
        """
        best: tuple[bool, int, str] | None = None
        for member in self._others():
            about = member.about
            assert about is not None
            place = place_of(about.clients, scheme)
            told, referred = self._referred.get(member.name, (about, 0))
            load = about.load + (referred if told is about else 0)
            if place and (best is None or (about.zone != self.zone, load, member.name) < best):
                best = (about.zone != self.zone, load, member.name)
                found, chosen = place, member
        if best is None:
            return ""
        told, referred = self._referred.get(chosen.name, (chosen.about, 0))
        self._referred[chosen.name] = (chosen.about, 1 + (referred if told is chosen.about else 0))
        return found


def reached_at(listeners: Iterable[Listener], settings: ClusterSettings) -> tuple[str, ...]:
    """Addresses at which clients reach a node, as other nodes tell them.

    A listener on all addresses has none of its own: it is at that of `cluster.listen`, or at the machine's
    name.
    """
    if settings.advertise:
        return settings.advertise
    listen = address_of(settings.listen)
    known = listen is not None and not is_wildcard(listen.host) and not is_loopback(listen.host)
    own = listen.host if listen is not None and known else socket.gethostname()
    return tuple(
        (msgspec.structs.replace(one, host=own) if is_wildcard(one.host) else one).url for one in listeners
    )


def place_of(addresses: Iterable[str], scheme: str) -> str:
    """Host and port of the first address with a scheme that leads to one machine; empty if there is none.

    That is the form of a server reference that MQTT 5 recommends.
    """
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme == scheme and parts.hostname and not is_wildcard(parts.hostname):
            return parts.netloc
    return ""
