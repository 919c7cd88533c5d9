"""A client's side of one connection: which packet may come when, what the server granted, keep alive.

The counterpart of `server.py`; what outlives the connection is in `client_session.py`. The owner sends what
is returned, in order.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock import limits
from penstock.errors import MqttError, PacketTooLarge, ProtocolError
from penstock.mqtt.aliases import AliasesIn, AliasesOut
from penstock.mqtt.connect import Connack, Connect
from penstock.mqtt.kinds import FROM_SERVER, V4, V5, Kind
from penstock.mqtt.packet import decode, encode, kind_of
from penstock.mqtt.packet_ids import MOST
from penstock.mqtt.ping import PINGREQ, Pingresp
from penstock.mqtt.properties import NONE, Properties
from penstock.mqtt.publish import Publish
from penstock.mqtt.reasons import Reason, explained
from penstock.mqtt.varint import MOST as LONGEST

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.packet import Packet


class ClientState(Enum):
    """Where a connection stands."""

    NEW = "nothing is sent"
    CONNECTING = "waiting for the CONNACK"
    CONNECTED = "packets flow"
    CLOSED = "nothing more is said"


class ClientConnection:
    """The rules of one connection, and what the server granted."""

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.state = ClientState.NEW
        self.granted: Properties = NONE
        """The properties of the CONNACK."""
        self.keep_alive_s = connect.keep_alive_s
        self.aliases_in = AliasesIn(connect.properties.topic_alias_maximum or 0)
        self.aliases_out = AliasesOut(0)
        self._sent_us: Instant = 0
        self._pinged_us: Instant | None = None

    @property
    def version(self) -> int:
        """4 or 5."""
        return self.connect.version

    @property
    def window(self) -> int:
        """QoS 1 and 2 messages the server takes unanswered."""
        return self.granted.receive_maximum or MOST

    @property
    def maximum_packet_bytes(self) -> int:
        """Largest packet the server takes."""
        return self.granted.maximum_packet_size or LONGEST + 5

    def start(self, *, now_us: Instant) -> bytes:
        """The CONNECT."""
        assert self.state is ClientState.NEW, self.state
        self.state = ClientState.CONNECTING
        self._sent_us = now_us
        return encode(self.connect, self.version)

    def receive(self, frame: bytes) -> Packet:
        """The packet of a frame, if the server may send it now; topics are resolved.

        A CONNACK may be a refusal: look at its reason. Whatever comes but a CONNACK is for `ClientSession`.
        """
        kind = kind_of(frame)
        if kind not in FROM_SERVER or (kind is Kind.DISCONNECT and self.version == V4):
            raise ProtocolError("only a client sends this", where=kind.name)
        packet = decode(frame, self.version)
        if isinstance(packet, Connack):
            self._connected(packet)
        elif self.state is not ClientState.CONNECTED:
            raise ProtocolError("before the CONNACK", where=kind.name)
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
            raise ProtocolError("a second one", where="CONNACK")
        if packet.reason:
            self.state = ClientState.CLOSED
            return
        if packet.session_present and self.connect.clean_start:
            raise ProtocolError("a session is present, and a clean start was asked for", where="CONNACK")
        self.state = ClientState.CONNECTED
        self.granted = packet.properties
        if packet.properties.server_keep_alive_s is not None:
            self.keep_alive_s = packet.properties.server_keep_alive_s
        offered = packet.properties.topic_alias_maximum or 0
        self.aliases_out = AliasesOut(min(offered, limits.MQTT_TOPIC_ALIASES))

    def encode(self, packet: Packet, *, now_us: Instant) -> bytes:
        """A packet for the server, checked against what it granted."""
        assert self.state is ClientState.CONNECTED, self.state
        if isinstance(packet, Publish):
            self._check_granted(packet)
        frame = encode(packet, self.version)
        size, most = len(frame), self.maximum_packet_bytes
        if size > most:
            raise PacketTooLarge(f"{size} bytes; the server takes {most}", where=type(packet).__name__)
        self._sent_us = now_us
        # An alias makes the packet up to five bytes longer; the first time, the packet must be sent.
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
                f"QoS {packet.qos}; the server takes up to {granted.maximum_qos}",
                where="PUBLISH",
                reason=Reason.QOS_NOT_SUPPORTED,
            )
        if packet.retain and granted.retain_available == 0:
            raise MqttError(
                "RETAIN, which the server does not offer", where="PUBLISH", reason=Reason.RETAIN_NOT_SUPPORTED
            )

    def close(self) -> None:
        """The connection is gone."""
        self.state = ClientState.CLOSED

    # -- keep alive ------------------------------------------------------------------------------------------

    @property
    def _pause_us(self) -> int:
        """Three quarters of the keep alive: a ping that is a little late is still in time."""
        return self.keep_alive_s * 750_000

    def timer(self) -> Instant | None:
        """When `on_timer` has something to do."""
        if self.state is not ClientState.CONNECTED or not self.keep_alive_s:
            return None
        return (self._sent_us if self._pinged_us is None else self._pinged_us) + self._pause_us

    def on_timer(self, *, now_us: Instant) -> bytes:
        """A PINGREQ if it is time for one; MqttError if the last one has no answer."""
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
