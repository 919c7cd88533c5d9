"""Every filter and the exact table against sets: nothing live is lost, nothing expired is found."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant
from penstock.core.slots.slot_sets import slots_of
from tests.core.slots.slot_model import KEYS, Model, everything, label, shapes
from tests.kit.effort import seeds

if TYPE_CHECKING:
    from penstock.core.slots.slot_sets import SlotSets

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, len(KEYS) - 1), st.integers(-70, 12)),
        st.tuples(st.just("advance"), st.just(0), st.sampled_from([0, 1, 1, 1, 2, 3, 7, 40, 64, 65, 1000])),
        st.tuples(st.just("back"), st.just(0), st.integers(1, 5)),
    ),
    max_size=40,
)


def follow(tried: SlotSets, model: Model, steps: list[tuple[str, int, int]]) -> None:
    for step, key, number in steps:
        if step == "insert":
            slot = model.now + number
            assert tried.insert(KEYS[key], slot) == model.insert(KEYS[key], slot)
        elif step == "advance":
            model.advance(model.now + number)
            tried.advance(model.now)
        else:
            tried.advance(max(0, model.now - number))  # nothing happens


def check(tried: SlotSets, model: Model) -> None:
    assert (tried.oldest, tried.newest) == model.window()
    expected = [model.query(key) for key in KEYS]
    assert [tried.query(key) for key in KEYS] == expected
    assert tried.query_many(np.array(KEYS, dtype=np.int64)).tolist() == expected
    for key, mask in zip(KEYS[:1], expected[:1], strict=True):
        slots = slots_of(mask, tried.oldest)
        window = range(tried.oldest - 2, tried.newest + 3)
        assert [slot for slot in window if tried.contains(key, slot)] == slots


@given(steps=STEPS, ahead=st.sampled_from([0, 0, 1, 9, 63]))
def test_answers_are_those_of_sets(steps: list[tuple[str, int, int]], ahead: int) -> None:
    for tried in everything(ahead=ahead):
        model = Model.of(tried)
        follow(tried, model, steps)
        check(tried, model)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 8))
def test_long_lives(seed: int) -> None:
    dice = Random(seed)
    for tried in everything(ahead=dice.choice([0, 5])):
        model = Model.of(tried)
        for _ in range(40):
            steps = [
                ("insert", dice.randrange(len(KEYS)), dice.randrange(-70, 12))
                if dice.random() < 0.7
                else ("advance", 0, dice.choice([1, 1, 1, 2, 9]))
                for _ in range(20)
            ]
            follow(tried, model, steps)
            check(tried, model)


@pytest.mark.parametrize("shape", shapes(positions=97, hashes=3), ids=label)
def test_a_crowded_filter_loses_nothing(shape: Shape) -> None:
    filtered, model = RefreshingFilter(shape), Model.of(RefreshingFilter(shape))
    dice = Random(5)
    for _ in range(400):
        if dice.random() < 0.3:
            model.advance(model.now + 1)
            filtered.advance(model.now)
        key, slot = dice.choice(KEYS), model.now - dice.randrange(shape.slots)
        assert filtered.insert(key, slot) == model.insert(key, slot)
    for key in KEYS:
        assert model.query(key) & ~filtered.query(key) == 0


def test_each_slot_of_a_refreshing_filter_expires_at_its_own_moment() -> None:
    filtered = RefreshingFilter(Shape(variant=Variant.RBF, arrays=4, groups=4, positions=4096))
    for slot in range(16):
        filtered.advance(slot)
        filtered.insert(KEYS[0], slot)
    assert filtered.query(KEYS[0]) == 0xFFFF
    for passed in range(1, 17):
        filtered.advance(15 + passed)
        assert filtered.query(KEYS[0]) == 0xFFFF >> passed


def test_the_spare_takes_the_newest_slots_and_an_array_is_wiped_when_its_last_slot_expired() -> None:
    filtered = RefreshingFilter(Shape(variant=Variant.RBF, arrays=2, groups=2, positions=4096))
    wiped = []
    for slot in range(1, 13):
        filtered.advance(slot)
        wiped.append(filtered.wiped)
    assert wiped == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert len(filtered.fills()) == 3


def test_reservations_are_kept_until_their_slot_has_passed() -> None:
    filtered = RefreshingFilter(Shape(arrays=8, groups=8, positions=4096, ahead=48), start=1_000_000)
    assert (filtered.oldest, filtered.newest) == (1_000_000 - 15, 1_000_048)
    assert filtered.insert(KEYS[0], 1_000_048)
    assert not filtered.insert(KEYS[0], 1_000_049)
    filtered.advance(1_000_048)
    assert filtered.contains(KEYS[0], 1_000_048)
    filtered.advance(1_000_048 + 15)
    assert slots_of(filtered.query(KEYS[0]), filtered.oldest) == [1_000_048]
    filtered.advance(1_000_048 + 16)
    assert filtered.query(KEYS[0]) == 0


def test_statistics_tell_what_happened() -> None:
    for tried in everything():
        tried.advance(10)
        tried.insert(KEYS[0], 10)
        tried.insert(KEYS[0], 11)
        tried.insert(KEYS[0], 10 - 64)
        found = tried.statistics()
        assert (found.inserted, found.refused) == (1, 2)
        assert (found.oldest, found.newest) == (tried.oldest, tried.newest)
        assert 0 < found.fullest < 0.1
        assert found.joint_false_positive < 1e-6
        assert found.as_json()["memory_bytes"] > 0
