"""Parameters that cannot be are refused with their name and the range."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant, shape_for
from penstock.errors import SlotError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"positions": 0}, "positions 0; allowed: whole numbers from 1 to 67108864"),
        ({"positions": 1 << 27}, "positions 134217728"),
        ({"positions": 10.5}, r"positions 10\.5"),
        ({"hashes": 0}, "hashes 0; allowed: whole numbers from 1 to 16"),
        ({"hashes": 17}, "hashes 17"),
        ({"arrays": 0}, "arrays 0; allowed: whole numbers from 1 to 64"),
        ({"groups": 0}, "groups 0"),
        ({"groups": -1}, "groups -1"),
        ({"arrays": 65}, "arrays 65"),
        ({"arrays": 13, "groups": 5}, "13 × 5 = 65 slots; allowed: 1 to 64"),
        ({"arrays": 4, "groups": 2, "ahead": 8}, "ahead 8; allowed: whole numbers from 0 to 7"),
        ({"variant": Variant.SBF, "arrays": 2}, "arrays 2; sbf has 1"),
        ({"variant": Variant.MSBF, "arrays": 2, "groups": 2}, "groups 2; msbf has 1"),
        ({"variant": Variant.MHBF, "arrays": 2}, "arrays 2; mhbf has 1"),
    ],
)
def test_shapes_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SlotError, match=said):
        Shape(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"variant": "bloom", "slots": 64, "bits": 1000}, "unknown filter 'bloom'; allowed: sbf, msbf"),
        ({"variant": "rbf", "slots": 0, "bits": 1000}, "slots 0; allowed: whole numbers from 1 to 64"),
        ({"variant": "rbf", "slots": 64, "bits": 1000}, "needs arrays"),
        ({"variant": "rbf", "slots": 64, "bits": 1000, "arrays": 5}, "divisors of the 64 slots"),
        ({"variant": "mmbf", "slots": 64, "bits": 1000, "arrays": 0}, "divisors of the 64 slots"),
        ({"variant": "msbf", "slots": 64, "bits": 63}, "bits 63; 64 arrays need at least 64"),
        ({"variant": "rbf", "slots": 64, "arrays": 8, "bits": 8}, "bits 8; 9 arrays need at least 9"),
        ({"variant": "sbf", "slots": 2, "bits": 63}, "slots 2; sbf has 1"),
        ({"variant": "mhbf", "slots": 8, "bits": 63, "arrays": 8}, "arrays 8; mhbf has 1"),
    ],
)
def test_storage_that_cannot_be_divided(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SlotError, match=said):
        shape_for(given.pop("variant"), **given)


def test_the_spare_is_paid_for_or_comes_on_top() -> None:
    paid = shape_for("rbf", slots=64, arrays=8, bits=9 * 1024)
    free = shape_for("rbf", slots=64, arrays=8, bits=9 * 1024, spare_paid=False)
    assert (paid.held, paid.positions, paid.bits) == (9, 1024, 9 * 1024)
    assert (free.held, free.positions, free.bits) == (9, 1152, 9 * 1152)
    assert shape_for("rbf", slots=64, arrays=64, bits=6400).held == 64  # v = 1 has none
    assert shape_for("mmbf", slots=64, arrays=8, bits=6400).held == 8


def test_words_hold_as_many_positions_as_fit() -> None:
    eight = Shape(arrays=8, groups=8, positions=1000)
    assert (eight.held, eight.lanes, eight.words) == (9, 7, 143)
    assert Shape(positions=1000).words == 1000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"slots": 0}, "slots 0; allowed: 1 to 64"),
        ({"slots": 65}, "slots 65"),
        ({"slots": 4, "ahead": 4}, "ahead 4; allowed: 0 to 3"),
        ({"most": 0}, "most 0"),
        ({"start": -1}, "slot -1; allowed: 0 to"),
    ],
)
def test_tables_that_cannot_be(given: dict[str, int], said: str) -> None:
    with pytest.raises(SlotError, match=said):
        ExactTable(**given)


def test_slots_that_cannot_be() -> None:
    filtered = RefreshingFilter(Shape(positions=64))
    with pytest.raises(SlotError, match="slot -1; allowed: 0 to"):
        filtered.advance(-1)
    with pytest.raises(SlotError, match=f"slot {1 << 60}"):
        filtered.advance(1 << 60)
