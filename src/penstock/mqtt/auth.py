"""AUTH, the packet of enhanced authentication (MQTT 5 only)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.errors import MalformedPacket
from penstock.mqtt.kinds import V4, Kind
from penstock.mqtt.properties import NONE, Properties, decode_properties, encode_properties
from penstock.mqtt.reasons import Reason, check_reason

if TYPE_CHECKING:
    from penstock.mqtt.reader import Reader


class Auth(msgspec.Struct, frozen=True, gc=False):
    """A step of an exchange of credentials."""

    reason: int = Reason.SUCCESS
    properties: Properties = NONE


def decode_auth(reader: Reader, version: int) -> Auth:
    """The body of an AUTH."""
    if version == V4:
        raise MalformedPacket("MQTT 3.1.1 has no such packet", where="AUTH")
    if not reader.left:
        return Auth()
    reason = check_reason(reader.u8("reason code"), Kind.AUTH)
    properties = decode_properties(reader, Kind.AUTH)
    reader.finish()
    return Auth(reason, properties)


def encode_auth(packet: Auth, version: int) -> tuple[int, bytes]:
    """First byte and body; what need not be said is left out."""
    if version == V4:
        raise MalformedPacket("MQTT 3.1.1 has no such packet", where="AUTH")
    if not packet.reason and packet.properties == NONE:
        return 0xF0, b""
    body = bytes((check_reason(packet.reason, Kind.AUTH),))
    return 0xF0, body + encode_properties(packet.properties, Kind.AUTH, packet="AUTH")
