"""SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.errors import MalformedPacket, MqttError, ProtocolError
from penstock.mqtt.codes import V4, V5, Kind, Reason, check_reason
from penstock.mqtt.fields import encode_text
from penstock.mqtt.packets.properties import NONE, Properties, decode_properties, encode_properties
from penstock.mqtt.topics import check_filter

if TYPE_CHECKING:
    from penstock.mqtt.fields import FieldReader

_NO_LOCAL: Final = 0x04
_RETAIN_AS_PUBLISHED: Final = 0x08


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """One filter of a SUBSCRIBE with its options; MQTT 3.1.1 has only the QoS."""

    filter: str
    qos: int = 0
    no_local: bool = False
    """Do not send back messages this client published itself."""
    retain_as_published: bool = False
    """Forward RETAIN as the publisher set it."""
    retain_handling: int = 0
    """Retained messages: 0 send them, 1 send them if the subscription is new, 2 do not send them."""


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """Request of a client to subscribe."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NONE


class Suback(msgspec.Struct, frozen=True, gc=False):
    """Answer to a SUBSCRIBE: for each filter, in order, the granted QoS or the reason of refusal."""

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NONE


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    """Request of a client to unsubscribe."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NONE


class Unsuback(msgspec.Struct, frozen=True, gc=False):
    """Answer to an UNSUBSCRIBE: a reason for each filter, in order; none in MQTT 3.1.1."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NONE


def decode_subscribe(reader: FieldReader, version: int) -> Subscribe:
    """Decode the body of a SUBSCRIBE."""
    packet_id, properties = _start(reader, version, Kind.SUBSCRIBE)
    subscriptions = []
    while reader.left:
        filter_ = reader.text("filter")
        subscriptions.append(_subscription(filter_, reader.u8("options"), version))
        _check_count(len(subscriptions), "SUBSCRIBE")
    if not subscriptions:
        raise MalformedPacket("no filter; at least one is needed", where="SUBSCRIBE")
    return Subscribe(packet_id, tuple(subscriptions), properties)


def _subscription(filter_: str, options: int, version: int) -> Subscription:
    where = "SUBSCRIBE options"
    if options & 3 == 3:
        raise MalformedPacket("QoS 3", where=where)
    if options & (0xFC if version == V4 else 0xC0):
        raise MalformedPacket(f"reserved bits are set in 0x{options:02X}", where=where)
    if options & 0x30 == 0x30:
        raise MalformedPacket("retain handling 3; from 0 to 2", where=where)
    shared = check_filter(filter_)
    if shared.group and options & _NO_LOCAL:
        raise ProtocolError(f"no local on shared subscription '{filter_}'", where=where)  # [MQTT-3.8.3-4]
    return Subscription(
        filter=filter_,
        qos=options & 3,
        no_local=bool(options & _NO_LOCAL),
        retain_as_published=bool(options & _RETAIN_AS_PUBLISHED),
        retain_handling=options >> 4 & 3,
    )


def encode_subscribe(packet: Subscribe, version: int) -> tuple[int, bytes]:
    """First byte and body of a SUBSCRIBE."""
    parts = [_encoded_start(packet.packet_id, packet.properties, version, Kind.SUBSCRIBE)]
    if not packet.subscriptions:
        raise MalformedPacket("no filter; at least one is needed", where="SUBSCRIBE")
    for each in packet.subscriptions:
        options = (
            each.qos
            | (_NO_LOCAL if each.no_local else 0)
            | (_RETAIN_AS_PUBLISHED if each.retain_as_published else 0)
            | each.retain_handling << 4
        )
        _subscription(each.filter, options, version)
        parts += (encode_text(each.filter, where="SUBSCRIBE filter"), bytes((options,)))
    return 0x82, b"".join(parts)


def decode_suback(reader: FieldReader, version: int) -> Suback:
    """Decode the body of a SUBACK."""
    packet_id, properties = _start(reader, version, Kind.SUBACK)
    reasons = tuple(reader.take(reader.left, "reason codes"))
    for reason in reasons:
        check_reason(reason, Kind.SUBACK)
        if version == V4 and reason not in (0, 1, 2, 0x80):
            raise ProtocolError(f"return code {reason}; 0, 1, 2 or 128", where="SUBACK")
    return Suback(packet_id, reasons, properties)


def encode_suback(packet: Suback, version: int) -> tuple[int, bytes]:
    """First byte and body of a SUBACK; MQTT 3.1.1 has a single failure code."""
    start = _encoded_start(packet.packet_id, packet.properties, version, Kind.SUBACK)
    if version == V4:
        return 0x90, start + bytes(min(reason, Reason.UNSPECIFIED) for reason in packet.reasons)
    return 0x90, start + bytes(check_reason(reason, Kind.SUBACK) for reason in packet.reasons)


def decode_unsubscribe(reader: FieldReader, version: int) -> Unsubscribe:
    """Decode the body of an UNSUBSCRIBE."""
    packet_id, properties = _start(reader, version, Kind.UNSUBSCRIBE)
    filters = []
    while reader.left:
        filters.append(reader.text("filter"))
        check_filter(filters[-1], where="UNSUBSCRIBE filter")
        _check_count(len(filters), "UNSUBSCRIBE")
    if not filters:
        raise MalformedPacket("no filter; at least one is needed", where="UNSUBSCRIBE")
    return Unsubscribe(packet_id, tuple(filters), properties)


def encode_unsubscribe(packet: Unsubscribe, version: int) -> tuple[int, bytes]:
    """First byte and body of an UNSUBSCRIBE."""
    parts = [_encoded_start(packet.packet_id, packet.properties, version, Kind.UNSUBSCRIBE)]
    where = "UNSUBSCRIBE filter"
    if not packet.filters:
        raise MalformedPacket("no filter; at least one is needed", where="UNSUBSCRIBE")
    for each in packet.filters:
        check_filter(each, where=where)
        parts.append(encode_text(each, where=where))
    return 0xA2, b"".join(parts)


def decode_unsuback(reader: FieldReader, version: int) -> Unsuback:
    """Decode the body of an UNSUBACK."""
    packet_id, properties = _start(reader, version, Kind.UNSUBACK)
    if version == V4:
        reader.finish()
    reasons = tuple(reader.take(reader.left, "reason codes"))
    for reason in reasons:
        check_reason(reason, Kind.UNSUBACK)
    return Unsuback(packet_id, reasons, properties)


def encode_unsuback(packet: Unsuback, version: int) -> tuple[int, bytes]:
    """First byte and body of an UNSUBACK."""
    start = _encoded_start(packet.packet_id, packet.properties, version, Kind.UNSUBACK)
    if version == V4:
        return 0xB0, start
    return 0xB0, start + bytes(check_reason(reason, Kind.UNSUBACK) for reason in packet.reasons)


def _start(reader: FieldReader, version: int, kind: Kind) -> tuple[int, Properties]:
    packet_id = reader.packet_id()
    return packet_id, decode_properties(reader, kind) if version == V5 else NONE


def _encoded_start(packet_id: int, properties: Properties, version: int, kind: Kind) -> bytes:
    assert 0 < packet_id <= 0xFFFF, packet_id
    start = packet_id.to_bytes(2, "big")
    return start + encode_properties(properties, kind, packet=kind.name) if version == V5 else start


def _check_count(count: int, packet: str) -> None:
    if count > limits.MQTT_FILTERS:
        raise MqttError(
            f"more than {limits.MQTT_FILTERS} filters; use several packets",
            where=packet,
            reason=Reason.QUOTA_EXCEEDED,
        )
