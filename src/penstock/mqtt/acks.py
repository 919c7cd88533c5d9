"""PUBACK, PUBREC, PUBREL and PUBCOMP: four packets of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from penstock.mqtt.kinds import FLAGS, V4, V5, Kind
from penstock.mqtt.properties import NONE, Properties, decode_properties, encode_properties
from penstock.mqtt.reasons import Reason, check_reason

if TYPE_CHECKING:
    from penstock.mqtt.reader import Reader


class Ack(msgspec.Struct, frozen=True, gc=False):
    """What the four have in common."""

    kind: ClassVar[Kind]

    packet_id: int
    reason: int = Reason.SUCCESS
    """Always success in MQTT 3.1.1, which has no place for another."""
    properties: Properties = NONE


class Puback(Ack, frozen=True, gc=False):
    """A QoS 1 message has arrived."""

    kind = Kind.PUBACK


class Pubrec(Ack, frozen=True, gc=False):
    """A QoS 2 message has arrived."""

    kind = Kind.PUBREC


class Pubrel(Ack, frozen=True, gc=False):
    """Its sender will not send that QoS 2 message again."""

    kind = Kind.PUBREL


class Pubcomp(Ack, frozen=True, gc=False):
    """The packet identifier of a QoS 2 message is free again."""

    kind = Kind.PUBCOMP


ACKS: Final[dict[Kind, type[Ack]]] = {each.kind: each for each in (Puback, Pubrec, Pubrel, Pubcomp)}

PLAIN_ACKS: Final = {kind << 4 | FLAGS[kind]: each for kind, each in ACKS.items()}
"""By first byte: four bytes with it are a success in both versions, and nearly every acknowledgement."""


def decode_ack(reader: Reader, version: int, kind: Kind) -> Ack:
    """The body of one of the four."""
    packet_id = reader.packet_id(reason=Reason.PROTOCOL_ERROR)
    reason: int = Reason.SUCCESS
    properties = NONE
    if version == V5 and reader.left:
        reason = reader.u8("reason code")
        properties = decode_properties(reader, kind) if reader.left else NONE
    reader.finish()
    check_reason(reason, kind)
    return ACKS[kind](packet_id, reason, properties)


def encode_ack(packet: Ack, version: int) -> tuple[int, bytes]:
    """First byte and body; what need not be said is left out."""
    kind = packet.kind
    first = kind << 4 | FLAGS[kind]
    body = packet.packet_id.to_bytes(2, "big")
    if version == V4 or (not packet.reason and packet.properties == NONE):
        return first, body
    body += bytes((check_reason(packet.reason, kind),))
    if packet.properties == NONE:
        return first, body
    return first, body + encode_properties(packet.properties, kind, packet=kind.name)


def ack_frame(kind: Kind, packet_id: int) -> bytes:
    """A whole successful acknowledgement, the same in both versions: four bytes."""
    return _STARTS[kind] + packet_id.to_bytes(2, "big")


_STARTS: Final = {kind: bytes((kind << 4 | FLAGS[kind], 2)) for kind in ACKS}
