"""Packets that a peer must not send, each with the reason code it gets."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.errors import MqttError, UnsupportedVersion
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.fields import encode_varint
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.subscribe import Subscribe, Subscription


def frame(first: int, body: bytes) -> bytes:
    return bytes((first,)) + encode_varint(len(body)) + body


def publish(body: bytes, *, first: int = 0x30) -> bytes:
    return frame(first, body)


def connect(
    *, name: bytes = b"\0\4MQTT", level: int = 5, flags: int = 2, rest: bytes = b"\0\0\x01c"
) -> bytes:
    return frame(0x10, name + bytes((level, flags)) + b"\0\x0a" + rest)


BAD: list[tuple[str, int, bytes, int, str]] = [
    # what, version, frame, reason, words of the message
    ("packet type 0", V5, b"\x00\x00", 0x81, "packet type 0"),
    ("PUBLISH of QoS 3", V5, publish(b"\0\1t\0\1\0", first=0x36), 0x81, "QoS 3"),
    ("DUP with QoS 0", V4, publish(b"\0\1t", first=0x38), 0x81, "DUP"),
    ("PUBLISH without a topic", V4, publish(b""), 0x81, "topic: 2 bytes wanted, 0 are left"),
    ("topic longer than its packet", V4, publish(b"\0\5t"), 0x81, "5 bytes wanted, 1 are left"),
    ("empty topic", V4, publish(b"\0\0"), 0x82, "empty"),
    ("empty topic and no alias", V5, publish(b"\0\0\0"), 0x82, "empty"),
    ("+ in a topic", V4, publish(b"\0\3a/+"), 0x90, "wildcard"),
    ("# in a topic", V5, publish(b"\0\1#\0"), 0x90, "wildcard"),
    ("U+0000 in a topic", V4, publish(b"\0\3a\0b"), 0x81, "U+0000 at character 1"),
    ("a surrogate in a topic", V4, publish(b"\0\3\xed\xa0\x80"), 0x81, "not UTF-8 at byte 0"),
    ("an overlong letter in a topic", V4, publish(b"\0\2\xc1\x81"), 0x81, "not UTF-8"),
    ("a control character in a topic", V4, publish(b"\0\2a\x07"), 0x81, "U+0007 at character 1"),
    ("a noncharacter in a topic", V4, publish(b"\0\3\xef\xbf\xbf"), 0x81, "U+FFFF"),
    ("packet identifier 0", V4, publish(b"\0\1t\0\0", first=0x32), 0x81, "0 is not a packet identifier"),
    ("no packet identifier", V4, publish(b"\0\1t", first=0x32), 0x81, "packet identifier"),
    ("property length beyond the packet", V5, publish(b"\0\1t\x05\x01"), 0x81, "properties"),
    ("property length of five bytes", V5, publish(b"\0\1t\x80\x80\x80\x80\x01"), 0x81, "four bytes"),
    ("property length longer than needed", V5, publish(b"\0\1t\x80\x00"), 0x81, "longer than needed"),
    ("a property that does not exist", V5, publish(b"\0\1t\2\x7f\0"), 0x81, "0x7F is not a known property"),
    ("a property twice", V5, publish(b"\0\1t\4\1\1\1\1"), 0x82, "twice"),
    ("a property of another packet", V5, publish(b"\0\1t\3\x21\0\1"), 0x82, "not allowed in this packet"),
    ("payload format 2", V5, publish(b"\0\1t\2\1\2"), 0x82, "2; from 0 to 1"),
    ("subscription identifier 0", V5, publish(b"\0\1t\2\x0b\0"), 0x82, "0; from 1 to"),
    ("+ in a response topic", V5, publish(b"\0\1t\4\x08\0\1+"), 0x90, "wildcard"),
    ("a user property that is no text", V5, publish(b"\0\1t\6\x26\0\1\xff\0\0"), 0x81, "not UTF-8"),
    ("too deep a topic", V4, publish(b"\1\x80" + b"/" * 384), 0x90, "385 levels; at most 128"),
    ("CONNECT of another protocol", V5, connect(name=b"\0\4MQTU"), 0x84, "not MQTT"),
    ("CONNECT with the reserved flag", V5, connect(flags=3), 0x81, "reserved"),
    ("will of QoS 3", V5, connect(flags=0x1E), 0x81, "QoS 3"),
    ("QoS of no will", V5, connect(flags=0x0A), 0x81, "without a will"),
    ("RETAIN of no will", V5, connect(flags=0x22), 0x81, "without a will"),
    ("password without user, 3.1.1", V4, connect(level=4, flags=0x42, rest=b"\0\1c\0\0"), 0x81, "user name"),
    ("a byte too many", V5, connect(rest=b"\0\0\1c!"), 0x81, "1 bytes too many"),
    ("client identifier that is no text", V5, connect(rest=b"\0\0\2\xff\xff"), 0x85, "client identifier"),
    (
        "kept session without a name",
        V4,
        connect(level=4, flags=0, rest=b"\0\0"),
        0x85,
        "give a client identifier",
    ),
    ("authentication data alone", V5, connect(rest=b"\4\x16\0\1p\0\1c"), 0x82, "without a method"),
    ("receive maximum 0", V5, connect(rest=b"\3\x21\0\0\0\1c"), 0x82, "0; from 1"),
    ("CONNACK with reserved flags", V5, b"\x20\x03\x02\x00\x00", 0x81, "reserved"),
    ("CONNACK of an unknown code", V4, b"\x20\x02\x00\x06", 0x82, "6; from 0 to 5"),
    ("CONNACK with a session, refused", V5, b"\x20\x03\x01\x87\x00", 0x82, "refused"),
    ("PUBACK of packet 0", V5, b"\x40\x02\x00\x00", 0x82, "0 is not a packet identifier"),
    ("PUBACK of an unknown reason", V5, b"\x40\x03\x00\x01\xff", 0x82, "0xFF unknown reason"),
    ("PUBREL with a reason of PUBACK", V5, b"\x62\x03\x00\x01\x10", 0x82, "not allowed"),
    ("PUBACK with a reason, 3.1.1", V4, b"\x40\x03\x00\x01\x00", 0x81, "too many"),
    ("SUBSCRIBE without filters", V4, b"\x82\x02\x00\x01", 0x81, "no filter"),
    ("SUBSCRIBE without options", V4, b"\x82\x05\x00\x01\x00\x01t", 0x81, "options"),
    ("SUBSCRIBE of QoS 3", V5, b"\x82\x07\x00\x01\x00\x00\x01t\x03", 0x81, "QoS 3"),
    ("reserved options", V5, b"\x82\x07\x00\x01\x00\x00\x01t\x40", 0x81, "reserved"),
    ("options of MQTT 5 in 3.1.1", V4, b"\x82\x06\x00\x01\x00\x01t\x04", 0x81, "reserved"),
    ("retain handling 3", V5, b"\x82\x07\x00\x01\x00\x00\x01t\x30", 0x81, "retain handling"),
    ("no local, shared", V5, b"\x82\x10\x00\x01\x00\x00\x0a$share/g/t\x04", 0x82, "no local"),
    ("empty filter", V4, b"\x82\x05\x00\x01\x00\x00\x00", 0x81, "empty"),
    ("# before the end", V4, b"\x82\x08\x00\x01\x00\x03#/a\x00", 0x8F, "whole levels"),
    ("+ within a level", V4, b"\x82\x08\x00\x01\x00\x03a+b\x00", 0x8F, "whole levels"),
    ("shared without a filter", V4, b"\x82\x0d\x00\x01\x00\x08$share/g\x00", 0x8F, "no filter after"),
    ("a group with a wildcard", V4, b"\x82\x0f\x00\x01\x00\x0a$share/+/t\x00", 0x8F, "no wildcard"),
    ("a group without a name", V4, b"\x82\x0e\x00\x01\x00\x09$share//t\x00", 0x8F, "$share/group/filter"),
    (
        "SUBSCRIBE with a property of CONNECT",
        V5,
        b"\x82\x09\x00\x01\x02\x17\x00\x00\x01t\x00",
        0x81,
        "propert",
    ),
    ("SUBACK of a code of MQTT 5 in 3.1.1", V4, b"\x90\x03\x00\x01\x87", 0x82, "135"),
    ("UNSUBSCRIBE without filters", V5, b"\xa2\x03\x00\x01\x00", 0x81, "no filter"),
    ("UNSUBACK with codes, 3.1.1", V4, b"\xb0\x03\x00\x01\x00", 0x81, "too many"),
    ("PINGREQ with a body", V5, b"\xc0\x01\x00", 0x81, "too many"),
    ("DISCONNECT with a body, 3.1.1", V4, b"\xe0\x01\x00", 0x81, "too many"),
    ("DISCONNECT of an unknown reason", V5, b"\xe0\x01\x05", 0x82, "unknown reason"),
    ("AUTH in 3.1.1", V4, b"\xf0\x00", 0x81, "no such packet"),
    ("AUTH with a reason alone", V5, b"\xf0\x01\x18", 0x81, "property length"),
    ("AUTH of an unknown reason", V5, b"\xf0\x02\x01\x00", 0x82, "not allowed"),
]


@pytest.mark.parametrize(
    ("version", "data", "reason", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_it_is_refused_with_its_reason(version: int, data: bytes, reason: int, words: str) -> None:
    with pytest.raises(MqttError) as caught:
        decode(data, version)
    assert caught.value.reason == reason, str(caught.value)
    assert words in str(caught.value)
    assert caught.value.where


@pytest.mark.parametrize(
    ("name", "level", "answer"),
    [
        (b"\0\6MQIsdp", 3, b"\x20\x02\x00\x01"),
        (b"\0\4MQTT", 3, b"\x20\x02\x00\x01"),
        (b"\0\6MQIsdp", 4, b"\x20\x02\x00\x01"),
        (b"\0\4MQTT", 6, b"\x20\x03\x00\x84\x00"),
        (b"\0\4MQTT", 0, b"\x20\x03\x00\x84\x00"),
        (b"\0\4HTTP", 4, b""),
    ],
)
def test_another_protocol_gets_the_answer_it_understands(name: bytes, level: int, answer: bytes) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode(connect(name=name, level=level), V4)
    assert caught.value.answer == answer
    assert caught.value.reason == 0x84


def test_too_many_of_anything_is_refused() -> None:
    pairs = b"\x26\0\1a\0\0" * (limits.MQTT_USER_PROPERTIES + 1)
    with pytest.raises(MqttError, match="more than 256") as caught:
        decode(publish(b"\0\1t" + encode_varint(len(pairs)) + pairs), V5)
    assert caught.value.reason == 0x97
    for first, one in ((0x82, b"\0\1t\0"), (0xA2, b"\0\1t")):
        with pytest.raises(MqttError, match="more than 1024 filters") as caught:
            decode(frame(first, b"\0\1" + one * (limits.MQTT_FILTERS + 1)), V4)
        assert caught.value.reason == 0x97
    most = Subscribe(1, (Subscription("t"),) * limits.MQTT_FILTERS)
    assert decode(encode(most, V4), V4) == most


def test_text_of_user_properties_may_have_line_breaks() -> None:
    """A policy is written over several lines."""
    policy = b"name: vitals\nlevels:\n\t- keep: {latest: 10}\n"
    pair = b"\x26\0\6policy" + len(policy).to_bytes(2, "big") + policy
    found = decode(frame(0x82, b"\0\1" + encode_varint(len(pair)) + pair + b"\0\1t\0"), V5)
    assert isinstance(found, Subscribe)
    assert found.properties.user == (("policy", policy.decode()),)
