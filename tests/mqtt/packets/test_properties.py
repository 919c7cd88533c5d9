"""The table of properties says what section 2.2.2.2 says."""

from __future__ import annotations

import pytest

from penstock.errors import MqttError
from penstock.mqtt.codes import Kind
from penstock.mqtt.fields import FieldReader
from penstock.mqtt.packets.properties import (
    BY_ID,
    NONE,
    TABLE,
    WILL,
    Properties,
    decode_properties,
    encode_properties,
    user_properties,
)

# Table 2-4, by packet: the identifiers that may stand in it.
IN_PACKETS = {
    Kind.CONNECT: {0x11, 0x15, 0x16, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27},
    Kind.CONNACK: {
        *(0x11, 0x12, 0x13, 0x15, 0x16, 0x1A, 0x1C, 0x1F, 0x21, 0x22),
        *(0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A),
    },
    Kind.PUBLISH: {0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26},
    WILL: {0x01, 0x02, 0x03, 0x08, 0x09, 0x18, 0x26},
    Kind.PUBACK: {0x1F, 0x26},
    Kind.PUBREC: {0x1F, 0x26},
    Kind.PUBREL: {0x1F, 0x26},
    Kind.PUBCOMP: {0x1F, 0x26},
    Kind.SUBSCRIBE: {0x0B, 0x26},
    Kind.SUBACK: {0x1F, 0x26},
    Kind.UNSUBSCRIBE: {0x26},
    Kind.UNSUBACK: {0x1F, 0x26},
    Kind.PINGREQ: set(),
    Kind.PINGRESP: set(),
    Kind.DISCONNECT: {0x11, 0x1C, 0x1F, 0x26},
    Kind.AUTH: {0x15, 0x16, 0x1F, 0x26},
}


@pytest.mark.parametrize("kind", IN_PACKETS)
def test_each_packet_has_its_properties(kind: int) -> None:
    assert {rule.id for rule in TABLE if kind in rule.where} == IN_PACKETS[kind]


def test_every_property_has_one_field() -> None:
    assert len(BY_ID) == len(TABLE) == 27
    assert {rule.field for rule in TABLE} == set(Properties.__struct_fields__)


def test_what_may_repeat_and_what_may_not() -> None:
    assert {rule.id for rule in TABLE if rule.many} == {0x0B, 0x26}
    twice = Properties(subscription_ids=(1, 300))
    raw = encode_properties(twice, Kind.PUBLISH, packet="PUBLISH")
    assert decode_properties(FieldReader(raw, packet="PUBLISH"), Kind.PUBLISH) == twice
    with pytest.raises(MqttError, match="twice"):
        encode_properties(twice, Kind.SUBSCRIBE, packet="SUBSCRIBE")
    with pytest.raises(MqttError, match="twice"):
        decode_properties(FieldReader(raw, packet="SUBSCRIBE"), Kind.SUBSCRIBE)


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (Kind.PUBACK, Properties(topic_alias=1), "not allowed in this packet"),
        (Kind.CONNECT, Properties(receive_maximum=0), "0; from 1 to 65535"),
        (Kind.CONNECT, Properties(session_expiry_s=1 << 32), "from 0 to 4294967295"),
        (Kind.CONNACK, Properties(maximum_qos=2), "2; from 0 to 1"),
        (Kind.PUBLISH, Properties(subscription_ids=(0,)), "0; from 1"),
        (Kind.PUBLISH, Properties(content_type="a" * 65_536), "65536 bytes; at most 65535"),
        (Kind.PUBLISH, Properties(correlation_data=b"a" * 65_536), "65536 bytes"),
        (Kind.PUBLISH, Properties(user=(("a", "\0"),)), "U\\+0000"),
        (Kind.PUBLISH, Properties(user=(("\ud800", ""),)), "lone surrogate"),
    ],
)
def test_what_cannot_be_said_is_not_written(kind: Kind, wrong: Properties, words: str) -> None:
    with pytest.raises(MqttError, match=words) as caught:
        encode_properties(wrong, kind, packet=kind.name)
    assert caught.value.where.startswith(kind.name)


def test_no_properties_are_one_byte() -> None:
    assert encode_properties(NONE, Kind.PUBLISH, packet="PUBLISH") == b"\0"
    assert encode_properties(Properties(), Kind.PUBLISH, packet="PUBLISH") == b"\0"
    assert decode_properties(FieldReader(b"\0", packet="PUBLISH"), Kind.PUBLISH) is NONE


def test_user_properties_alone_are_the_same_bytes() -> None:
    for user in ((), (("a", "b"),), (("", "ä"), ("x" * 200, "y"))):
        whole = encode_properties(Properties(user=user), Kind.PUBLISH, packet="PUBLISH")
        assert user_properties(user) == whole
