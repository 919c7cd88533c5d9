"""The fast path says what the codec says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MqttError
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets import fanout
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish
from tests.kit.packets import publishes, versions

cases = versions.flatmap(lambda version: st.tuples(st.just(version), publishes(version)))


@given(case=cases)
def test_spans_are_the_parts_of_the_packet(case: tuple[int, Publish]) -> None:
    version, packet = case
    frame = encode(packet, version)
    first, topic, packet_id, properties_at, payload_at = fanout.spans(frame, version)
    assert first == frame[0]
    assert topic.decode() == packet.topic
    assert packet_id == packet.packet_id
    assert frame[payload_at:] == packet.payload
    assert fanout.properties_of(frame[properties_at:payload_at], from_client=False) == packet.properties


@pytest.mark.parametrize("size", [0, 100, 120, 127, 128, 16_370, 16_384, 2_097_152])
@pytest.mark.parametrize("version", [V4, V5])
def test_spans_of_every_length(version: int, size: int) -> None:
    frame = encode(Publish("a/b", b"x" * size, qos=1, packet_id=258), version)
    assert fanout.spans(frame, version)[:3] == (0x32, b"a/b", 258)
    assert len(frame) - fanout.spans(frame, version)[4] == size


@given(case=cases, data=st.data())
def test_what_spans_refuse_the_codec_refuses(case: tuple[int, Publish], data: st.DataObject) -> None:
    """Frames cut or changed: the fast path refuses nothing the codec takes, and reads the rest alike."""
    version, packet = case
    frame = bytearray(encode(packet, version))
    for _ in range(data.draw(st.integers(0, 2))):
        frame[data.draw(st.integers(2, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if len(frame) < 128 and data.draw(st.booleans()):
        del frame[data.draw(st.integers(2, len(frame))) :]
        frame[1] = len(frame) - 2
    changed = bytes(frame)
    try:
        expected = decode(changed, version)
    except MqttError:
        expected = None
    try:
        _, topic, packet_id, properties_at, payload_at = fanout.spans(changed, version)
        properties = fanout.properties_of(changed[properties_at:payload_at], from_client=False)
    except MqttError:
        assert expected is None
        return
    if isinstance(expected, Publish):
        assert (topic.decode(), packet_id) == (expected.topic, expected.packet_id)
        assert changed[payload_at:] == expected.payload
        assert properties == expected.properties


@given(case=cases)
def test_frames_made_of_parts_are_frames_of_the_codec(case: tuple[int, Publish]) -> None:
    version, packet = case
    topic = packet.topic.encode()
    kept = fanout.forwarded(
        packet.properties,
        subscription_ids=packet.properties.subscription_ids,
        topic_alias=packet.properties.topic_alias,
    )
    tail = kept + packet.payload if version == V5 else packet.payload
    if packet.qos:
        head = fanout.head(topic, len(tail), qos=packet.qos, retain=packet.retain, dup=packet.dup)
        frame = fanout.assemble(head, packet.packet_id, tail)
    else:
        frame = fanout.frame_qos0(topic, tail, retain=packet.retain)
    assert frame == encode(packet, version)


def test_a_receiver_gets_its_own_identifiers_and_what_is_left_of_the_expiry() -> None:
    sent = Properties(topic_alias=3, subscription_ids=(9,), message_expiry_s=60, user=(("a", "b"),))
    raw = fanout.forwarded(sent, subscription_ids=(1, 2), message_expiry_s=7)
    assert fanout.properties_of(raw[1:], from_client=False) == Properties(
        subscription_ids=(1, 2), message_expiry_s=7, user=(("a", "b"),)
    )
    assert fanout.forwarded(NONE) == b"\0"
    assert fanout.properties_of(fanout.forwarded(NONE, topic_alias=4)[1:]) == Properties(topic_alias=4)
    assert fanout.properties_of(fanout.forwarded(sent)[1:]).message_expiry_s == 60


@pytest.mark.parametrize(
    "frame",
    [
        b"\x36\x07\0\1t\0\1\0x",
        b"\x38\x04\0\1tx",
        b"\x32\x05\0\1t\0\0",
        b"\x30\x01\0",
        b"\x30\x04\0\\9tx",
        b"\x32\x04\0\1t\1",
        b"\x30\x07\0\1t\x80\x80\x80\x80",
        b"\x30\x05\0\1t\x09\1",
    ],
)
def test_spans_refuse_what_is_no_publish(frame: bytes) -> None:
    with pytest.raises(MqttError):
        fanout.spans(frame, V5)


def test_a_client_does_not_name_subscriptions() -> None:
    raw = fanout.forwarded(NONE, subscription_ids=(1,))[1:]
    with pytest.raises(MqttError, match="must not send it") as caught:
        fanout.properties_of(raw)
    assert caught.value.reason == 0x82
