"""Bytes of filters: there and back, cut anywhere, changed anywhere."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import xxhash

from penstock.core.slots import wire
from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.errors import SlotError
from tests.core.slots.slot_model import KEYS, everything


def small() -> list[RefreshingFilter | ExactTable]:
    made: list[RefreshingFilter | ExactTable] = [
        RefreshingFilter(Shape(arrays=2, groups=2, positions=19, ahead=1), start=77),
        ExactTable(slots=9, ahead=2, start=77),
    ]
    for one in made:
        for number, key in enumerate(KEYS[:6]):
            one.insert(key, 77 - number % 3)
    return made


def test_there_and_back() -> None:
    for tried in everything(ahead=3):
        assert isinstance(tried, RefreshingFilter | ExactTable)
        tried.advance(1_000)
        for number, key in enumerate(KEYS):
            tried.insert(key, 1_003 - number)
        back = wire.read(wire.to_bytes(tried))
        found, wanted = back.statistics().as_json(), tried.statistics().as_json()
        assert found | {"wiped": 0} == wanted | {"wiped": 0}
        assert (back.oldest, back.newest) == (tried.oldest, tried.newest)
        assert [back.query(key) for key in KEYS] == [tried.query(key) for key in KEYS]
        back.advance(1_005)
        tried.advance(1_005)
        assert wire.to_bytes(back) == wire.to_bytes(tried)


def test_a_table_that_read_its_own_bytes_counts_as_before() -> None:
    table = ExactTable()
    table.insert(KEYS[0], 0)
    table.insert(KEYS[0], 1)
    back = wire.read(wire.to_bytes(table))
    assert (back.inserted, back.refused) == (1, 1)


@pytest.mark.parametrize("which", [0, 1])
def test_cut_at_every_byte(which: int) -> None:
    data = wire.to_bytes(small()[which])
    for end in range(len(data)):
        with pytest.raises(SlotError):
            wire.read(data[:end])
    with pytest.raises(SlotError):
        wire.read(data + b"\0")


@pytest.mark.parametrize("which", [0, 1])
def test_every_byte_changed(which: int) -> None:
    data = bytearray(wire.to_bytes(small()[which]))
    for place in range(len(data)):
        data[place] ^= 0x41
        with pytest.raises(SlotError):
            wire.read(bytes(data))
        data[place] ^= 0x41


def forged(which: int, place: int, form: str, value: int) -> bytes:
    """Bytes with another number in them and a checksum that fits."""
    data = bytearray(wire.to_bytes(small()[which])[:-8])
    struct.pack_into(form, data, place, value)
    return bytes(data) + xxhash.xxh64_digest(bytes(data))[::-1]


@pytest.mark.parametrize(
    ("which", "place", "form", "value", "said"),
    [
        (0, 4, "<B", 2, "version 2; supported: 1"),
        (0, 5, "<B", 9, "unknown kind of filter 9"),
        (0, 6, "<B", 0, "arrays 0"),
        (0, 7, "<B", 200, "groups 200"),
        (0, 8, "<B", 99, "hashes 99"),
        (0, 9, "<I", 0, "positions 0"),
        (0, 9, "<I", 1 << 25, "bytes of words, its shape needs"),
        (0, 13, "<B", 4, "ahead 4"),
        (0, 14, "<q", -5, "newest slot -5"),
        (0, 14, "<q", 1 << 60, "newest slot"),
        (0, 22, "<Q", (1 << 64) - 1, "inserted"),
        (1, 6, "<B", 65, "slots 65"),
        (1, 13, "<B", 9, "ahead 9"),
        (1, 38, "<Q", (1 << 64) - 1, "out of order"),
        (1, 38, "<Q", 0, "out of order"),
        (1, 38 + 6 * 8, "<Q", 0, "without a slot"),
        (1, 38 + 6 * 8, "<Q", 1 << 9, "beyond the 9"),
    ],
)
def test_numbers_that_cannot_be(which: int, place: int, form: str, value: int, said: str) -> None:
    with pytest.raises(SlotError, match=said):
        wire.read(forged(which, place, form, value))


def test_bytes_of_something_else() -> None:
    with pytest.raises(SlotError, match="does not begin with PSLT"):
        wire.read(np.random.default_rng(1).bytes(400))


def test_filters_of_partitions_travel_and_merge() -> None:
    whole = RefreshingFilter(Shape(arrays=8, groups=8, positions=512))
    parts = [RefreshingFilter(whole.shape) for _ in range(3)]
    for number, key in enumerate(KEYS):
        whole.insert(key, 0)
        parts[number % 3].insert(key, 0)
    merged = wire.read(wire.to_bytes(parts[0]))
    assert isinstance(merged, RefreshingFilter)
    for part in parts[1:]:
        other = wire.read(wire.to_bytes(part))
        assert isinstance(other, RefreshingFilter)
        merged.merge(other)
    assert wire.to_bytes(merged) == wire.to_bytes(whole)
