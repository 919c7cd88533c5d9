"""Packet kinds and reason codes: the flags of each kind, and which packet may carry which reason.

MQTT 3.1.1 numbers some of the reasons differently (return codes): CONNACK_V4 translates.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.errors import ProtocolError

V4: Final = 4
"""Protocol level of MQTT 3.1.1."""

V5: Final = 5
"""Protocol level of MQTT 5."""


class Kind(IntEnum):
    """The high four bits of a packet's first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


FLAGS: Final = {kind: 2 if kind in (Kind.PUBREL, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE) else 0 for kind in Kind}
"""Low bits by kind [MQTT-2.1.3-1]; those of PUBLISH carry DUP, QoS and RETAIN instead."""

FROM_CLIENT: Final = frozenset(
    {
        Kind.CONNECT,
        Kind.PUBLISH,
        Kind.PUBACK,
        Kind.PUBREC,
        Kind.PUBREL,
        Kind.PUBCOMP,
        Kind.SUBSCRIBE,
        Kind.UNSUBSCRIBE,
        Kind.PINGREQ,
        Kind.DISCONNECT,
        Kind.AUTH,
    }
)
"""Packets a client may send to a server."""

FROM_SERVER: Final = frozenset(Kind) - {Kind.CONNECT, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE, Kind.PINGREQ}
"""Packets a server may send to a client."""


class Reason(IntEnum):
    """MQTT 5 reason codes (section 2.4); 0x80 and above are failures."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


def _codes(*codes: int) -> frozenset[int]:
    return frozenset(codes)


_PUBLISHED: Final = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
_RELEASED: Final = _codes(0x00, 0x92)

DISCONNECT_FROM_CLIENT: Final = _codes(
    0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99
)  # fmt: skip
"""Reason codes of a DISCONNECT sent by a client (table 3-10)."""

_DISCONNECT_FROM_SERVER: Final = _codes(
    0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97,
    0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
)  # fmt: skip

ALLOWED: Final[dict[Kind, frozenset[int]]] = {
    Kind.CONNACK: _codes(
        0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99,
        0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
    ),
    Kind.PUBACK: _PUBLISHED,
    Kind.PUBREC: _PUBLISHED,
    Kind.PUBREL: _RELEASED,
    Kind.PUBCOMP: _RELEASED,
    Kind.SUBACK: _codes(0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2),
    Kind.UNSUBACK: _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91),
    Kind.DISCONNECT: DISCONNECT_FROM_CLIENT | _DISCONNECT_FROM_SERVER,
    Kind.AUTH: _codes(0x00, 0x18, 0x19),
}  # fmt: skip
"""Reason codes each packet may carry in MQTT 5."""

CONNACK_V4: Final = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID_NOT_VALID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}
"""MQTT 3.1.1 return code of a reason. For any other reason the server closes without a CONNACK
[MQTT-3.2.2-6]."""

FROM_CONNACK_V4: Final = {code: reason for reason, code in CONNACK_V4.items()}
"""Reason of an MQTT 3.1.1 return code."""


def check_reason(reason: int, kind: Kind) -> int:
    """Return the reason code if a packet of this kind may carry it; else raise ProtocolError."""
    if reason not in ALLOWED[kind]:
        raise ProtocolError(
            f"{explained(reason)} is not allowed in this packet", where=f"{kind.name} reason code"
        )
    return reason


def explained(reason: int) -> str:
    """A reason code for people to read: `0x8D keep alive timeout`."""
    try:
        name = Reason(reason).name.lower().replace("_", " ")
    except ValueError:
        name = "unknown reason"
    return f"0x{reason:02X} {name}"
