"""One MQTT connection: reads bytes and hands them on, as thin as it can be; `output` writes.

The first packet must be a CONNECT. Bytes behind it wait until the broker has decided about it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Final, Protocol

from penstock.errors import MqttError, UnsupportedVersion
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.sessions.server import ServerConnection, ServerState
from penstock.node.broker import requests
from penstock.node.broker.answers import Owed
from penstock.node.broker.host import Host
from penstock.node.broker.output import Output
from penstock.node.broker.publishing import PUBACK_START
from penstock.node.broker.runs import Inbox, acknowledged, scan

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.packet import Packet
    from penstock.node.broker.link import Link
    from penstock.node.broker.output import Flusher
    from penstock.node.broker.publishing import Publisher
    from penstock.node.broker.session import Session
    from penstock.node.config.schema import Listener


log = logging.getLogger(__name__)


IDLE_US: Final = 300
"""After so long without a write, a message that comes alone does not wait for others: under load there always
are some, and without it a message takes a third longer than Python's part of it needs."""

NO_REFUSAL: Final = (
    Reason.SESSION_TAKEN_OVER,
    Reason.SERVER_SHUTTING_DOWN,
    Reason.ADMINISTRATIVE_ACTION,
    Reason.USE_ANOTHER_SERVER,
)
"""Reasons for the end of a connection that are not counted as refusals."""


