"""Frames come out of a stream as they went in, wherever it is cut; lengths that are not allowed end it."""

from __future__ import annotations

import pytest

from penstock.errors import ClusterError
from penstock.node.cluster.direct.framing import FrameReader, framed

FRAMES = [b"a", b"bc" * 40, b"\0\0\0\1", b"d" * 300]


def test_frames_that_come_together() -> None:
    reader = FrameReader(most=300)
    assert list(reader.feed(b"".join(map(framed, FRAMES)))) == FRAMES
    assert not reader.partial


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 64])
def test_a_stream_in_small_pieces(size: int) -> None:
    reader = FrameReader(most=300)
    stream = b"".join(map(framed, FRAMES))
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == FRAMES


def test_a_stream_cut_in_two_at_every_byte() -> None:
    stream = b"".join(map(framed, FRAMES))
    for at in range(len(stream) + 1):
        reader = FrameReader(most=300)
        assert [*reader.feed(stream[:at]), *reader.feed(stream[at:])] == FRAMES
        assert not reader.partial


def test_a_frame_that_has_not_come_whole_is_known() -> None:
    reader = FrameReader(most=300)
    assert list(reader.feed(framed(b"abc")[:-1])) == []
    assert reader.partial


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"\0\0\1\x2d", b"GET ", b"\xff\xff\xff\xff"])
def test_a_length_that_is_not_allowed(head: bytes) -> None:
    reader = FrameReader(most=300)
    found = reader.feed(framed(b"good") + head)
    assert next(found) == b"good"
    with pytest.raises(ClusterError, match=r"a frame of \d+ bytes; 1 to 300 are accepted"):
        next(found)


def test_the_bound_may_change_between_two_frames() -> None:
    reader = FrameReader(most=4)
    found = reader.feed(framed(b"abcd") + framed(b"abcde"))
    assert next(found) == b"abcd"
    reader.most = 5
    assert list(found) == [b"abcde"]
