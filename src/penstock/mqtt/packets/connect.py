"""CONNECT, CONNACK, AUTH, PINGREQ, PINGRESP and DISCONNECT.

AUTH is MQTT 5 only. DISCONNECT has a reason and comes from either side in MQTT 5; in 3.1.1 only a client
sends it, without a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import MalformedPacket, MqttError, ProtocolError, UnsupportedVersion
from penstock.mqtt.codes import CONNACK_V4, FROM_CONNACK_V4, V4, V5, Kind, Reason, check_reason
from penstock.mqtt.fields import check_name, encode_binary, encode_text
from penstock.mqtt.packets.properties import NONE, WILL, Properties, decode_properties, encode_properties
from penstock.mqtt.topics import check_topic

if TYPE_CHECKING:
    from penstock.mqtt.fields import FieldReader


class Pingreq(msgspec.Struct, frozen=True, gc=False):
    """Keep-alive ping of a client."""


class Pingresp(msgspec.Struct, frozen=True, gc=False):
    """Answer of the server to a PINGREQ."""


PINGREQ: Final = b"\xc0\x00"
"""The PINGREQ frame, always these two bytes."""

PINGRESP: Final = b"\xd0\x00"
"""The PINGRESP frame, always these two bytes."""


_USERNAME: Final = 0x80
_PASSWORD: Final = 0x40
_WILL_RETAIN: Final = 0x20
_WILL_QOS: Final = 0x18
_WILL: Final = 0x04
_CLEAN_START: Final = 0x02
_RESERVED: Final = 0x01


class Will(msgspec.Struct, frozen=True, gc=False):
    """Message the server publishes when the client's connection is lost."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NONE


class Connect(msgspec.Struct, frozen=True, gc=False):
    """First packet of a client."""

    client_id: str = ""
    """Empty: the server assigns one."""
    version: int = V5
    clean_start: bool = True
    keep_alive_s: int = 60
    """0: no keep alive."""
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NONE


class Connack(msgspec.Struct, frozen=True, gc=False):
    """First packet of the server: accepts or refuses the connection."""

    session_present: bool = False
    reason: int = Reason.SUCCESS
    """Reason code of MQTT 5, in both versions."""
    properties: Properties = NONE


def decode_connect(reader: FieldReader) -> Connect:
    """Decode the body of a CONNECT; UnsupportedVersion for other protocols and versions."""
    version = _version(reader)
    flags = reader.u8("flags")
    _check_flags(flags, version)
    keep_alive_s = reader.u16("keep alive")
    properties = decode_properties(reader, Kind.CONNECT) if version == V5 else NONE
    client_id = reader.name("client identifier", reason=Reason.CLIENT_ID_NOT_VALID)
    will = _decode_will(reader, flags, version) if flags & _WILL else None
    username = reader.name("user name") if flags & _USERNAME else None
    password = reader.binary("password") if flags & _PASSWORD else None
    reader.finish()
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise ProtocolError("authentication data without a method", where="CONNECT properties")
    clean_start = bool(flags & _CLEAN_START)
    if version == V4 and not client_id and not clean_start:
        raise MqttError(
            "empty with clean session off; give a client identifier or set clean session",
            where="CONNECT client identifier",
            reason=Reason.CLIENT_ID_NOT_VALID,
        )  # [MQTT-3.1.3-8] of 3.1.1
    return Connect(
        client_id=client_id,
        version=version,
        clean_start=clean_start,
        keep_alive_s=keep_alive_s,
        will=will,
        username=username,
        password=password,
        properties=properties,
    )


def announced_version(body: bytes) -> int:
    """Version a CONNECT claims, so that a malformed one can be answered; 4 if unreadable."""
    return V5 if body[:7] == b"\0\4MQTT\5" else V4


def _version(reader: FieldReader) -> int:
    name = reader.binary("protocol name")
    if name not in (b"MQTT", b"MQIsdp"):
        raise UnsupportedVersion(f"the protocol is {name[:16]!r}, not MQTT", answer=b"")
    level = reader.u8("protocol level")
    if name == b"MQTT" and level in (V4, V5):
        return level
    # Levels 3 and 4 know the CONNACK of two bytes, any other is answered as MQTT 5 says (section 3.1.2.2).
    answer = b"\x20\x02\x00\x01" if level in (3, V4) else b"\x20\x03\x00\x84\x00"
    raise UnsupportedVersion(
        f"{name.decode()} level {level}; MQTT 3.1.1 (level 4) and MQTT 5 are spoken", answer=answer
    )


def _check_flags(flags: int, version: int) -> None:
    if flags & _RESERVED:
        raise MalformedPacket("the reserved bit is set", where="CONNECT flags")
    if flags & _WILL_QOS == _WILL_QOS:
        raise MalformedPacket("a will of QoS 3", where="CONNECT flags")
    if not flags & _WILL and flags & (_WILL_QOS | _WILL_RETAIN):
        raise MalformedPacket("will QoS or will RETAIN without a will", where="CONNECT flags")
    if version == V4 and flags & _PASSWORD and not flags & _USERNAME:
        raise MalformedPacket("a password without a user name", where="CONNECT flags")  # [MQTT-3.1.2-22]


