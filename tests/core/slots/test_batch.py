"""Many keys at once give what one by one gives, with numpy and as machine code."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.errors import MissingTool, SlotError
from tests.core.slots.slot_model import label, shapes

NOW = 1_007


def pairs(shape: Shape, count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(3)
    keys = dice.integers(0, 1 << 64, size=count, dtype=np.uint64)
    return keys, dice.integers(NOW - shape.slots - 5, NOW + 3, size=count)


def crowded(shape: Shape) -> RefreshingFilter:
    filtered = RefreshingFilter(shape)
    filtered.advance(NOW)
    filtered.insert_many(*pairs(shape))
    return filtered


CROWDED = [
    *shapes(positions=211, hashes=5),
    *shapes(positions=200, hashes=2),
    *shapes(positions=90, hashes=1),
]


@pytest.mark.parametrize("shape", CROWDED, ids=label)
def test_a_batch_is_many_single_calls(shape: Shape) -> None:
    many, single = crowded(shape), RefreshingFilter(shape)
    single.advance(NOW)
    keys, slots = pairs(shape)
    for key, slot in zip(keys.tolist(), slots.tolist(), strict=True):
        single.insert(key, slot)
    assert np.array_equal(many.words, single.words)
    assert (many.inserted, many.refused) == (single.inserted, single.refused)
    strangers = np.random.default_rng(4).integers(0, 1 << 64, size=120, dtype=np.uint64)
    asked = np.concatenate([keys, strangers])
    assert many.query_many(asked).tolist() == [single.query(key) for key in asked.tolist()]


@pytest.mark.skipif(find_spec("numba") is None, reason="the extra `fast` is not installed")
@pytest.mark.slow
def test_machine_code_answers_as_numpy_does() -> None:
    asked = np.random.default_rng(4).integers(0, 1 << 64, size=20_000, dtype=np.uint64)
    for shape in CROWDED:
        filtered = crowded(shape)
        for step in range(3):
            filtered.advance(NOW + step)
            keys = np.concatenate([pairs(shape)[0], asked])
            assert np.array_equal(filtered.query_many(keys), filtered.query_many(keys, compiled=True))
        made = RefreshingFilter(shape, start=NOW)
        made.insert_many(*pairs(shape), compiled=True)
        assert np.array_equal(made.words, crowded(shape).words)


def test_machine_code_without_numba_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "penstock.core.slots.compiled", raising=False)
    monkeypatch.delattr("penstock.core.slots.compiled", raising=False)
    filtered = RefreshingFilter(Shape(positions=4096))
    with pytest.raises(MissingTool, match=r"penstock\[fast\]"):
        filtered.query_many(np.zeros(3, dtype=np.int64), compiled=True)


def test_signed_hashes_of_spark_are_the_same_keys() -> None:
    filtered = RefreshingFilter(Shape(positions=4096))
    keys = np.array([-1, -5, 7], dtype=np.int64)
    filtered.insert_many(keys, 0)
    assert filtered.query_many(keys.view(np.uint64)).tolist() == [1 << 63] * 3
    assert filtered.query((1 << 64) - 1) == filtered.query(-1) == 1 << 63


def test_other_numbers_than_hashes_are_refused() -> None:
    with pytest.raises(SlotError, match="float64; allowed: int64 and uint64"):
        RefreshingFilter(Shape(positions=4096)).query_many(np.zeros(3))  # type: ignore[arg-type]


def test_as_many_slots_as_keys() -> None:
    for tried in (RefreshingFilter(Shape(positions=4096)), ExactTable()):
        with pytest.raises(SlotError, match="3 keys and 2 slots; one slot for each key, or one for all"):
            tried.insert_many(np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.int64))


def test_an_empty_batch() -> None:
    for tried in (RefreshingFilter(Shape(positions=4096)), ExactTable()):
        nothing = np.zeros(0, dtype=np.int64)
        assert tried.insert_many(nothing, 0) == 0
        assert tried.query_many(nothing).tolist() == []


@pytest.mark.parametrize("most", [10_000, 500])
def test_an_exact_table_grows_forgets_and_refuses(most: int) -> None:
    many, single = ExactTable(slots=16, most=most), ExactTable(slots=16, most=most)
    known: set[int] = set()
    for now in range(60):
        many.advance(now)
        single.advance(now)
        keys = np.random.default_rng(now).integers(0, 3_000, size=200, dtype=np.int64)  # 0 is a key too
        taken = many.insert_many(keys, now)
        assert many.inserted + many.refused == 200 * (now + 1)
        for key in keys.tolist():
            if single.insert(key, now):
                known.add(key)
        if most == 10_000:
            assert taken == 200
            assert np.array_equal(many.rows()[0], single.rows()[0])
            assert np.array_equal(many.rows()[1], single.rows()[1])
            assert many.query_many(keys).tolist() == [single.query(key) for key in keys.tolist()]
        assert len(many) <= most
        assert len(single) <= most
    assert known
    if most == 500:
        assert many.refused > 0
        assert many.statistics().wiped > 0
    else:
        assert many.refused == single.refused == 0
