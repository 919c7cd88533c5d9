"""Any packet: `decode` turns a whole frame into a packet value, `encode` turns the value into a frame."""

from __future__ import annotations

from typing import Final, TypeAlias

from penstock.errors import MalformedPacket, ProtocolError
from penstock.mqtt.codes import FLAGS, Kind
from penstock.mqtt.fields import FieldReader, decode_varint, encode_varint
from penstock.mqtt.packets.connect import (
    PINGREQ,
    PINGRESP,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    decode_auth,
    decode_connack,
    decode_connect,
    decode_disconnect,
    encode_auth,
    encode_connack,
    encode_connect,
    encode_disconnect,
)
from penstock.mqtt.packets.publish import (
    PLAIN_ACKS,
    Ack,
    Publish,
    decode_ack,
    decode_publish,
    encode_ack,
    encode_publish,
)
from penstock.mqtt.packets.subscribe import (
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    decode_suback,
    decode_subscribe,
    decode_unsuback,
    decode_unsubscribe,
    encode_suback,
    encode_subscribe,
    encode_unsuback,
    encode_unsubscribe,
)

Packet: TypeAlias = (
    Connect
    | Connack
    | Publish
    | Ack
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
"""Any packet value."""


_KINDS: Final = tuple(Kind)
"""By packet type, which begins at 1: `Kind(…)` takes ten times as long, for each packet."""


def kind_of(frame: bytes) -> Kind:
    """Kind of a frame; MalformedPacket if its first byte is not valid."""
    first = frame[0]
    if first < 0x10:
        raise MalformedPacket(f"packet type 0 in 0x{first:02X}", where="first byte")
    kind = _KINDS[(first >> 4) - 1]
    if kind is not Kind.PUBLISH and first & 15 != FLAGS[kind]:
        # Like Mosquitto: wrong flags are a protocol error on DISCONNECT, malformed on every other packet.
        error = ProtocolError if kind is Kind.DISCONNECT else MalformedPacket
        raise error(f"flags {first & 15}; they must be {FLAGS[kind]}", where=f"{kind.name} first byte")
    return kind


def body_of(frame: bytes) -> int:
    """Index at which the body of a whole frame begins."""
    return decode_varint(frame, 1, where="remaining length")[1]


def decode(frame: bytes, version: int) -> Packet:
    """Decode a whole frame, as `Framer.feed` returns it."""
    if len(frame) == 4 and frame[0] in PLAIN_ACKS and (packet_id := frame[2] << 8 | frame[3]):
        return PLAIN_ACKS[frame[0]](packet_id)
    kind = kind_of(frame)
    reader = FieldReader(frame, packet=kind.name, at=body_of(frame))
    match kind:
        case Kind.PUBLISH:
            return decode_publish(reader, version, frame[0])
        case Kind.CONNECT:
            return decode_connect(reader)
        case Kind.CONNACK:
            return decode_connack(reader, version)
        case Kind.SUBSCRIBE:
            return decode_subscribe(reader, version)
        case Kind.SUBACK:
            return decode_suback(reader, version)
        case Kind.UNSUBSCRIBE:
            return decode_unsubscribe(reader, version)
        case Kind.UNSUBACK:
            return decode_unsuback(reader, version)
        case Kind.DISCONNECT:
            return decode_disconnect(reader, version)
        case Kind.AUTH:
            return decode_auth(reader, version)
        case Kind.PINGREQ | Kind.PINGRESP:
            reader.finish()
            return Pingreq() if kind is Kind.PINGREQ else Pingresp()
        case _:
            return decode_ack(reader, version, kind)


def encode(packet: Packet, version: int) -> bytes:
    """Encode a packet as a whole frame."""
    first, body = _encode_body(packet, version)
    return bytes((first,)) + encode_varint(len(body)) + body


def _encode_body(packet: Packet, version: int) -> tuple[int, bytes]:  # noqa: C901 (one line per kind)
    match packet:
        case Publish():
            return encode_publish(packet, version)
        case Ack():
            return encode_ack(packet, version)
        case Connect():
            return encode_connect(packet)
        case Connack():
            return encode_connack(packet, version)
        case Subscribe():
            return encode_subscribe(packet, version)
        case Suback():
            return encode_suback(packet, version)
        case Unsubscribe():
            return encode_unsubscribe(packet, version)
        case Unsuback():
            return encode_unsuback(packet, version)
        case Disconnect():
            return encode_disconnect(packet, version)
        case Auth():
            return encode_auth(packet, version)
        case Pingreq():
            return PINGREQ[0], b""
        case Pingresp():
            return PINGRESP[0], b""
