"""The client's side: a session that outlives connections, and one connection with keep alive.

`ClientSession` holds messages in flight in both directions and requests without an answer. `ClientConnection`
knows which packet may come when, and what the server granted. Both return packets; the owner sends them, in
order.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from penstock import limits
from penstock.errors import MqttError, PacketTooLarge, ProtocolError
from penstock.mqtt.codes import FROM_SERVER, V4, V5, Kind, Reason, explained
from penstock.mqtt.fields import MOST_VARINT as LONGEST
from penstock.mqtt.packets.connect import PINGREQ, Connack, Connect, Pingresp
from penstock.mqtt.packets.packet import decode, encode, kind_of
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Ack, Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from penstock.mqtt.sessions.exchange import Arrival, Exchange
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID, AliasesIn, AliasesOut

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.packet import Packet


class Settled(NamedTuple):
    """The server has acknowledged a message of ours, or refused it."""

    packet_id: int
    message: Publish
    reason: int
    words: str = ""
    """Reason string of the server."""


class Answered(NamedTuple):
    """The server has answered a SUBSCRIBE or UNSUBSCRIBE."""

    request: Subscribe | Unsubscribe
    answer: Suback | Unsuback


class Received(NamedTuple):
    """A message from the server, its topic alias resolved.

    QoS 1 and 2 are acknowledged by `ClientSession.answer`.
    """

    message: Publish


class SessionOutcome(NamedTuple):
    """Packets to send and the event to report after a packet."""

    send: list[Packet]
    happened: Settled | Answered | Received | None = None


class ClientSession:
    """State a client keeps across connections."""

    def __init__(self) -> None:
        self.exchange: Exchange[Publish] = Exchange()
        self._requests: dict[int, Subscribe | Unsubscribe] = {}
        self._dup = True
        """Whether messages sent again carry DUP: only if the server still has the session."""

    @property
    def room(self) -> int:
        """QoS 1 and 2 messages that may be published now."""
        return self.exchange.outgoing.room

    def publish(self, message: Publish) -> Publish:
        """Packet to send for a message; QoS 1 and 2 need `room`."""
        if not message.qos:
            return message
        return replace(message, packet_id=self.exchange.outgoing.send(message, qos=message.qos))

    def subscribe(self, *subscriptions: Subscription, properties: Properties = NONE) -> Subscribe:
        """Packet to send; `Answered` reports the server's answer."""
        request = Subscribe(self.exchange.ids.take(), subscriptions, properties)
        self._requests[request.packet_id] = request
        return request

    def unsubscribe(self, *filters: str, properties: Properties = NONE) -> Unsubscribe:
        """Packet to send; `Answered` reports the server's answer."""
        request = Unsubscribe(self.exchange.ids.take(), filters, properties)
        self._requests[request.packet_id] = request
        return request

    def resume(self, *, session_present: bool, window: int, maximum: int) -> list[Packet]:
        """Continue the session over a new connection; returns the packets to send first.

        Unanswered SUBSCRIBEs and UNSUBSCRIBEs are dropped: the caller makes them anew. If the server has lost
        the session, unacknowledged messages are sent as new ones, in order; those with a PUBREC are complete.
        """
        for packet_id in self._requests:
            self.exchange.ids.free(packet_id)
        self._requests.clear()
        if not session_present:
            unanswered = self.exchange.outgoing.unanswered()
            self.exchange = Exchange()
            self.exchange.outgoing.restore(unanswered=unanswered, released=())
        self._dup = session_present
        released = self.exchange.resume(window=window, maximum=maximum)
        return [*released, *self._again()]

    def receive(self, packet: Packet) -> SessionOutcome:
        """Handle a packet that `ClientConnection.receive` returned."""
        match packet:
            case Publish():
                return self._arrived(packet)
            case Ack():
                step = self.exchange.receive(packet)
                send: list[Packet] = [step.reply] if step.reply is not None else []
                send += self._again()
                if step.settled is None:
                    return SessionOutcome(send)
                words = packet.properties.reason_string or ""
                return SessionOutcome(send, Settled(packet.packet_id, step.settled, step.reason, words))
            case Suback() | Unsuback():
                return SessionOutcome([], self._answered(packet))
            case _:
                return SessionOutcome([])

    def answer(self, packet_id: int, *, reason: int = Reason.SUCCESS) -> Ack:
        """Acknowledge a received QoS 1 or 2 message, once the caller has stored or handled it."""
        return self.exchange.incoming.answer(packet_id, reason=reason)

    def _arrived(self, packet: Publish) -> SessionOutcome:
        if not packet.qos:
            return SessionOutcome([], Received(packet))
        match self.exchange.incoming.arrive(packet.packet_id, qos=packet.qos):
            case Arrival.NEW:
                return SessionOutcome([], Received(packet))
            case Arrival.AGAIN:
                return SessionOutcome([self.answer(packet.packet_id)])
            case Arrival.PENDING:
                return SessionOutcome([])

    def _answered(self, packet: Suback | Unsuback) -> Answered:
        request = self._requests.pop(packet.packet_id, None)
        kind = "SUBACK" if isinstance(packet, Suback) else "UNSUBACK"
        if request is None or isinstance(request, Subscribe) is not isinstance(packet, Suback):
            raise ProtocolError(f"no request has the packet identifier {packet.packet_id}", where=kind)
        self.exchange.ids.free(packet.packet_id)
        asked = len(request.subscriptions if isinstance(request, Subscribe) else request.filters)
        if len(packet.reasons) not in (asked, 0 if isinstance(packet, Unsuback) else asked):
            raise ProtocolError(f"{len(packet.reasons)} reason codes for {asked} filters", where=kind)
        return Answered(request, packet)

    def _again(self) -> list[Packet]:
        return [
            replace(each.message, packet_id=each.packet_id, dup=self._dup)
            for each in self.exchange.outgoing.again()
        ]


