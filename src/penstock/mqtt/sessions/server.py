"""The server's side of one connection: which packet may come when, what was agreed, and how the connection
ends.

    waiting ──CONNECT──► deciding ──accept──► connected ──farewell, close──► closed
       └──farewell, close───┴───farewell, close─────────────────────────────────▲

The owner decides about a CONNECT (users, sessions) and calls `accept` or `farewell`. Until then it keeps
frames that arrive behind the CONNECT. A PUBLISH need not pass through `receive`: it is always legal in the
state CONNECTED, and `fanout.spans` reads it faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock import limits
from penstock.errors import MalformedPacket, MqttError, ProtocolError, UnsupportedVersion, UseAnotherServer
from penstock.mqtt.codes import (
    ALLOWED,
    CONNACK_V4,
    DISCONNECT_FROM_CLIENT,
    FROM_CLIENT,
    V4,
    V5,
    Kind,
    Reason,
    explained,
)
from penstock.mqtt.fields import MOST_VARINT as LONGEST
from penstock.mqtt.packets.connect import Connack, Connect, Disconnect, Pingreq, Pingresp, announced_version
from penstock.mqtt.packets.packet import body_of, decode, encode, kind_of
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish, check_from_client
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID, AliasesIn, AliasesOut
from penstock.mqtt.sessions.session import NEVER_S

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.packet import Packet


_NO_ALIASES_IN: Final = AliasesIn(0)
_NO_ALIASES_OUT: Final = AliasesOut(0)
_NO_CONNECT: Final = Connect()
"""Shared by all connections before their CONNECT and by those without aliases, to save memory: none of the
three is ever changed."""


class ServerState(Enum):
    """Phases of a server connection."""

    WAITING = "waiting for the CONNECT"
    DECIDING = "the owner decides about the CONNECT"
    CONNECTED = "packets flow"
    CLOSED = "no more packets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The limits and features that a server grants to every client."""

    receive_maximum: int = limits.MQTT_RECEIVE_MAXIMUM
    """Receive maximum: QoS 1 and 2 messages a client may have unacknowledged."""
    maximum_packet_bytes: int = limits.MQTT_PACKET_BYTES
    topic_alias_maximum: int = limits.MQTT_TOPIC_ALIASES
    most_keep_alive_s: int = 0
    """Longest keep alive granted, also to a client that asks for none; 0: no bound."""
    most_session_expiry_s: int = NEVER_S
    """Longest session expiry granted."""
    connect_s: int = limits.MQTT_CONNECT_S
    """Time allowed for the CONNECT to arrive."""
    reason_strings: bool = True
    """Send reason strings to clients that accept them."""


