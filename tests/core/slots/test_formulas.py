"""False positives as the formula says: equation 12, and equation 13 as it must read, for every variant."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from penstock.core.slots import formulas
from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant, shape_for
from tests.core.slots.slot_model import label

QUICK_BITS, BITS = 1 << 18, 1 << 23

VARIANTS = (
    (Variant.SBF, 1, None),
    (Variant.MSBF, 64, None),
    (Variant.MHBF, 64, None),
    (Variant.MMBF, 64, 8),
    (Variant.MMBF, 64, 32),
    (Variant.RBF, 64, 8),
    (Variant.RBF, 64, 2),
    (Variant.RBF, 64, 64),
)


def shapes(bits: int, hashes: int) -> list[Shape]:
    return [
        shape_for(variant, slots=slots, bits=bits, arrays=arrays, hashes=hashes, spare_paid=False)
        for variant, slots, arrays in VARIANTS
    ]


def measured(shape: Shape, *, per_slot: int, seed: int, asked: int) -> float:
    """Share of strangers that are found in some slot of a window filled evenly."""
    dice = np.random.default_rng(seed)
    filtered = RefreshingFilter(shape)
    filtered.advance(shape.slots - 1)  # the window is slots 0 … l − 1: whole arrays
    for slot in range(shape.slots):
        filtered.insert_many(dice.integers(0, 1 << 64, size=per_slot, dtype=np.uint64), slot)
    strangers = dice.integers(0, 1 << 64, size=asked, dtype=np.uint64)
    return int(np.count_nonzero(filtered.query_many(strangers))) / asked


def check(shape: Shape, *, repeats: int, asked: int) -> None:
    per_slot = max(1, round(0.35 * shape.positions / (shape.groups * shape.hashes)))
    found = [measured(shape, per_slot=per_slot, seed=seed, asked=asked) for seed in range(repeats)]
    expected = formulas.expected(shape, per_slot=per_slot)
    # Two sources of error: which strangers were asked, and how many bits happened to be set.
    asking = sqrt(expected * (1 - expected) / (asked * repeats))
    bits = shape.arrays * shape.positions * repeats
    filling = shape.hashes * expected * sqrt(0.35 / bits) / 0.3
    assert abs(float(np.mean(found)) - expected) < 4.5 * (asking + filling)


@pytest.mark.parametrize("shape", shapes(QUICK_BITS, 4), ids=label)
def test_joint_false_positives_are_those_of_the_corrected_formula(shape: Shape) -> None:
    check(shape, repeats=2, asked=5_000)


@pytest.mark.slow
@pytest.mark.parametrize("hashes", [2, 4, 7, 8])
@pytest.mark.parametrize("number", range(len(VARIANTS)), ids=[f"{v}-{a}" for v, _, a in VARIANTS])
def test_joint_false_positives_with_more_to_ask(number: int, hashes: int) -> None:
    check(shapes(BITS, hashes)[number], repeats=2, asked=200_000)


@pytest.mark.slow
def test_few_false_positives_are_still_those_of_the_formula() -> None:
    """Where plain double hashing has its floor: 64 slots, k = 8, a joint rate of some 1e-6."""
    shape = Shape(positions=1 << 13)
    per_slot = 120
    asked, repeats = 2_000_000, 8
    expected = formulas.expected(shape, per_slot=per_slot) * asked * repeats
    found = sum(measured(shape, per_slot=per_slot, seed=seed, asked=asked) for seed in range(repeats)) * asked
    assert 5 < expected < 200
    assert abs(found - expected) < 5 * sqrt(expected) + 0.05 * expected


@pytest.mark.slow
def test_plain_double_hashing_would_have_a_floor() -> None:
    """Why there is a mix for every two positions: two keys with the same h₁ and h₂ modulo m are one."""
    size, hashes, per_slot, asked = 8_191, 8, 80, 2_000_000  # a prime, and h₂ is never 0
    dice = np.random.default_rng(7)
    words = np.zeros(size, dtype=np.uint64)

    def places(keys: np.ndarray) -> list[np.ndarray]:
        apart = 1 + (keys & 0xFFFFFFFF) % (size - 1)
        return [((keys >> 32) + step * apart) % size for step in range(hashes)]

    for slot in range(64):
        for where in places(dice.integers(0, 1 << 63, size=per_slot)):
            words[where] |= np.uint64(1 << slot)
    strangers = dice.integers(0, 1 << 63, size=asked)
    masks = np.full(asked, (1 << 64) - 1, dtype=np.uint64)
    for where in places(strangers):
        masks &= words[where]
    plain = int(np.count_nonzero(masks))
    shape = Shape(positions=size)
    expected = formulas.expected(shape, per_slot=per_slot) * asked
    ours = measured(shape, per_slot=per_slot, seed=7, asked=asked) * asked
    floor = 2 * 64 * per_slot / size**2 * asked  # the same positions, forwards or backwards
    assert plain == pytest.approx(floor, rel=0.5)
    assert expected < 1
    assert ours < 5


def test_bursts_are_reckoned_array_by_array() -> None:
    shape = shape_for("rbf", slots=64, bits=QUICK_BITS, arrays=8, hashes=4, spare_paid=False)
    dice = np.random.default_rng(9)
    loads = dice.integers(0, 100, size=64) * (dice.random(64) < 0.4)
    filtered = RefreshingFilter(shape, start=63)
    for slot, load in enumerate(loads.tolist()):
        filtered.insert_many(dice.integers(0, 1 << 64, size=load, dtype=np.uint64), slot)
    expected = formulas.expected_of_bursts(shape, loads.tolist())
    assert filtered.statistics().joint_false_positive == pytest.approx(expected, rel=0.1)
    even = formulas.expected_of_bursts(shape, [50] * 64)
    assert even == pytest.approx(formulas.expected(shape, per_slot=50))


def test_the_printed_equation_is_the_complement() -> None:
    assert formulas.joint(0.01, slots=64) == pytest.approx(1 - formulas.joint_as_printed(0.01, slots=64))
    assert formulas.joint(0.0, slots=64) == 0
    assert formulas.joint(1.0, slots=64) == 1
    assert formulas.joint(1e-12, slots=64) == pytest.approx(64e-12)


def test_a_position_alone_is_always_set() -> None:
    assert formulas.fill(positions=1, hashes=3, pairs=1) == 1
    assert formulas.fill(positions=1, hashes=3, pairs=0) == 0
    assert formulas.expected_of_bursts(Shape(arrays=1, groups=2, positions=1), [1, 1]) == 1


def test_the_exact_table_has_none() -> None:
    table = ExactTable()
    dice = np.random.default_rng(1)
    table.insert_many(dice.integers(0, 1 << 64, size=5_000, dtype=np.uint64), 0)
    assert not table.query_many(dice.integers(0, 1 << 64, size=5_000, dtype=np.uint64)).any()
