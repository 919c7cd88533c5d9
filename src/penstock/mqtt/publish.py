"""PUBLISH as a value; `fanout.py` is the fast way past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.errors import MalformedPacket, ProtocolError
from penstock.mqtt.kinds import V5, Kind
from penstock.mqtt.properties import NONE, Properties, decode_properties, encode_properties
from penstock.mqtt.text import encode_text
from penstock.mqtt.topics import check_topic

if TYPE_CHECKING:
    from penstock.mqtt.reader import Reader


class Publish(msgspec.Struct, frozen=True, gc=False):
    """A message on its way."""

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
    """DUP, QoS and RETAIN in the first byte of a PUBLISH."""
    if first & 6 == 6:
        raise MalformedPacket("QoS 3", where="PUBLISH flags")
    if first & 14 == 8:
        raise MalformedPacket("DUP with QoS 0", where="PUBLISH flags")


def check_from_client(properties: Properties) -> None:
    """What a client must not say: which subscriptions match is for the server to tell [MQTT-3.3.4-6]."""
    if properties.subscription_ids:
        raise ProtocolError("a client must not send it", where="PUBLISH subscription identifier")


def decode_publish(reader: Reader, version: int, first: int) -> Publish:
    """The body of a PUBLISH; `first` is the packet's first byte."""
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
