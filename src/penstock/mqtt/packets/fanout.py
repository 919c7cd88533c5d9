"""Fast path of PUBLISH: finds the parts of a frame without making objects, and joins parts to frames.

A PUBLISH is head (first byte, length, topic), packet identifier (QoS 1 and 2 only) and tail (properties in
MQTT 5, payload). Receivers of one version share head and tail. With QoS 0 they share the whole frame: the one
the publisher sent, if nothing has to be rewritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock.errors import MalformedPacket
from penstock.mqtt.codes import Kind
from penstock.mqtt.fields import FieldReader, decode_varint, encode_varint
from penstock.mqtt.packets.properties import NONE, decode_properties, encode_properties
from penstock.mqtt.packets.publish import check_from_client, check_publish_flags

if TYPE_CHECKING:
    from penstock.mqtt.packets.properties import Properties

NO_PROPERTIES: Final = b"\0"
"""Length byte of empty properties, with which an MQTT 5 tail begins."""


def spans(frame: bytes, version: int) -> tuple[int, bytes, int, int, int]:
    """First byte, topic, packet identifier, and where properties and payload begin.

    The properties, without their length, are `frame[properties_at:payload_at]`; nothing in MQTT 3.1.1. They
    and the topic are not checked yet: `check_topic` and `properties_of` do that, once for each that is new.
    """
    first = frame[0]
    if first & 6 == 6 or first & 14 == 8:
        check_publish_flags(first)
    try:
        at = 2 if frame[1] < 128 else 3 if frame[2] < 128 else 4 if frame[3] < 128 else 5
        start = at + 2
        at = start + (frame[at] << 8 | frame[at + 1])
        topic = frame[start:at]
        if first & 6:
            packet_id = frame[at] << 8 | frame[at + 1]
            if not packet_id:
                raise MalformedPacket("0 is not a packet identifier", where="PUBLISH packet identifier")
            at += 2
        else:
            packet_id = 0
        if version == 5:
            length = frame[at]
            at += 1
            if length:
                if length > 127:
                    length, at = decode_varint(frame, at - 1, where="PUBLISH property length")
                start = at
                at += length
                if at > len(frame):
                    raise _cut_off()
                return first, topic, packet_id, start, at
    except IndexError:
        raise _cut_off() from None
    if at > len(frame):
        raise _cut_off()
    return first, topic, packet_id, at, at


def _cut_off() -> MalformedPacket:
    return MalformedPacket("the packet ends inside a field", where="PUBLISH")


def properties_of(raw: bytes, *, from_client: bool = True) -> Properties:
    """Decode and check the properties that `spans` found."""
    if not raw:
        return NONE
    reader = FieldReader(encode_varint(len(raw)) + raw, packet="PUBLISH")
    properties = decode_properties(reader, Kind.PUBLISH)
    if from_client:
        check_from_client(properties)
    return properties


def forwarded(
    properties: Properties,
    *,
    subscription_ids: tuple[int, ...] = (),
    message_expiry_s: int | None = None,
    topic_alias: int | None = None,
) -> bytes:
    """Encode properties with their length for one receiver.

    Subscription identifiers and topic alias are the receiver's, never the sender's. `message_expiry_s` is the
    time left; `None` keeps the publisher's value.
    """
    if properties is NONE and not subscription_ids and topic_alias is None:
        return NO_PROPERTIES
    rewritten = replace(
        properties,
        subscription_ids=subscription_ids,
        topic_alias=topic_alias,
        message_expiry_s=properties.message_expiry_s if message_expiry_s is None else message_expiry_s,
    )
    return encode_properties(rewritten, Kind.PUBLISH, packet="PUBLISH")


def frame_qos0(topic: bytes, tail: bytes, *, retain: bool = False) -> bytes:
    """Frame of a QoS 0 PUBLISH; in MQTT 5 the tail begins with the length of the properties."""
    size = len(topic)
    return b"%c%b%c%c%b%b" % (
        0x31 if retain else 0x30,
        encode_varint(size + 2 + len(tail)),
        size >> 8,
        size & 255,
        topic,
        tail,
    )


def head(topic: bytes, tail_bytes: int, *, qos: int, retain: bool = False, dup: bool = False) -> bytes:
    """Everything before the packet identifier of a QoS 1 or 2 PUBLISH whose tail has `tail_bytes`."""
    size = len(topic)
    return b"%c%b%c%c%b" % (
        0x30 | dup << 3 | qos << 1 | retain,
        encode_varint(size + 4 + tail_bytes),
        size >> 8,
        size & 255,
        topic,
    )


def assemble(head: bytes, packet_id: int, tail: bytes) -> bytes:
    """Frame of a QoS 1 or 2 PUBLISH."""
    return head + packet_id.to_bytes(2, "big") + tail
