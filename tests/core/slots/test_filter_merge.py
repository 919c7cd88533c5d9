"""Merging is OR: two filters together are the filter of all that was put into either."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.errors import SlotError
from tests.core.slots.slot_model import KEYS, Model, everything, label, shapes

ARRIVALS = st.lists(st.tuples(st.integers(0, len(KEYS) - 1), st.integers(0, 63)), max_size=40)


@given(left=ARRIVALS, right=ARRIVALS)
def test_two_of_one_window_are_the_filter_of_the_union(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    for shape in shapes(positions=211, hashes=3):
        one, other, both = (RefreshingFilter(shape, start=63) for _ in range(3))
        for filtered, pairs in ((one, left), (other, right), (both, left + right)):
            for key, slot in pairs:
                filtered.insert(KEYS[key], slot)
        one.merge(other)
        assert np.array_equal(one.words, both.words)
        assert (one.inserted, one.refused) == (both.inserted, both.refused)


@given(left=ARRIVALS, right=ARRIVALS, apart=st.sampled_from([-64, -9, -3, -1, 1, 2, 8, 30, 64, 200]))
def test_windows_that_differ_are_brought_to_the_later_one(
    left: list[tuple[int, int]], right: list[tuple[int, int]], apart: int
) -> None:
    pairs = zip(everything(), everything(), strict=True)
    for one, other in pairs:
        model = Model.of(one)
        for tried, now, arrivals in ((one, 300, left), (other, 300 + apart, right)):
            own = Model.of(tried)
            tried.advance(now)
            own.advance(now)
            for key, back in arrivals:
                assert tried.insert(KEYS[key], now - back) == own.insert(KEYS[key], now - back)
            model.pairs |= own.pairs
        model.advance(max(300, 300 + apart))
        one.merge(other)
        assert (one.oldest, one.newest) == model.window()
        assert [one.query(key) for key in KEYS] == [model.query(key) for key in KEYS]


@pytest.mark.parametrize("shape", shapes()[:4], ids=label)
def test_other_shapes_do_not_merge(shape: Shape) -> None:
    with pytest.raises(SlotError, match="cannot merge filters of different shapes"):
        RefreshingFilter(shape).merge(RefreshingFilter(Shape(arrays=7, groups=2, positions=64)))
    with pytest.raises(SlotError, match="tables of different windows: 64 slots, 0 ahead, and 63, 0"):
        ExactTable().merge(ExactTable(slots=63))
