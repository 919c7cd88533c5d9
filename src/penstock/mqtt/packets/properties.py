"""MQTT 5 properties: the table of their types and packets, and the codec that follows the table.

`Properties` has a field for each property; an absent one is `None` (or an empty tuple). `NONE` has no
property set. In MQTT 3.1.1 no packet has properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.errors import MalformedPacket, MqttError, ProtocolError
from penstock.mqtt.codes import Kind, Reason
from penstock.mqtt.fields import MOST_VARINT, FieldReader, encode_binary, encode_text, encode_varint
from penstock.mqtt.topics import check_topic

if TYPE_CHECKING:
    from collections.abc import Callable

WILL: Final = 0
"""Key of a will's properties in the table, where packets are keyed by kind."""


class Properties(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Properties of one packet, named as in the specification; times have their unit in the name."""

    payload_format_indicator: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    """At most one in a SUBSCRIBE."""
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_s: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    """User properties in order; a name may repeat."""
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_ids_available: int | None = None
    shared_subscription_available: int | None = None


NONE: Final = Properties()
"""No properties at all."""


class Form(Enum):
    """How a property's value is encoded."""

    BIT = "a byte that is 0 or 1"
    U16 = "two byte integer"
    U32 = "four byte integer"
    VARINT = "variable byte integer"
    TEXT = "text"
    NAME = "text that names something"
    TOPIC = "topic name"
    BINARY = "binary data"
    PAIR = "pair of texts"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of table 2-4."""

    id: int
    field: str
    form: Form
    where: frozenset[int]
    many: frozenset[int]
    """Packets in which it may occur more than once."""
    least: int
    """Smallest number allowed."""
    most: int
    """Largest number allowed; 0: the property is not a number."""
    read: Callable[[FieldReader, str], Any]


def _topic(reader: FieldReader, name: str) -> str:
    return check_topic(reader.text(name), where=reader.where(name))


def _pair(reader: FieldReader, name: str) -> tuple[str, str]:
    return reader.text(name), reader.text(name)


_FORMS: Final[dict[Form, tuple[int, Callable[[FieldReader, str], Any]]]] = {
    Form.BIT: (1, FieldReader.u8),
    Form.U16: (0xFFFF, FieldReader.u16),
    Form.U32: (0xFFFF_FFFF, FieldReader.u32),
    Form.VARINT: (MOST_VARINT, FieldReader.varint),
    Form.TEXT: (0, FieldReader.text),
    Form.NAME: (0, FieldReader.name),
    Form.TOPIC: (0, _topic),
    Form.BINARY: (0, FieldReader.binary),
    Form.PAIR: (0, _pair),
}
"""By form: the largest number (0: not a number), and the function that reads it."""


def _rule(
    number: int, field: str, form: Form, *where: int, many: tuple[int, ...] = (), least: int = 0
) -> Rule:
    most, read = _FORMS[form]
    return Rule(number, field, form, frozenset(where), frozenset(many), least, most, read)


_ANSWERS: Final = (
    Kind.CONNACK, Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP, Kind.SUBACK, Kind.UNSUBACK,
    Kind.DISCONNECT, Kind.AUTH,
)  # fmt: skip
_EVERYWHERE: Final = (
    *_ANSWERS, Kind.CONNECT, Kind.PUBLISH, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE, WILL,
)  # fmt: skip

TABLE: Final = (
    _rule(0x01, "payload_format_indicator", Form.BIT, Kind.PUBLISH, WILL),
    _rule(0x02, "message_expiry_s", Form.U32, Kind.PUBLISH, WILL),
    _rule(0x03, "content_type", Form.TEXT, Kind.PUBLISH, WILL),
    _rule(0x08, "response_topic", Form.TOPIC, Kind.PUBLISH, WILL),
    _rule(0x09, "correlation_data", Form.BINARY, Kind.PUBLISH, WILL),
    _rule(0x0B, "subscription_ids", Form.VARINT, Kind.PUBLISH, Kind.SUBSCRIBE, many=(Kind.PUBLISH,), least=1),
    _rule(0x11, "session_expiry_s", Form.U32, Kind.CONNECT, Kind.CONNACK, Kind.DISCONNECT),
    _rule(0x12, "assigned_client_id", Form.NAME, Kind.CONNACK),
    _rule(0x13, "server_keep_alive_s", Form.U16, Kind.CONNACK),
    _rule(0x15, "authentication_method", Form.TEXT, Kind.CONNECT, Kind.CONNACK, Kind.AUTH),
    _rule(0x16, "authentication_data", Form.BINARY, Kind.CONNECT, Kind.CONNACK, Kind.AUTH),
    _rule(0x17, "request_problem_information", Form.BIT, Kind.CONNECT),
    _rule(0x18, "will_delay_s", Form.U32, WILL),
    _rule(0x19, "request_response_information", Form.BIT, Kind.CONNECT),
    _rule(0x1A, "response_information", Form.TEXT, Kind.CONNACK),
    _rule(0x1C, "server_reference", Form.TEXT, Kind.CONNACK, Kind.DISCONNECT),
    _rule(0x1F, "reason_string", Form.TEXT, *_ANSWERS),
    _rule(0x21, "receive_maximum", Form.U16, Kind.CONNECT, Kind.CONNACK, least=1),
    _rule(0x22, "topic_alias_maximum", Form.U16, Kind.CONNECT, Kind.CONNACK),
    _rule(0x23, "topic_alias", Form.U16, Kind.PUBLISH),
    _rule(0x24, "maximum_qos", Form.BIT, Kind.CONNACK),
    _rule(0x25, "retain_available", Form.BIT, Kind.CONNACK),
    _rule(0x26, "user", Form.PAIR, *_EVERYWHERE, many=_EVERYWHERE),
    _rule(0x27, "maximum_packet_size", Form.U32, Kind.CONNECT, Kind.CONNACK, least=1),
    _rule(0x28, "wildcard_subscription_available", Form.BIT, Kind.CONNACK),
    _rule(0x29, "subscription_ids_available", Form.BIT, Kind.CONNACK),
    _rule(0x2A, "shared_subscription_available", Form.BIT, Kind.CONNACK),
)
"""Every property of MQTT 5. Topic alias 0 passes here: `AliasesIn` refuses it with reason 0x94."""

BY_ID: Final = {rule.id: rule for rule in TABLE}

MISPLACED_IS_MALFORMED: Final = frozenset({Kind.SUBSCRIBE, Kind.UNSUBSCRIBE})
"""In these packets a property of another packet is malformed (section 2.2.2.2); in others it is answered
as a protocol error, as Mosquitto does, against which clients were tested.
"""

_TUPLES: Final = frozenset({"subscription_ids", "user"})


def decode_properties(reader: FieldReader, kind: int) -> Properties:
    """Decode the properties at the reader's position; `kind` is the packet's kind, or WILL."""
    length = reader.varint("property length")
    if not length:
        return NONE
    inner = reader.inside(length, "properties")
    found: dict[str, Any] = {}
    while inner.left:
        number = inner.u8("property identifier")  # by the specification a varint; all are below 128
        rule = BY_ID.get(number)
        if rule is None:
            raise MalformedPacket(f"0x{number:02X} is not a known property", where=inner.where("properties"))
        value = rule.read(inner, rule.field)
        if rule.most and not rule.least <= value <= rule.most:
            raise _out_of_range(rule, value, inner.packet)
        if kind not in rule.where or (rule.field in found and kind not in rule.many):
            raise _misplaced(rule, kind, inner.packet)
        if rule.field in _TUPLES:
            found.setdefault(rule.field, []).append(value)
            if rule.form is Form.PAIR and len(found[rule.field]) > limits.MQTT_USER_PROPERTIES:
                raise MqttError(
                    f"more than {limits.MQTT_USER_PROPERTIES}",
                    where=inner.where(rule.field),
                    reason=Reason.QUOTA_EXCEEDED,
                )
        else:
            found[rule.field] = value
    for field in _TUPLES & found.keys():
        found[field] = tuple(found[field])
    return Properties(**found)


def _out_of_range(rule: Rule, value: int, packet: str) -> ProtocolError:
    return ProtocolError(f"{value}; from {rule.least} to {rule.most}", where=f"{packet} {rule.field}")


def _misplaced(rule: Rule, kind: int, packet: str) -> MqttError:
    where = f"{packet} {rule.field}"
    if kind in rule.where:
        return ProtocolError("given twice; at most once", where=where)
    reason = Reason.MALFORMED_PACKET if kind in MISPLACED_IS_MALFORMED else Reason.PROTOCOL_ERROR
    return MqttError("property not allowed in this packet", where=where, reason=reason)


def encode_properties(properties: Properties, kind: int, *, packet: str) -> bytes:
    """Encode properties with their length in front."""
    if properties is NONE:
        return b"\0"
    parts = []
    for rule in TABLE:
        value = getattr(properties, rule.field)
        if value is None or value == ():
            continue
        values = value if rule.field in _TUPLES else (value,)
        if kind not in rule.where or (len(values) > 1 and kind not in rule.many):
            raise _misplaced(rule, kind, packet)
        parts += [_encoded(rule, one, packet) for one in values]
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def user_properties(user: tuple[tuple[str, str], ...]) -> bytes:
    """Encode user properties alone, with their length in front: faster than `encode_properties`."""
    where = "user property"
    body = b"".join(
        [b"\x26" + encode_text(name, where=where) + encode_text(value, where=where) for name, value in user]
    )
    return encode_varint(len(body)) + body


def _encoded(rule: Rule, value: Any, packet: str) -> bytes:
    start = bytes((rule.id,))
    where = f"{packet} {rule.field}"
    if rule.most and not rule.least <= value <= rule.most:
        raise _out_of_range(rule, value, packet)
    match rule.form:
        case Form.BIT:
            return start + bytes((value,))
        case Form.U16:
            return start + int.to_bytes(value, 2, "big")
        case Form.U32:
            return start + int.to_bytes(value, 4, "big")
        case Form.VARINT:
            return start + encode_varint(value)
        case Form.TEXT | Form.NAME | Form.TOPIC:
            return start + encode_text(value, where=where)
        case Form.BINARY:
            return start + encode_binary(value, where=where)
        case Form.PAIR:
            name, content = value
            return start + encode_text(name, where=where) + encode_text(content, where=where)