class ServerConnection:
    """Packet rules of one connection."""

    __slots__ = (
        "_connect",
        "_deadline_us",
        "aliases_in",
        "aliases_out",
        "keep_alive_s",
        "maximum_packet_bytes",
        "problem_information",
        "receive_maximum",
        "state",
        "terms",
        "version",
    )

    def __init__(self, terms: Terms, *, now_us: Instant) -> None:
        self.terms = terms
        self.state = ServerState.WAITING
        self.version = 0
        """4 or 5 once the version of the CONNECT is known; 0 before."""
        self.keep_alive_s = 0
        """Keep alive agreed; 0: none."""
        self.receive_maximum = MOST_PACKET_ID
        """Receive maximum of the client."""
        self.maximum_packet_bytes = LONGEST + 5
        """Largest packet the client accepts."""
        self.problem_information = True
        """Whether the client accepts reason strings and user properties on acknowledgements."""
        self.aliases_in = _NO_ALIASES_IN
        self.aliases_out = _NO_ALIASES_OUT
        self._connect = _NO_CONNECT
        """The CONNECT, until it is accepted."""
        self._deadline_us: Instant | None = now_us + terms.connect_s * 1_000_000

    # -- receiving -------------------------------------------------------------------------------------------

    def receive(self, frame: bytes) -> Packet:
        """Decode a frame and check that the client may send it now.

        On MqttError, send `farewell` and close.
        """
        assert self.state in (ServerState.WAITING, ServerState.CONNECTED), (
            f"frames wait while {self.state.name}"
        )
        kind = kind_of(frame)
        if self.state is ServerState.WAITING:
            return self._first(frame, kind)
        if kind is Kind.CONNECT:
            raise ProtocolError("a second CONNECT", where="CONNECT")  # [MQTT-3.1.0-2]
        if kind not in FROM_CLIENT:
            raise ProtocolError("only a server sends this", where=kind.name)
        packet = decode(frame, self.version)
        if kind is Kind.AUTH:
            raise ProtocolError("no authentication method was agreed", where="AUTH")
        if isinstance(packet, Publish):
            check_from_client(packet.properties)
        if isinstance(packet, Disconnect) and packet.reason not in DISCONNECT_FROM_CLIENT:
            raise ProtocolError(
                f"{explained(packet.reason)} may only be sent by a server", where="DISCONNECT"
            )
        return packet

    def _first(self, frame: bytes, kind: Kind) -> Connect:
        if kind is not Kind.CONNECT:
            raise ProtocolError("the first packet must be CONNECT", where=kind.name)  # [MQTT-3.1.0-1]
        self.version = announced_version(frame[body_of(frame) :])
        packet = decode(frame, self.version)
        assert isinstance(packet, Connect)
        self._agree(packet)
        if packet.properties.authentication_method is not None:
            raise MqttError(
                f"'{packet.properties.authentication_method}' is not supported; use user name and password",
                where="CONNECT authentication method",
                reason=Reason.BAD_AUTHENTICATION_METHOD,
            )
        if packet.will is not None and packet.will.topic.startswith("$"):
            raise MqttError(
                f"'{packet.will.topic}': topics beginning with $ are reserved for the server",
                where="CONNECT will topic",
                reason=Reason.TOPIC_NAME_INVALID,
            )
        self.state = ServerState.DECIDING
        self._deadline_us = None
        return packet

    def _agree(self, packet: Connect) -> None:
        asked = packet.properties
        self._connect = packet
        self.keep_alive_s = packet.keep_alive_s
        self.receive_maximum = asked.receive_maximum or MOST_PACKET_ID
        self.maximum_packet_bytes = asked.maximum_packet_size or LONGEST + 5
        self.problem_information = asked.request_problem_information != 0
        most = min(asked.topic_alias_maximum or 0, self.terms.topic_alias_maximum)
        if most:
            self.aliases_out = AliasesOut(most)
        if packet.version == V5:
            self.aliases_in = AliasesIn(self.terms.topic_alias_maximum)
            most_s = self.terms.most_keep_alive_s  # MQTT 3.1.1 cannot tell the client its keep alive
            if most_s and not 0 < packet.keep_alive_s <= most_s:
                self.keep_alive_s = most_s

    # -- answering a CONNECT ---------------------------------------------------------------------------------

    def accept(
        self,
        *,
        session_present: bool,
        now_us: Instant,
        assigned_client_id: str = "",
        extra: Properties = NONE,
    ) -> bytes:
        """Accept the client; returns the CONNACK. MqttError, as `check_room` raises it, if it is too large.

        `extra` holds further properties, such as response information.
        """
        assert self.state is ServerState.DECIDING, self.state
        frame = self._connack(assigned_client_id, extra, session_present=session_present)
        self.state = ServerState.CONNECTED
        self._connect = _NO_CONNECT
        self.heard(now_us=now_us)
        return frame

    def check_room(self, *, assigned_client_id: str = "") -> None:
        """MqttError if the client takes no packet as large as the smallest CONNACK that accepts it."""
        if self.maximum_packet_bytes <= LONGEST:
            self._connack(assigned_client_id, NONE, session_present=False)

    def _connack(self, assigned_client_id: str, extra: Properties, *, session_present: bool) -> bytes:
        """The CONNACK; where the client takes small packets only, without what it need not know.

        It must know its client identifier and what limits it: the keep alive, the session expiry, the receive
        maximum and the largest packet. What is offered and not told, topic aliases, is withdrawn.
        """
        if self.version != V5:
            return encode(Connack(session_present=session_present), self.version)
        granted = self._granted(assigned_client_id, extra)
        if assigned_client_id:
            frame = encode(Connack(session_present=session_present, properties=granted), V5)
        else:
            frame = _usual_connack(granted, session_present=session_present)
        if len(frame) <= self.maximum_packet_bytes:
            return frame
        granted = self._granted(assigned_client_id, NONE, topic_aliases=False)
        frame = encode(Connack(session_present=session_present, properties=granted), V5)
        if len(frame) <= self.maximum_packet_bytes:
            self.aliases_in = AliasesIn(0)
            return frame
        raise MqttError(
            f"{self.maximum_packet_bytes}; the CONNACK has {len(frame)} bytes",
            where="CONNECT maximum packet size",
            reason=Reason.IMPLEMENTATION_SPECIFIC,
        )

    def _granted(
        self, assigned_client_id: str, extra: Properties, *, topic_aliases: bool = True
    ) -> Properties:
        terms, asked = self.terms, self._connect
        expiry_s = asked.properties.session_expiry_s or 0
        return replace(
            extra,
            receive_maximum=terms.receive_maximum,
            maximum_packet_size=terms.maximum_packet_bytes,
            topic_alias_maximum=(terms.topic_alias_maximum or None) if topic_aliases else None,
            assigned_client_id=assigned_client_id or None,
            server_keep_alive_s=self.keep_alive_s if self.keep_alive_s != asked.keep_alive_s else None,
            session_expiry_s=(
                terms.most_session_expiry_s if expiry_s > terms.most_session_expiry_s else None
            ),
        )

    # -- the end ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The connection is lost, or the client sent DISCONNECT."""
        self.state = ServerState.CLOSED

    def farewell(self, error: MqttError) -> bytes:
        """CONNACK or DISCONNECT to send before closing because of an error; may be empty."""
        state, self.state = self.state, ServerState.CLOSED
        if isinstance(error, UnsupportedVersion):
            return error.answer
        if state is ServerState.CLOSED or not self.version:
            return b""
        if state is not ServerState.CONNECTED:
            return self._refusal(error)
        if self.version == V4:
            return b""
        reason = error.reason if error.reason in ALLOWED[Kind.DISCONNECT] else Reason.UNSPECIFIED
        return self.fit(Disconnect(reason, self._words(error))) or b""

    def _refusal(self, error: MqttError) -> bytes:
        if self.version == V5:
            reason = error.reason if error.reason in ALLOWED[Kind.CONNACK] else Reason.UNSPECIFIED
            return self.fit(Connack(reason=reason, properties=self._words(error))) or b""
        if isinstance(error, UseAnotherServer):
            return encode(Connack(reason=Reason.SERVER_UNAVAILABLE), V4)
        if isinstance(error, MalformedPacket) or error.reason not in CONNACK_V4:
            return b""
        return encode(Connack(reason=error.reason), V4)

    def _words(self, error: MqttError) -> Properties:
        said = str(error)[: limits.MQTT_REASON_CHARACTERS] if self.terms.reason_strings else None
        elsewhere = error.reference or None if isinstance(error, UseAnotherServer) else None
        if said is None and elsewhere is None:
            return NONE
        return Properties(reason_string=said, server_reference=elsewhere)

    # -- sending ---------------------------------------------------------------------------------------------

    def fit(self, packet: Packet) -> bytes | None:
        """Encode a packet within the client's limits: reason string and user properties go if unwanted or too
        long.

        `None`: too large all the same. A PUBLISH that is too large is not sent and counts as delivered
        [MQTT-3.1.2-25].
        """
        if self.problem_information or isinstance(packet, Publish | Connack | Disconnect):
            frame = self._within(packet)
            if frame is not None or isinstance(packet, Publish):
                return frame
        return self._within(_without_words(packet))

    def _within(self, packet: Packet) -> bytes | None:
        frame = encode(packet, self.version)
        return frame if len(frame) <= self.maximum_packet_bytes else None

    # -- keep alive ------------------------------------------------------------------------------------------

    def heard(self, *, now_us: Instant) -> None:
        """Note that bytes arrived; once for each chunk is enough."""
        if self.state is ServerState.CONNECTED:
            self._deadline_us = now_us + self.keep_alive_s * 1_500_000 if self.keep_alive_s else None

    def timer(self) -> Instant | None:
        """When the keep alive expires if nothing arrives until then."""
        return self._deadline_us if self.state in (ServerState.WAITING, ServerState.CONNECTED) else None

    def overdue(self, *, now_us: Instant) -> MqttError | None:
        """The error if the keep alive has expired: no packet for 1.5 times its length [MQTT-3.1.2-22]."""
        due_us = self.timer()
        if due_us is None or now_us < due_us:
            return None
        if self.state is ServerState.WAITING:
            return ProtocolError(f"not received within {self.terms.connect_s} s", where="CONNECT")
        return MqttError(
            f"nothing received for {self.keep_alive_s * 1.5:g} s",
            where="keep alive",
            reason=Reason.KEEP_ALIVE_TIMEOUT,
        )


@lru_cache(maxsize=64)
def _usual_connack(granted: Properties, *, session_present: bool) -> bytes:
    """A CONNACK as many clients get it: encoding it takes longer than all else about a CONNECT."""
    return encode(Connack(session_present=session_present, properties=granted), V5)


def _without_words(packet: Packet) -> Packet:
    """The packet without reason string and user properties, which programs do not need."""
    if isinstance(packet, Pingreq | Pingresp) or packet.properties is NONE:
        return packet
    bare = replace(packet.properties, reason_string=None, user=())
    return replace(packet, properties=NONE if bare == NONE else bare)
