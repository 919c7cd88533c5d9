"""DISCONNECT: in MQTT 5 from either side and with a reason, in 3.1.1 a client's plain farewell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.mqtt.kinds import V4, Kind
from penstock.mqtt.properties import NONE, Properties, decode_properties, encode_properties
from penstock.mqtt.reasons import Reason, check_reason

if TYPE_CHECKING:
    from penstock.mqtt.reader import Reader


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """The last packet of a connection."""

    reason: int = Reason.SUCCESS
    properties: Properties = NONE


def decode_disconnect(reader: Reader, version: int) -> Disconnect:
    """The body of a DISCONNECT."""
    reason: int = Reason.SUCCESS
    properties = NONE
    if version != V4 and reader.left:
        reason = reader.u8("reason code")
        properties = decode_properties(reader, Kind.DISCONNECT) if reader.left else NONE
    reader.finish()
    check_reason(reason, Kind.DISCONNECT)
    return Disconnect(reason, properties)


def encode_disconnect(packet: Disconnect, version: int) -> tuple[int, bytes]:
    """First byte and body; what need not be said is left out."""
    if version == V4 or (not packet.reason and packet.properties == NONE):
        return 0xE0, b""
    body = bytes((check_reason(packet.reason, Kind.DISCONNECT),))
    if packet.properties == NONE:
        return 0xE0, body
    return 0xE0, body + encode_properties(packet.properties, Kind.DISCONNECT, packet="DISCONNECT")