def _decode_will(reader: FieldReader, flags: int, version: int) -> Will:
    properties = decode_properties(reader, WILL) if version == V5 else NONE
    topic = check_topic(reader.text("will topic"), where=reader.where("will topic"))
    return Will(
        topic=topic,
        payload=reader.binary("will payload"),
        qos=(flags & _WILL_QOS) >> 3,
        retain=bool(flags & _WILL_RETAIN),
        properties=properties,
    )


def encode_connect(packet: Connect) -> tuple[int, bytes]:
    """First byte and body of a CONNECT."""
    assert packet.version in (V4, V5), packet.version
    assert 0 <= packet.keep_alive_s <= 0xFFFF, packet.keep_alive_s
    will = packet.will
    flags = (
        (_CLEAN_START if packet.clean_start else 0)
        | (_USERNAME if packet.username is not None else 0)
        | (_PASSWORD if packet.password is not None else 0)
    )
    if will is not None:
        flags |= _WILL | will.qos << 3 | (_WILL_RETAIN if will.retain else 0)
    _check_flags(flags, packet.version)
    parts = [b"\0\4MQTT", bytes((packet.version, flags)), packet.keep_alive_s.to_bytes(2, "big")]
    if packet.version == V5:
        parts.append(encode_properties(packet.properties, Kind.CONNECT, packet="CONNECT"))
    where = "CONNECT client identifier"
    parts.append(encode_text(check_name(packet.client_id, where=where), where=where))
    if will is not None:
        if packet.version == V5:
            parts.append(encode_properties(will.properties, WILL, packet="CONNECT will"))
        where = "CONNECT will topic"
        parts.append(encode_text(check_topic(will.topic, where=where), where=where))
        parts.append(encode_binary(will.payload, where="CONNECT will payload"))
    if packet.username is not None:
        where = "CONNECT user name"
        parts.append(encode_text(check_name(packet.username, where=where), where=where))
    if packet.password is not None:
        parts.append(encode_binary(packet.password, where="CONNECT password"))
    return 0x10, b"".join(parts)


def decode_connack(reader: FieldReader, version: int) -> Connack:
    """Decode the body of a CONNACK."""
    flags = reader.u8("flags")
    code = reader.u8("reason code")
    if flags > 1:
        raise MalformedPacket("reserved bits are set", where="CONNACK flags")
    if version == V4:
        if code not in FROM_CONNACK_V4:
            raise ProtocolError(f"{code}; from 0 to 5", where="CONNACK return code")
        reason, properties = int(FROM_CONNACK_V4[code]), NONE
    else:
        reason, properties = code, decode_properties(reader, Kind.CONNACK)
        check_reason(reason, Kind.CONNACK)
    reader.finish()
    if flags and reason:
        raise ProtocolError("session present in a refused connection", where="CONNACK flags")
    return Connack(session_present=bool(flags), reason=reason, properties=properties)


def encode_connack(packet: Connack, version: int) -> tuple[int, bytes]:
    """First byte and body of a CONNACK; MQTT 3.1.1 can only express the reasons of CONNACK_V4."""
    start = bytes((packet.session_present,))
    if version == V4:
        return 0x20, start + bytes((CONNACK_V4[Reason(packet.reason)],))
    properties = encode_properties(packet.properties, Kind.CONNACK, packet="CONNACK")
    return 0x20, start + bytes((packet.reason,)) + properties


class Auth(msgspec.Struct, frozen=True, gc=False):
    """One step of an extended authentication exchange."""

    reason: int = Reason.SUCCESS
    properties: Properties = NONE


def decode_auth(reader: FieldReader, version: int) -> Auth:
    """Decode the body of an AUTH."""
    if version == V4:
        raise MalformedPacket("MQTT 3.1.1 has no such packet", where="AUTH")
    if not reader.left:
        return Auth()
    reason = check_reason(reader.u8("reason code"), Kind.AUTH)
    properties = decode_properties(reader, Kind.AUTH)
    reader.finish()
    return Auth(reason, properties)


def encode_auth(packet: Auth, version: int) -> tuple[int, bytes]:
    """First byte and body of an AUTH; a success without properties has an empty body (section 3.15.2.1)."""
    if version == V4:
        raise MalformedPacket("MQTT 3.1.1 has no such packet", where="AUTH")
    if not packet.reason and packet.properties == NONE:
        return 0xF0, b""
    body = bytes((check_reason(packet.reason, Kind.AUTH),))
    return 0xF0, body + encode_properties(packet.properties, Kind.AUTH, packet="AUTH")


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """Last packet of a connection."""

    reason: int = Reason.SUCCESS
    properties: Properties = NONE


def decode_disconnect(reader: FieldReader, version: int) -> Disconnect:
    """Decode the body of a DISCONNECT."""
    reason: int = Reason.SUCCESS
    properties = NONE
    if version != V4 and reader.left:
        reason = reader.u8("reason code")
        properties = decode_properties(reader, Kind.DISCONNECT) if reader.left else NONE
    reader.finish()
    check_reason(reason, Kind.DISCONNECT)
    return Disconnect(reason, properties)


def encode_disconnect(packet: Disconnect, version: int) -> tuple[int, bytes]:
    """First byte and body of a DISCONNECT; reason and properties are left out where they are the defaults."""
    if version == V4 or (not packet.reason and packet.properties == NONE):
        return 0xE0, b""
    body = bytes((check_reason(packet.reason, Kind.DISCONNECT),))
    if packet.properties == NONE:
        return 0xE0, body
    return 0xE0, body + encode_properties(packet.properties, Kind.DISCONNECT, packet="DISCONNECT")
