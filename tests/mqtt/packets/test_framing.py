"""Frames are the same however the bytes are cut; what cannot be a packet is found out early."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MalformedPacket, PacketTooLarge
from penstock.mqtt.packets.connect import PINGREQ
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from tests.kit.packets import both

FRAMES = [
    PINGREQ,
    encode(Publish("a/b", b"x" * 10), 4),
    encode(Publish("a/b", b"y" * 200, qos=1, packet_id=7), 5),
    encode(Publish("long", b"z" * 20_000), 5),
    PINGREQ,
]


def test_a_stream_cut_at_every_byte_gives_the_same_frames() -> None:
    stream = b"".join([*FRAMES[:3], PINGREQ])
    for cut in range(len(stream) + 1):
        framer = Framer()
        assert [*framer.feed(stream[:cut]), *framer.feed(stream[cut:])] == [*FRAMES[:3], PINGREQ]
        assert framer.kept == 0
        assert framer.fault is None


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_bytes_that_come_in_pieces_give_the_same_frames(step: int) -> None:
    stream = b"".join(FRAMES)
    framer = Framer()
    found = []
    for at in range(0, len(stream), step):
        found += framer.feed(stream[at : at + step])
    assert found == FRAMES


@given(cases=st.lists(both, max_size=6), cuts=st.lists(st.integers(0, 2000)))
def test_any_packets_cut_anywhere(cases: list[tuple[int, object]], cuts: list[int]) -> None:
    frames = [encode(packet, version) for version, packet in cases]  # type: ignore[arg-type]
    stream = b"".join(frames)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    framer = Framer()
    found = []
    for start, stop in itertools.pairwise(places):
        found += framer.feed(stream[start:stop])
    assert found == frames


@pytest.mark.parametrize(
    ("length", "problem"),
    [
        (b"\xff\xff\xff\xff\x01", "more than four bytes"),
        (b"\x80\x80\x80\x80\x01", "more than four bytes"),
        (b"\x80\x00", "longer than needed"),
        (b"\x85\x80\x00", "longer than needed"),
        (b"\x85\x80\x80\x00", "longer than needed"),
    ],
)
def test_a_bad_length_is_a_fault_behind_the_frames_before_it(length: bytes, problem: str) -> None:
    stream = FRAMES[1] + b"\x30" + length + b"more"
    for cut in range(len(stream) + 1):
        framer = Framer()
        assert [*framer.feed(stream[:cut]), *framer.feed(stream[cut:])] == [FRAMES[1]]
        assert isinstance(framer.fault, MalformedPacket)
        assert problem in str(framer.fault)
        assert framer.feed(PINGREQ) == [], "nothing is found behind a fault"


def test_a_packet_too_large_is_refused_before_it_has_come() -> None:
    framer = Framer(max_bytes=100)
    just = encode(Publish("t", b"x" * 95), 4)
    assert len(just) == 100
    assert framer.feed(just) == [just]
    assert framer.feed(PINGREQ + b"\x30\x63") == [PINGREQ]
    assert isinstance(framer.fault, PacketTooLarge)
    assert (framer.fault.reason, str(framer.fault)) == (0x95, "PUBLISH: 101 bytes; at most 100")


def test_what_is_kept_is_one_packet_at_most() -> None:
    framer = Framer(max_bytes=1000)
    for _ in range(50):
        framer.feed(b"\x30\x80\x02" + b"\0" * 200)
        assert framer.kept < 1000


@pytest.mark.parametrize("length", [127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_lengths_of_one_to_four_bytes(length: int) -> None:
    payload = b"x" * (length - 3)
    frame = encode(Publish("t", payload), 4)
    framer = Framer(max_bytes=1 << 22)
    assert framer.feed(frame[:4]) == []
    assert framer.feed(frame[4:] + PINGREQ) == [frame, PINGREQ]
