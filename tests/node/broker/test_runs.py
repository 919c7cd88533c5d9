"""Received bytes as runs: the same messages as frame by frame, whatever the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Pingreq
from penstock.mqtt.packets.fanout import spans
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish
from penstock.node.broker.routes import NOBODY, Fan
from penstock.node.broker.runs import QOS1, Inbox, Run, acknowledged, scan, split_qos1

if TYPE_CHECKING:
    import random

OTHER = Fan([])


def scanned(chunk: bytes, version: int, *, most: int = 1 << 20) -> tuple[list[tuple[bytes, int, int]], int]:
    found: list[tuple[bytes, int, int]] = []

    def handed(fan: Fan, data: bytes, count: int, first: int) -> None:
        found.append((data, count, first))

    def miss(topic: bytes) -> Fan | None:
        return None if b"+" in topic else OTHER if topic.startswith(b"o") else NOBODY

    at = scan(chunk, version=version, most=most, routes={}, miss=miss, handed=handed)
    return found, at


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, int]:
    version = draw(st.sampled_from([V4, V5]))
    packets = []
    for _ in range(draw(st.integers(0, 20))):
        qos = draw(st.integers(0, 2))
        properties: Any = NONE
        if version == V5 and draw(st.integers(0, 4)) == 0:
            properties = Properties(user=(("k", "v"),))
        packet: Any = Publish(
            draw(st.sampled_from(["a", "a/b", "other", "o/x"])),
            b"p" * draw(st.sampled_from([0, 1, 120, 125, 300, 17_000])),
            qos=qos,
            retain=draw(st.integers(0, 5)) == 0,
            packet_id=draw(st.integers(1, 65_535)) if qos else 0,
            properties=properties,
        )
        if draw(st.integers(0, 6)) == 0:
            packet = Pingreq()
        packets.append(encode(packet, version))
    return b"".join(packets), version


@given(streams(), st.randoms())
def test_runs_and_the_rest_are_the_stream(stream: tuple[bytes, int], dice: random.Random) -> None:
    data, version = stream
    cut = dice.randrange(len(data) + 1)
    found, at = scanned(data[:cut], version)
    assert b"".join(part for part, _, _ in found) == data[:at]
    for part, count, first in found:
        frames = Framer().feed(part)
        assert len(frames) == count
        assert {frame[0] for frame in frames} == {first}
        if first == QOS1:
            heads, ids, tails = split_qos1(part)
            assert [b"".join(parts) for parts in zip(heads, ids, tails, strict=True)] == frames
        else:
            run = Run(part, count, version=version, sender="s", seq=5, now_us=7)
            expected = [spans(frame, version) for frame in frames]
            events = run.events()
            assert [event.topic.encode() for event in events] == [each[1] for each in expected]
            assert [event.payload for event in events] == [
                frame[each[4] :] for frame, each in zip(frames, expected, strict=True)
            ]
            assert [event.seq for event in events] == list(range(5, 5 + count))
            other = V4 if version == V5 else V5
            back = Run(run.bytes_for(other), count, version=other, sender="s", seq=5, now_us=7)
            assert back.events() == events


@given(st.binary(max_size=200), st.sampled_from([V4, V5]))
def test_any_bytes_give_runs_that_are_packets(data: bytes, version: int) -> None:
    found, at = scanned(b"\x30" + data, version)
    assert sum(len(part) for part, _, _ in found) == at
    for part, count, _ in found:
        framer = Framer()
        assert len(framer.feed(part)) == count
        assert framer.fault is None
        assert framer.kept == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\x30\x02\x00\x05",  # the topic is longer than the packet
        b"\x30\x00",  # no topic at all
        b"\x32\x05\x00\x01a\x00\x00",  # packet identifier 0
        b"\x30\x82\x00\x00\x00",  # a length longer than needed
        b"\x30\x04\x00\x01+x",  # a wildcard
    ],
)
def test_what_is_wrong_is_left_to_the_reader_of_frames(data: bytes) -> None:
    good = b"\x30\x04\x00\x01ax"
    assert scanned(good + data, V4) == ([(good, 1, 0x30)], len(good))


def test_packets_that_are_too_large_are_left_alone() -> None:
    assert scanned(b"\x30\x04\x00\x01ax", V4, most=5) == ([], 0)


def test_acknowledgements_in_a_row() -> None:
    chunk = b"\x40\x02\x00\x01\x40\x02\xff\xff" + b"\xc0\x00"
    assert acknowledged(chunk) == [1, 65_535]
    assert acknowledged(b"\x40\x02\x00\x01\x40\x02\x00") == [1]
    assert acknowledged(b"\x40\x02\x00\x00") == []
    assert acknowledged(b"\x40\x03\x00\x01\x10") == []


def test_an_inbox_joins_what_it_kept() -> None:
    inbox = Inbox(max_bytes=100_000)
    assert inbox.feed(b"\x30\x04\x00") == []
    assert inbox.joined(b"\x01ax") == b"\x30\x04\x00\x01ax"
    assert inbox.kept == 0
    assert inbox.feed(b"\x30\xa0\xe0\x01" + b"x" * 20_000) == []
    assert inbox.joined(b"y") is None  # a large one is not copied again and again
