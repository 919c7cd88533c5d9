"""PUBLISH as a value, and its acknowledgements PUBACK, PUBREC, PUBREL and PUBCOMP, which have one shape.

`fanout.py` is the fast path of the node, which makes no `Publish`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from penstock.errors import MalformedPacket, ProtocolError
from penstock.mqtt.codes import FLAGS, V4, V5, Kind, Reason, check_reason
from penstock.mqtt.fields import encode_text
from penstock.mqtt.packets.properties import NONE, Properties, decode_properties, encode_properties
from penstock.mqtt.topics import check_topic

if TYPE_CHECKING:
    from penstock.mqtt.fields import FieldReader


class Publish(msgspec.Struct, frozen=True, gc=False):
    """An application message."""

    topic: str
    """Empty only together with a topic alias."""
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    """0 for QoS 0, else 1 to 65,535."""
    properties: Properties = NONE


def check_publish_flags(first: int) -> None:
    """Check DUP and QoS in the first byte of a PUBLISH."""
    if first & 6 == 6:
        raise MalformedPacket("QoS 3", where="PUBLISH flags")
    if first & 14 == 8:
        raise MalformedPacket("DUP with QoS 0", where="PUBLISH flags")


def check_from_client(properties: Properties) -> None:
    """Refuse properties only a server may set: subscription identifiers [MQTT-3.3.4-6]."""
    if properties.subscription_ids:
        raise ProtocolError("a client must not send it", where="PUBLISH subscription identifier")


def decode_publish(reader: FieldReader, version: int, first: int) -> Publish:
    """Decode the body of a PUBLISH; `first` is the first byte of the packet."""
    check_publish_flags(first)
    topic = reader.text("topic")
    qos = first >> 1 & 3
    packet_id = reader.packet_id() if qos else 0
    properties = decode_properties(reader, Kind.PUBLISH) if version == V5 else NONE
    if topic or properties.topic_alias is None:
        check_topic(topic)
    return Publish(
        topic=topic,
        payload=reader.take(reader.left, "payload"),
        qos=qos,
        retain=bool(first & 1),
        dup=bool(first & 8),
        packet_id=packet_id,
        properties=properties,
    )


def encode_publish(packet: Publish, version: int) -> tuple[int, bytes]:
    """First byte and body of a PUBLISH."""
    first = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
    check_publish_flags(first)
    assert bool(packet.qos) is (0 < packet.packet_id <= 0xFFFF), (packet.qos, packet.packet_id)
    if packet.topic or packet.properties.topic_alias is None:
        check_topic(packet.topic)
    return first, b"".join(
        (
            encode_text(packet.topic, where="PUBLISH topic"),
            packet.packet_id.to_bytes(2, "big") if packet.qos else b"",
            encode_properties(packet.properties, Kind.PUBLISH, packet="PUBLISH") if version == V5 else b"",
            packet.payload,
        )
    )


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Fields common to PUBACK, PUBREC, PUBREL and PUBCOMP."""

    kind: ClassVar[Kind]

    packet_id: int
    reason: int = Reason.SUCCESS
    """Always success in MQTT 3.1.1, whose acknowledgements carry no reason."""
    properties: Properties = NONE


class Puback(Ack, frozen=True, gc=False):
    """The receiver has a QoS 1 message."""

    kind = Kind.PUBACK


class Pubrec(Ack, frozen=True, gc=False):
    """The receiver has a QoS 2 message."""

    kind = Kind.PUBREC


class Pubrel(Ack, frozen=True, gc=False):
    """The sender will not repeat a QoS 2 message."""

    kind = Kind.PUBREL


class Pubcomp(Ack, frozen=True, gc=False):
    """A QoS 2 message is complete: its packet identifier is free."""

    kind = Kind.PUBCOMP


ACKS: Final[dict[Kind, type[Ack]]] = {each.kind: each for each in (Puback, Pubrec, Pubrel, Pubcomp)}

PLAIN_ACKS: Final = {kind << 4 | FLAGS[kind]: each for kind, each in ACKS.items()}
"""Acknowledgements by first byte: a frame of four bytes is a success in both versions, and by far the most
common."""


def decode_ack(reader: FieldReader, version: int, kind: Kind) -> Ack:
    """Decode the body of an acknowledgement."""
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
    """First byte and body of an acknowledgement.

    Reason and properties are left out where they are the defaults.
    """
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
    """Frame of a successful acknowledgement: four bytes, equal in both versions."""
    return _STARTS[kind] + packet_id.to_bytes(2, "big")


_STARTS: Final = {kind: bytes((kind << 4 | FLAGS[kind], 2)) for kind in ACKS}
