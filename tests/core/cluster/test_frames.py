"""Frames between nodes: round trips, and whatever else comes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cluster import frames
from penstock.core.cluster.frames import About, Ack, Carried, Item, Told, Wants
from penstock.errors import ClusterError

ITEMS: list[Item] = [
    Carried(7, "ward/1", b"\x00payload", 1_000, "n1", 3, 2, True, b"\x05props", 99, (5, "n1", 7), True),
    Carried(0, "", b"", -1),
    Told("ward/+", b"\xd1digest"),
    Wants(1, True, ["a", "b/#"]),
    Wants(2, False, [], ["a"]),
    About("east", ("mqtt://10.0.0.1:1883",), "", 4, "0.1.0"),
]


def test_items_come_back_as_they_were() -> None:
    body = b"".join(map(frames.encode_item, ITEMS))
    assert list(frames.decode_items(body)) == ITEMS


def test_frames_come_back_as_they_were() -> None:
    data = frames.decode_frame(frames.data_frame(2**63, b"body"))
    assert data == frames.Data(2**63, b"body")
    for ack in (Ack(5, 1 << 18), Ack(5, 1 << 18, missing=(6, 9)), Ack(0, 0, closed=True)):
        assert frames.decode_frame(frames.ack_frame(ack)) == ack


def test_items_cut_at_every_byte_are_refused() -> None:
    body = frames.encode_item(ITEMS[0])
    for at in range(1, len(body)):
        with pytest.raises(ClusterError):
            list(frames.decode_items(body[:at]))


@given(st.binary(max_size=64))
def test_garbage_raises_nothing_else(found: bytes) -> None:
    with suppress(ClusterError):
        frame = frames.decode_frame(found)
        if isinstance(frame, frames.Data):
            list(frames.decode_items(frame.body))


def test_a_length_beyond_all_bounds_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ClusterError, match="at most"):
        list(frames.decode_items(b"\xff\xff\xff\xff"))


@pytest.mark.parametrize("qos", [-1, 3])
def test_values_out_of_bounds_are_refused(qos: int) -> None:
    with pytest.raises(ClusterError, match="damaged item"):
        list(frames.decode_items(frames.encode_item(Carried(1, "a", b"", 0, qos=qos))))