class ClientState(Enum):
    """Phases of a client connection."""

    NEW = "nothing is sent yet"
    CONNECTING = "waiting for the CONNACK"
    CONNECTED = "packets flow"
    CLOSED = "no more packets"


class ClientConnection:
    """Packet rules of one connection, and what the server granted."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.state = ClientState.NEW
        self.granted: Properties = NONE
        """Properties of the CONNACK."""
        self.keep_alive_s = connect.keep_alive_s
        self.aliases_in = AliasesIn(connect.properties.topic_alias_maximum or 0)
        self.aliases_out = AliasesOut(0)
        self._sent_us: Instant = 0
        self._pinged_us: Instant | None = None

    @property
    def version(self) -> int:
        """Protocol version: 4 (MQTT 3.1.1) or 5."""
        return self.connect.version

    @property
    def window(self) -> int:
        """Receive maximum of the server: QoS 1 and 2 messages it accepts unacknowledged."""
        return self.granted.receive_maximum or MOST_PACKET_ID

    @property
    def maximum_packet_bytes(self) -> int:
        """Largest packet the server accepts."""
        return self.granted.maximum_packet_size or LONGEST + 5

    def start(self, *, now_us: Instant) -> bytes:
        """Encode the CONNECT and start the keep alive."""
        assert self.state is ClientState.NEW, self.state
        self.state = ClientState.CONNECTING
        self._sent_us = now_us
        return encode(self.connect, self.version)

    def receive(self, frame: bytes) -> Packet:
        """Decode a frame and check that the server may send it now; topic aliases are resolved.

        A CONNACK may be a refusal: check its reason. Pass every other packet to `ClientSession.receive`.
        """
        kind = kind_of(frame)
        if kind not in FROM_SERVER or (kind is Kind.DISCONNECT and self.version == V4):
            raise ProtocolError("only a client sends this", where=kind.name)
        packet = decode(frame, self.version)
        if isinstance(packet, Connack):
            self._connected(packet)
        elif self.state is not ClientState.CONNECTED:
            raise ProtocolError("received before the CONNACK", where=kind.name)
        match packet:
            case Publish() if self.version == V5:
                topic = self.aliases_in.resolve(packet.topic.encode(), packet.properties.topic_alias)
                return replace(packet, topic=topic.decode()) if not packet.topic else packet
            case Pingresp():
                self._pinged_us = None
        if kind is Kind.AUTH:
            raise ProtocolError("no authentication method was agreed", where="AUTH")
        return packet

    def _connected(self, packet: Connack) -> None:
        if self.state is not ClientState.CONNECTING:
            raise ProtocolError("a second CONNACK", where="CONNACK")
        if packet.reason:
            self.state = ClientState.CLOSED
            return
        if packet.session_present and self.connect.clean_start:
            raise ProtocolError("session present after a clean start", where="CONNACK")
        self.state = ClientState.CONNECTED
        self.granted = packet.properties
        if packet.properties.server_keep_alive_s is not None:
            self.keep_alive_s = packet.properties.server_keep_alive_s
        offered = packet.properties.topic_alias_maximum or 0
        self.aliases_out = AliasesOut(min(offered, limits.MQTT_TOPIC_ALIASES))

    def encode(self, packet: Packet, *, now_us: Instant) -> bytes:
        """Encode a packet, checked against what the server granted."""
        assert self.state is ClientState.CONNECTED, self.state
        if isinstance(packet, Publish):
            self._check_granted(packet)
        frame = encode(packet, self.version)
        size, most = len(frame), self.maximum_packet_bytes
        if size > most:
            raise PacketTooLarge(f"{size} bytes; the server accepts {most}", where=type(packet).__name__)
        self._sent_us = now_us
        # An alias adds up to five bytes. A packet that introduces an alias must be sent, so its size is
        # checked first.
        if isinstance(packet, Publish) and self.aliases_out.maximum and size + 5 <= most:
            topic, alias = self.aliases_out.shorten(packet.topic.encode())
            if alias is not None:
                properties = replace(packet.properties, topic_alias=alias)
                return encode(replace(packet, topic=topic.decode(), properties=properties), V5)
        return frame

    def _check_granted(self, packet: Publish) -> None:
        granted = self.granted
        if granted.maximum_qos is not None and packet.qos > granted.maximum_qos:
            raise MqttError(
                f"QoS {packet.qos}; the server accepts up to {granted.maximum_qos}",
                where="PUBLISH",
                reason=Reason.QOS_NOT_SUPPORTED,
            )
        if packet.retain and granted.retain_available == 0:
            raise MqttError(
                "RETAIN, which the server does not offer", where="PUBLISH", reason=Reason.RETAIN_NOT_SUPPORTED
            )

    def close(self) -> None:
        """Mark the connection as closed."""
        self.state = ClientState.CLOSED

    # -- keep alive ------------------------------------------------------------------------------------------

    @property
    def _pause_us(self) -> int:
        """Three quarters of the keep alive, so that a slightly late ping is still in time."""
        return self.keep_alive_s * 750_000

    def timer(self) -> Instant | None:
        """When to call `on_timer`."""
        if self.state is not ClientState.CONNECTED or not self.keep_alive_s:
            return None
        return (self._sent_us if self._pinged_us is None else self._pinged_us) + self._pause_us

    def on_timer(self, *, now_us: Instant) -> bytes:
        """Return a PINGREQ if one is due; MqttError if the last one was not answered."""
        due_us = self.timer()
        if due_us is None or now_us < due_us:
            return b""
        if self._pinged_us is not None:
            raise MqttError(
                f"no PINGRESP for {self._pause_us / 1e6:g} s: {explained(Reason.KEEP_ALIVE_TIMEOUT)}",
                where="keep alive",
                reason=Reason.KEEP_ALIVE_TIMEOUT,
            )
        self._sent_us = self._pinged_us = now_us
        return PINGREQ
