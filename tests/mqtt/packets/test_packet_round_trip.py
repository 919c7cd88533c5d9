"""Every packet survives the wire, in both versions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MqttError
from penstock.mqtt.codes import FLAGS, V4, V5, Kind
from penstock.mqtt.fields import encode_varint
from penstock.mqtt.packets.packet import Packet, body_of, decode, encode, kind_of
from penstock.mqtt.packets.publish import ACKS, Ack, ack_frame
from tests.kit.packets import both, of_kind, packet_ids, packets


@pytest.mark.parametrize("version", [V4, V5])
@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.AUTH}))
@given(data=st.data())
def test_each_kind_comes_back_as_it_was(version: int, kind: Kind, data: st.DataObject) -> None:
    packet = data.draw(of_kind(version, kind))
    frame = encode(packet, version)
    assert kind_of(frame) is kind
    assert decode(frame, version) == packet


@given(packet=of_kind(V5, Kind.AUTH))
def test_auth_comes_back_as_it_was(packet: Packet) -> None:
    assert decode(encode(packet, V5), V5) == packet
    with pytest.raises(MqttError):
        encode(packet, V4)


@given(case=both)
def test_what_is_encoded_again_is_the_same_bytes(case: tuple[int, Packet]) -> None:
    version, packet = case
    frame = encode(packet, version)
    assert encode(decode(frame, version), version) == frame


@settings(max_examples=20)
@given(packet=packets(V5))
def test_a_packet_cut_short_is_refused_and_never_read_as_another(packet: Packet) -> None:
    """The remaining length says what the body has: a body cut at every byte is refused or says less."""
    frame = encode(packet, V5)
    body = frame[body_of(frame) :]
    for stop in range(len(body)):
        shorter = bytes((frame[0],)) + encode_varint(stop) + body[:stop]
        try:
            found = decode(shorter, V5)
        except MqttError:
            continue
        assert found != packet
        assert len(encode(found, V5)) <= len(shorter)


@given(packet_id=packet_ids, kind=st.sampled_from(sorted(ACKS)), version=st.sampled_from([V4, V5]))
def test_a_plain_ack_is_four_bytes_in_both_versions(packet_id: int, kind: Kind, version: int) -> None:
    frame = ack_frame(kind, packet_id)
    assert len(frame) == 4
    assert frame == encode(ACKS[kind](packet_id), version)
    found = decode(frame, version)
    assert isinstance(found, Ack)
    assert (found.kind, found.packet_id) == (kind, packet_id)


def test_flags_of_the_first_byte_are_checked_for_every_kind() -> None:
    for first in range(256):
        frame = bytes((first, 0))
        legal = first >> 4 and (first >> 4 == Kind.PUBLISH or first & 15 == FLAGS[Kind(first >> 4)])
        if legal:
            assert kind_of(frame) == first >> 4
        else:
            with pytest.raises(MqttError) as caught:
                kind_of(frame)
            assert caught.value.reason in (0x81, 0x82)
