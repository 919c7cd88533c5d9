"""The pace of a receiver: learned from what it took while it had something to take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.queues.pace import LEAST_US, LUMP_US, WINDOW_US, Pace
from penstock.model.instant import LONGEST_US, SECOND_US


def test_it_is_not_known_before_enough_was_seen() -> None:
    pace = Pace()
    assert (pace.per_s, pace.room(SECOND_US), pace.wait_us(100)) == (None, None, None)
    pace.took(100, over_us=LEAST_US - 1)
    assert pace.per_s is None
    pace.took(1, over_us=2)
    assert pace.per_s is not None


@given(
    per_ms=st.integers(1, 1_000_000),
    spans=st.lists(st.integers(1, 3_000), min_size=1, max_size=50),
)
def test_a_steady_receiver_has_its_own_pace(per_ms: int, spans: list[int]) -> None:
    pace = Pace()
    for span_ms in [*spans, 300]:
        pace.took(per_ms * span_ms, over_us=span_ms * 1_000)
    assert pace.per_s == pytest.approx(per_ms * 1_000)
    assert pace.room(SECOND_US) == pytest.approx(per_ms * 1_000)
    assert pace.wait_us(per_ms * 500) == pytest.approx(500_000, abs=1)


def test_what_is_outside_waits_too() -> None:
    pace = Pace()
    pace.took(10_000, over_us=SECOND_US)
    pace.outside = 2_500
    assert pace.wait_us(0) == 250_000
    assert pace.wait_us(5_000) == 750_000
    assert pace.room(SECOND_US) == 7_500
    pace.beside = 6_000
    assert pace.wait_us(5_000) == 850_000  # behind all queues of the receiver


def test_a_receiver_that_takes_nothing() -> None:
    pace = Pace()
    pace.took(0, over_us=SECOND_US)
    assert (pace.per_s, pace.room(SECOND_US), pace.wait_us(1)) == (0, 0, LONGEST_US)


def test_silence_counts_when_it_is_longer_than_a_lump() -> None:
    pace = Pace()
    pace.took(10_000, over_us=SECOND_US)
    pace.took(0, over_us=LUMP_US)
    assert pace.per_s == 10_000
    pace.took(LUMP_US // 100, over_us=1)  # as much as its pace makes of the silence
    assert pace.per_s == pytest.approx(10_000, rel=0.01)
    pace.took(0, over_us=LUMP_US + 2 * WINDOW_US)
    assert pace.per_s is not None
    assert pace.per_s < 1_000
    pace.rested()
    assert pace.per_s == pytest.approx(10_000, rel=0.01)


def test_a_change_is_followed_within_seconds() -> None:
    pace = Pace()
    for _ in range(100):
        pace.took(1_000, over_us=100_000)
    for _ in range(2 * WINDOW_US // 100_000):
        pace.took(100, over_us=100_000)
    assert pace.per_s is not None
    assert 1_000 < pace.per_s < 2_500  # of 10,000 before


def test_what_was_known_before_a_rest_counts_little() -> None:
    pace = Pace()
    for _ in range(100):
        pace.took(100, over_us=100_000)
    pace.rested()
    assert pace.per_s == pytest.approx(1_000)
    pace.took(100_000, over_us=100_000)
    assert pace.per_s is not None
    assert pace.per_s > 200_000


def test_items_instead_of_bytes_and_headers() -> None:
    assert Pace(by_items=True).amount(size=500, items=3) == 3
    assert Pace(overhead=6).amount(size=500, items=3) == 518
