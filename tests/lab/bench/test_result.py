"""A judged row of a benchmark says what would make it fail, and at which figure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_lab.bench.result import BenchmarkRow

FAST = BenchmarkRow("fast", 600.0, "msg/s", "mosquitto", 100.0, 6.0, 5.0)
SHORT = BenchmarkRow("short", 2.0, "ms", "mosquitto", 6.0, 3.0, 2.0, less=True)


def test_the_figure_at_which_a_row_fails_is_in_its_unit() -> None:
    assert FAST.told == "fails below 500 msg/s"
    assert SHORT.told == "fails above 3 ms"
    assert FAST.as_json()["note"] == FAST.told


def test_a_cause_and_a_note_are_told_with_it() -> None:
    row = replace(SHORT, note="median of 5 pairs", fails_if="a message waits for others")
    assert row.told == "median of 5 pairs; fails if a message waits for others: above 3 ms"


def test_a_row_without_a_goal_is_not_judged_and_fails_never() -> None:
    row = replace(FAST, goal=None, note="so", fails_if="slow")
    assert (row.ok, row.told) == (None, "so")


@pytest.mark.parametrize("row", [replace(FAST, ratio=5.9), replace(FAST, rival_value=None)])
def test_where_the_ratio_is_not_that_of_two_figures_the_ratio_is_told(row: BenchmarkRow) -> None:
    assert row.told == "fails below 5.00 ×"


def test_nothing_where_nothing_is_best_still_tells_the_limit() -> None:
    row = BenchmarkRow("false alarms", 0.0, "%", "limit", 3.0, 3_000.0, 1.0, less=True)
    assert (row.ok, row.told) == (True, "fails above 3 %")


@pytest.mark.parametrize("row", [FAST, SHORT])
def test_a_ratio_of_the_other_direction_is_a_mistake(row: BenchmarkRow) -> None:
    with pytest.raises(AssertionError, match="is better"):
        replace(row, less=not row.less)


@given(own=st.floats(0.01, 1e6), rival=st.floats(0.01, 1e6), goal=st.floats(0.1, 100.0), less=st.booleans())
def test_a_row_fails_beyond_the_figure_it_tells_and_nowhere_else(
    own: float, rival: float, goal: float, less: bool
) -> None:
    row = BenchmarkRow("x", own, "u", "r", rival, rival / own if less else own / rival, goal, less=less)
    limit = rival / goal if less else rival * goal
    assert row.told.startswith("fails above" if less else "fails below")
    for value in (0.99 * limit, 1.01 * limit):
        near = replace(row, value=value, ratio=rival / value if less else value / rival)
        assert near.ok is (value < limit if less else value > limit)
