"""Durations as text."""

from __future__ import annotations

import pytest

from penstock.model.instant import SECOND_US, duration


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 ms"), (999, "0.999 ms"), (1_500, "1.5 ms"), (2_500_000, "2.5 s"), (61_000_000, "61 s"),
     (120 * SECOND_US, "2 min"), (7_260 * SECOND_US, "2.02 h"), (86_400 * SECOND_US, "24 h"),
     (3 * 86_400 * SECOND_US, "3 d")],
)  # fmt: skip
def test_a_duration_has_three_digits_and_the_largest_unit_that_fits_twice(us: int, text: str) -> None:
    assert duration(us) == text
