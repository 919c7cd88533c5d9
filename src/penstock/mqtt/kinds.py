"""The fifteen kinds of packets, and what the low four bits of the first byte must be."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

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
"""What a server may receive."""

FROM_SERVER: Final = frozenset(Kind) - {Kind.CONNECT, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE, Kind.PINGREQ}
"""What a client may receive."""
