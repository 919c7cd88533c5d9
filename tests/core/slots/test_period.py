"""Periods from arrivals, grids that follow them, policing and patterns."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slots.flows import Police
from penstock.core.slots.period import LEAST, Grid, estimate
from penstock.core.slots.retries import Exponential, RetrySequence, exponential
from penstock.errors import SlotError

NOW = 1_800_000_000_000_000


def arrivals(
    dice: Random, *, count: int, period_us: float, jitter: float = 0.0, loss: float = 0.0, start_us: int = NOW
) -> list[int]:
    found: list[int] = []
    place = 0
    while len(found) < count:
        if dice.random() >= loss:
            found.append(round(start_us + place * period_us + dice.gauss(0, jitter * period_us)))
        place += 1
    return sorted(found)


@given(
    seed=st.integers(0, 2**32),
    period_us=st.floats(1_000, 10_000_000),
    jitter=st.floats(0, 0.1),
    loss=st.floats(0, 0.3),
    count=st.integers(32, 64),
)
def test_a_period_is_found_through_jitter_and_loss(
    seed: int, period_us: float, jitter: float, loss: float, count: int
) -> None:
    times = arrivals(Random(seed), count=count, period_us=period_us, jitter=jitter, loss=loss)
    found = estimate(times)
    if found is None:
        assert jitter > 0.06 or loss > 0.2, "little noise, and no period"
        return
    assert found.period_us == pytest.approx(period_us, rel=0.02)
    assert found.arrivals <= count
    assert 0 <= found.loss < 0.6
    assert found.jitter_us < 0.25 * period_us


@given(st.lists(st.integers(0, 10**12), max_size=80))
def test_whatever_comes_there_is_an_answer(times: list[int]) -> None:
    times.sort()
    found = estimate(times)
    assert found is None or (found.period_us > 0 and found.lost >= 0)


@pytest.mark.parametrize(
    "times",
    [
        [NOW] * 30,
        [NOW, *range(NOW + 10**12, NOW + 10**12 + 30)],
        list(range(NOW, NOW + LEAST - 1)),
        [NOW + 100_000 * (number // 2) + 15_000 * (number % 2) for number in range(64)],
    ],
    ids=["all at once", "a giant gap", "too few", "pairs"],
)
def test_what_has_no_constant_rate_has_no_period(times: list[int]) -> None:
    assert estimate(times) is None


def test_random_arrivals_are_hardly_ever_taken_for_a_flow() -> None:
    dice = Random(5)
    false = 0
    for _ in range(300):
        at_us, times = NOW, []
        for _ in range(64):
            at_us += 1 + round(dice.expovariate(1e-5))
            times.append(at_us)
        false += estimate(times) is not None
    assert false <= 2


def test_the_grid_predicts_better_than_the_last_arrival() -> None:
    dice = Random(1)
    by_grid, by_last = [], []
    for _ in range(10):
        times = arrivals(dice, count=300, period_us=20_000, jitter=0.05, loss=0.1)
        found = estimate(times[:32])
        assert found is not None
        grid = Grid.of(found, times[:32])
        for before, at_us in pairwise(times[31:]):
            steps = grid.steps(at_us)
            by_grid.append(abs(at_us - grid.at(steps)) <= 2_000)
            by_last.append(abs(at_us - before - steps * grid.period_us) <= 2_000)
            grid.add(at_us)
    assert fmean(by_grid) > 0.92
    assert fmean(by_last) < 0.88


def test_a_grid_follows_a_clock_that_drifts() -> None:
    dice = Random(2)
    grid = Grid(100_000, NOW)
    at_us, period_us = float(NOW), 100_000.0
    for _ in range(3_000):
        period_us *= 1 + 2e-7
        at_us += period_us
        grid.add(round(at_us + dice.gauss(0, 1_000)))
    assert grid.period_us == pytest.approx(period_us, rel=2e-4)
    assert abs(grid.at(1) - at_us - period_us) < 1_500
    assert grid.jitter_us == pytest.approx(1_000, rel=0.3)


def test_a_flow_that_moves_has_its_grid_move_after_some_outliers() -> None:
    grid = Grid(100_000, NOW)
    for number in range(1, 50):
        grid.add(NOW + 100_000 * number)
    moved = NOW + 100_000 * 50 + 40_000
    for number in range(20):
        grid.add(moved + 100_000 * number)
    assert abs(grid.at(1) - (moved + 100_000 * 20)) < 5_000


# -- policing ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 400_000), min_size=1, max_size=200), st.integers(0, 200_000))
def test_no_flow_gets_more_than_its_rate_and_its_tolerance(gaps: list[int], tolerance_us: int) -> None:
    police = Police(100_000, tolerance_us)
    at_us, passed = NOW, []
    for gap in gaps:
        at_us += gap
        if police.conforms(at_us):
            passed.append(at_us)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], start=first):
            assert (last - first) * 100_000 <= end - start + tolerance_us


def test_packets_at_the_declared_rate_conform() -> None:
    police = Police(100_000, 0)
    assert all(police.conforms(NOW + 100_000 * number) for number in range(50))
    assert not police.conforms(NOW + 100_000 * 49 + 1)


@pytest.mark.parametrize(("period_us", "tolerance_us"), [(0, 0), (-1, 0), (float("nan"), 0), (1, -1)])
def test_police_without_a_rate_is_refused(period_us: float, tolerance_us: float) -> None:
    with pytest.raises(SlotError):
        Police(period_us, tolerance_us)


# -- patterns ------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**9), st.integers(1, 10**7), st.integers(0, 10**10))
def test_the_next_retry_is_the_first_after_now(start: int, period: int, now: int) -> None:
    retry = Exponential(start, period).after(now)
    assert retry > now or retry == start
    if retry > start:
        assert ((retry - start) // period).bit_count() == 1


@given(st.integers(0, 10**9), st.integers(1_000, 10**7), st.integers(6, 12))
def test_doubling_distances_are_recognised(start: int, period: int, count: int) -> None:
    times = [start, *(start + period * 2**number for number in range(count - 1))]
    found = exponential(times)
    assert found is not None
    assert found.period_us == pytest.approx(period)
    assert exponential([start + period * number for number in range(count)]) is None


def test_random_arrivals_are_not_taken_for_retries() -> None:
    dice, mistaken = Random(5), 0
    for _ in range(400):
        times = [0]
        for _ in range(64):
            times.append(times[-1] + round(dice.expovariate(1) * 100_000))
        mistaken += any(RetrySequence.found(times[:last], times[last]) for last in range(6, 64))
    assert mistaken <= 3, "0.05 % of the windows, so three of 400 have a chance of one in a thousand"


@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_retries_are_followed_into_the_next_sequence(jitter: float) -> None:
    dice, start, period = Random(3), 1_000_000, 50_000
    times = [start]
    times += [start + round(period * 2**number * (1 + dice.uniform(-jitter, jitter))) for number in range(8)]
    found = RetrySequence.found(times[1:6], times[6])
    assert found is not None, "without the first one"
    found = RetrySequence.found(times[:5], times[5])
    assert found is not None
    assert found.period_us == pytest.approx(period, rel=2 * jitter + 0.01)
    assert all(found.arrive(at_us) for at_us in times[6:])
    assert not found.arrive(10**9), "a new sequence"
    assert found.next_us == pytest.approx(10**9 + period, rel=0.1)
    assert found.arrive(10**9 + period)
    for number in range(4):
        assert not found.forgotten
        assert not found.arrive(10**10 + 10**9 * number)
    assert found.forgotten


@pytest.mark.parametrize("period_us", [0, -5, float("inf")])
def test_patterns_need_a_period(period_us: float) -> None:
    with pytest.raises(SlotError, match="allowed: above 0"):
        Exponential(0, period_us)
