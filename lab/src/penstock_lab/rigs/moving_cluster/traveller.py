"""A client of a simulated cluster: it keeps its session, moves from node to node, and checks what it gets.

It is connected without sockets: a `Wire` is the transport that a node's connection writes to.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from penstock.model.digest_wire import from_message
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connack, Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.mqtt.packets.packet import Packet
    from penstock.node.broker.broker import Broker


class Site(Protocol):
    """A node as its clients see it."""

    name: str
    broker: Broker
    alive: bool

    def do(self, what: Callable[[], object]) -> None:
        """Have something happen at the node, or between it and a client, when it is not frozen."""
        ...


class Wire(asyncio.Transport):
    """A connection between a client and a node, in memory; bytes take one turn of the event loop."""

    def __init__(self, site: Site, got: Callable[[Wire, Packet], None], lost: Callable[[Wire], None]) -> None:
        super().__init__()
        self.site = site
        self._got = got
        self._lost = lost
        self._framer = Framer()
        self._closing = False
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._paused: list[bytes] | None = None
        self.connection = site.broker.protocol(site.broker.config.listeners[0])
        self.connection.connection_made(self)

    # -- the client's end ------------------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        """The client sends a packet."""
        data = encode(packet, V5)
        self._loop.call_soon(self.site.do, lambda: self._arrived(data))

    def hang_up(self) -> None:
        """The client closes the connection; it reads what the node writes before it hears of that."""
        self._lost = lambda _: None
        self.site.do(self._end)

    def killed(self) -> None:
        """The node is gone."""
        self._closing = self._ended = True
        self._lost(self)

    def _end(self) -> None:
        if not self._closing:
            self.connection.eof_received()
            self.close()

    def _arrived(self, data: bytes) -> None:
        if self._closing:
            return
        if self._paused is not None:
            self._paused.append(data)
        else:
            self.connection.data_received(data)

    # -- the node's end --------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """The node writes."""
        if not self._ended:
            self.site.do(lambda: self._loop.call_soon(self._read, bytes(data)))

    def _read(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._got(self, decode(frame, V5))

    def is_closing(self) -> bool:
        """Whether it is closed: not before the client has read what was written to it."""
        return self._ended

    def close(self) -> None:
        """Close it from the node's end."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._closed)

    def abort(self) -> None:
        """Close it, from either end."""
        self.close()

    def _closed(self) -> None:
        self._ended = True
        self.connection.connection_lost(None)
        self.site.do(lambda: self._lost(self))

    def pause_reading(self) -> None:
        """The node does not read for a while."""
        self._paused = []

    def resume_reading(self) -> None:
        """The node reads again."""
        waiting, self._paused = self._paused or [], None
        for data in waiting:
            self._arrived(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits here."""
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """There is no socket; clients are from this machine."""
        return ("127.0.0.1", 1) if name == "peername" else default


class Traveller:
    """A client with one subscription and a kept session."""

    def __init__(
        self,
        name: str,
        qos: int,
        watch: Callable[[Traveller, bytes, bool], None],
        anew: Callable[[Traveller], None],
    ) -> None:
        """`watch` is told each message, and whether the client has it already; `anew` that a node knows
        nothing of a session the client had."""
        self.name = name
        self.qos = qos
        self._watch = watch
        self._anew = anew
        self.wire: Wire | None = None
        self._next: Wire | None = None
        """A connection whose CONNECT is not answered."""
        self.got: dict[bytes, None] = {}
        self.digested = 0
        self.subscribed = False
        self._received: dict[int, None] = {}
        """QoS 2 messages that the node has not released."""

    @property
    def at(self) -> Site | None:
        """The node that it is connected to."""
        return None if self.wire is None else self.wire.site

    @property
    def idle(self) -> bool:
        """Whether it is neither connected nor about to be."""
        return self.wire is None and self._next is None

    def go(self, site: Site) -> None:
        """Connect to a node; the connection before is closed when this one is there, if not by its node."""
        if self._next is not None:
            self._next.hang_up()
        wire = self._next = Wire(site, self._take, self._gone)
        wire.send(
            Connect(
                client_id=self.name,
                clean_start=False,
                keep_alive_s=0,
                properties=Properties(session_expiry_s=100_000, receive_maximum=5),
            )
        )

    def leave(self) -> None:
        """Close the connection without a word."""
        if self.wire is not None:
            wire, self.wire = self.wire, None
            wire.hang_up()

    def _gone(self, wire: Wire) -> None:
        if self.wire is wire:
            self.wire = None
        if self._next is wire:
            self._next = None

    def _take(self, wire: Wire, packet: Packet) -> None:
        """Take a packet; what a node wrote before its client left is read, and not answered any more."""
        match packet:
            case Connack() if wire is self._next and packet.reason == 0:
                if self.wire is not None:
                    self.wire.hang_up()
                self.wire, self._next = wire, None
                if not packet.session_present:
                    if self.subscribed:
                        self._anew(self)
                    self._received.clear()
                    self.subscribed = False
                if not self.subscribed:
                    wire.send(Subscribe(1, (Subscription(f"{self.name}/#", self.qos),), NONE))
            case Suback() if wire is self.wire:
                self.subscribed = True
            case Publish():
                self._message(wire, packet)
            case Pubrel():
                self._received.pop(packet.packet_id, None)
                self._answer(wire, Pubcomp(packet.packet_id))
            case _:
                pass

    def _message(self, wire: Wire, packet: Publish) -> None:
        if packet.qos:
            self._answer(wire, (Pubrec if packet.qos == 2 else Puback)(packet.packet_id))
        if packet.qos == 2:
            if packet.packet_id in self._received:
                return
            self._received[packet.packet_id] = None
        if any(name == "penstock-digest" for name, _ in packet.properties.user):
            self.digested += from_message(packet.payload)[0].count
            return
        again = packet.payload in self.got
        if again and packet.qos == 1 and packet.dup:
            return  # what was sent with QoS 1 and not acknowledged is sent again
        self._watch(self, packet.payload, again)
        self.got[packet.payload] = None

    def _answer(self, wire: Wire, packet: Packet) -> None:
        if wire is self.wire and self._next is None:
            wire.send(packet)