class ConnectionHost(Host, Protocol):
    """The broker as its connections see it."""

    flusher: Flusher

    def opened(self, connection: Connection) -> None:
        """Watch a connection whose client is to say CONNECT."""
        ...

    def watch(self, connection: Connection) -> None:
        """Look at a connection when its deadline comes, which has changed."""
        ...

    def admit_at_once(self, connection: Connection, connect: Connect) -> bool:
        """Decide about a CONNECT; False: that takes a while, call `admit`. MqttError if it is refused."""
        ...

    async def admit(self, connection: Connection, connect: Connect) -> None:
        """Decide about a CONNECT; MqttError with the reason if it is refused."""
        ...

    def lost(self, session: Session, link: Link) -> None:
        """Detach a session from a connection that has ended."""
        ...

    def closed(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        ...


class Connection(asyncio.Protocol):
    """Carries a session, once its CONNECT was accepted."""

    __slots__ = (
        "__weakref__",
        "_admitted",
        "_deciding",
        "_early",
        "_inbox",
        "_not_reading",
        "address",
        "broker",
        "heard_us",
        "listener",
        "output",
        "owed",
        "publisher",
        "rules",
        "session",
        "transport",
        "why",
    )

    def __init__(self, broker: ConnectionHost, listener: Listener) -> None:
        self.broker = broker
        self.listener = listener
        self.transport: asyncio.Transport | None = None
        self.address = ""
        self.output = Output(broker, self)
        self.session: Session | None = None
        self.publisher: Publisher | None = None
        self.rules = ServerConnection(broker.terms, now_us=broker.clock())
        self._inbox = Inbox(max_bytes=broker.terms.maximum_packet_bytes)
        self.heard_us = broker.now_us
        """When something came for the last time; the rules are told when they are asked."""
        self._early: bytearray | None = None
        """Bytes before the CONNECT was complete, then bytes behind it until the CONNECT is decided about."""
        self._admitted = False
        self.owed = Owed()
        """Messages of this connection for reliable streams that are not acknowledged yet."""
        self._not_reading = 0
        """Number of holds on reading."""
        self._deciding: asyncio.Task[None] | None = None
        self.why = ""
        """Why the connection ended, for the log."""

    @property
    def maximum_packet_bytes(self) -> int:
        """Largest packet the client takes."""
        return self.rules.maximum_packet_bytes

    # -- the transport speaks --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected; refuse it if its address has too many connections."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = self.output.transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        # Interned: many clients come from the same address, behind a router or a proxy.
        self.address = sys.intern(str(peer[0])) if isinstance(peer, tuple) and peer else "unix"
        if not self.broker.gate.admit_address(self.address):
            self.broker.count_refused("address limit")
            self.broker.client_log.turned_away(
                address=self.address,
                why="too many; see bounds.connections, .connections_per_address and .connects_per_s",
            )
            transport.abort()  # type: ignore[attr-defined]
            return
        self._admitted = True
        # Not 0: TLS transports pause at that many bytes, others beyond them, and 0 are always there.
        transport.set_write_buffer_limits(high=1)  # type: ignore[attr-defined]
        self.broker.opened(self)

    def data_received(self, chunk: bytes) -> None:
        """Handle bytes from the client."""
        broker = self.broker
        now_us = broker.now_us = self.heard_us = broker.clock()
        broker.bytes_received += len(chunk)
        publisher = self.publisher
        if (
            now_us - broker.flushed_us > IDLE_US
            and publisher is not None
            and not self._inbox.kept
            and publisher.lone(chunk, now_us)
        ):
            broker.flushed_us = now_us
            return
        flusher = broker.flusher
        flusher.reading = True
        try:
            if self.rules.state is ServerState.CONNECTED:
                self._read(chunk, now_us)
            elif self.rules.state is ServerState.WAITING:
                self._read_first(chunk, now_us)
            elif self.rules.state is ServerState.DECIDING:
                self._keep(chunk)
        except MqttError as error:
            self.end(error)
        finally:
            flusher.done()

    def _read(self, chunk: bytes, now_us: Instant) -> None:
        publisher, session = self.publisher, self.session
        assert publisher is not None
        assert session is not None
        publisher.begin(now_us)
        inbox = self._inbox
        whole = inbox.joined(chunk)
        if whole is not None:
            if whole[:2] == PUBACK_START:
                packet_ids = acknowledged(whole)
                session.acks.acknowledged_many(packet_ids)
                whole = whole[4 * len(packet_ids) :]
            at = scan(
                whole,
                version=session.delivery.version,
                most=inbox.max_bytes,
                routes=publisher.routes,
                miss=publisher.miss,
                handed=publisher.run,
            )
            chunk = whole[at:] if at else whole
        if chunk:
            self._frames(inbox.feed(chunk), publisher, session)
            if inbox.fault is not None and self.rules.state is ServerState.CONNECTED:
                raise inbox.fault
        delivery = session.delivery
        sources = delivery.sources
        behind = delivery.waiting or not delivery.keeping_up
        if (behind or (sources and any(one.behind for one in sources))) and self.session is session:
            session.drain(now_us=now_us)
        pause_s = publisher.pause_s()
        if pause_s > 0:
            self.hold_reading()
            asyncio.get_running_loop().call_later(pause_s, self.release_reading)

    def _frames(self, frames: list[bytes], publisher: Publisher, session: Session) -> None:
        for frame in frames:
            first = frame[0]
            if first >> 4 == 3:
                publisher.frame(frame)
            elif first == 0x40 and len(frame) == 4 and (frame[2] or frame[3]):
                session.acks.acknowledged(frame[2] << 8 | frame[3])
            else:
                requests.handle(self, session, self.rules.receive(frame))
                if self.rules.state is not ServerState.CONNECTED:
                    return

    def _read_first(self, chunk: bytes, now_us: Instant) -> None:
        """Read the CONNECT, which must come first; the rest waits until the CONNECT is decided about."""
        frames = self._inbox.feed(chunk)
        if not frames:
            self._keep(chunk)
            if self._inbox.fault is not None:
                raise self._inbox.fault
            return
        if self._early is not None:
            chunk, self._early = bytes(self._early) + chunk, None
        packet = self.rules.receive(frames[0])
        assert isinstance(packet, Connect)
        self._inbox = Inbox(max_bytes=self._inbox.max_bytes)
        rest = chunk[len(frames[0]) :]
        try:
            decided = self.broker.admit_at_once(self, packet)
        except MqttError:
            raise
        except Exception:
            self._failed()
            return
        if not decided:
            self._keep(rest)
            self.hold_reading()
            self._deciding = asyncio.ensure_future(self._decide(packet))
        elif rest and self.rules.state is ServerState.CONNECTED:
            self._read(rest, now_us)

    def _keep(self, chunk: bytes) -> None:
        if self._early is None:
            self._early = bytearray()
        self._early += chunk

    async def _decide(self, packet: Connect) -> None:
        try:
            await self.broker.admit(self, packet)
        except MqttError as error:
            self.end(error)
            return
        except Exception:
            self._failed()
            return
        finally:
            self._deciding = None
        early, self._early = self._early, None
        self.release_reading()
        if early:
            self.broker.bytes_received -= len(early)  # they were counted when they came
            self.data_received(bytes(early))

    def _failed(self) -> None:
        """Say that deciding about a CONNECT failed: a fault of ours must not leave the client hanging."""
        log.exception("deciding about a CONNECT failed")
        self.end(MqttError("internal error", where="CONNECT", reason=Reason.UNSPECIFIED))

    def eof_received(self) -> bool:
        """The client has left: it may still read what was written to it, and the rest waits."""
        if self.session is not None:
            self.why = self.why or "closed without a DISCONNECT"
            self.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by either side."""
        if not self.why:
            self.why = f"connection lost: {exc}" if exc is not None else "closed without a DISCONNECT"
        if self._deciding is not None:
            self._deciding.cancel()
        self.rules.close()
        self.transport = None
        self.output.close()
        if self._admitted:
            self._admitted = False
            self.broker.gate.released(self.address)
            self.broker.closed(self)
        # What only a living connection needs would else wait for the collection of cycles.
        self.publisher = self.session = self._deciding = None
        self._early = None
        self._inbox.clear()

    # -- writing ---------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The transport holds something: the client is behind."""
        self.output.pause()

    def resume_writing(self) -> None:
        """The transport is empty again."""
        self.output.resume()

    def send(self, packet: Packet) -> None:
        """Send a packet, without reason strings if the client wants none or the packet would be too large.

        If it is too large all the same, end the connection: the client would wait for this answer for ever.
        """
        frame = self.rules.fit(packet)
        if frame is not None:
            self.output.write(frame)
        else:
            self.end(
                MqttError(
                    f"an answer is larger than the {self.maximum_packet_bytes} bytes that the client takes",
                    where=type(packet).__name__.upper(),
                    reason=Reason.PACKET_TOO_LARGE,
                )
            )

    # -- reading or not --------------------------------------------------------------------------------------

    def hold_reading(self) -> None:
        """Stop reading until `release_reading`; holds are counted."""
        self._not_reading += 1
        if self._not_reading == 1 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    @property
    def reading(self) -> bool:
        """Whether bytes of the client are read: no hold on reading is in force."""
        return not self._not_reading

    def release_reading(self) -> None:
        """Release one hold on reading; resume when none is left."""
        self._not_reading -= 1
        if not self._not_reading and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    # -- the end ---------------------------------------------------------------------------------------------

    def timer(self) -> Instant | None:
        """When the client is overdue."""
        self.rules.heard(now_us=self.heard_us)
        return self.rules.timer()

    def end(self, error: MqttError) -> None:
        """Say why, and close."""
        self.why = self.why or str(error)
        if error.reason not in NO_REFUSAL:
            self.broker.count_refused(_short(error))
            if self.session is None:
                self.broker.client_log.turned_away(address=self.address, why=self.why)
        if self.rules.state is not ServerState.CLOSED:
            words = self.rules.farewell(error)
            if words:
                self.output.write(words)
        self.close()

    def close(self) -> None:
        """Close when what was written is out; a client that takes nothing is cut off."""
        self.rules.close()
        self.output.flush()
        self.publisher = None
        session, self.session = self.session, None
        if session is not None:  # from now on its messages wait
            self.broker.lost(session, self)
        transport = self.transport
        if transport is None:
            return
        if self.output.paused:
            transport.abort()
        else:
            transport.close()


def _short(error: MqttError) -> str:
    """The short reason under which a refusal is counted."""
    if isinstance(error, UnsupportedVersion):
        return "unsupported version"
    try:
        return Reason(error.reason).name.lower().replace("_", " ")
    except ValueError:
        return "unspecified"
