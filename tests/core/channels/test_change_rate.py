"""How often channels change: the bias of counting, and that of ours."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.change_rate import Estimator, complete, rate_per_s
from penstock.model.instant import SECOND_US

HOUR_US = 3_600 * SECOND_US
FOR_EVER_US = 2**62


def incomplete(polls: list[tuple[int, bool]]) -> float:
    """Changes per second, from polls: microseconds since the poll before, and whether there was a change."""
    polls = [(interval_us, changed) for interval_us, changed in polls if interval_us > 0]
    if not polls:
        return 0.0
    return rate_per_s(
        [(1.0, interval_us) for interval_us, changed in polls if changed],
        unchanged_us=sum(interval_us for interval_us, changed in polls if not changed),
        mean_us=sum(interval_us for interval_us, _ in polls) / len(polls),
    )


def polls(rate_per_poll: float, *, seed: int, count: int = 30, even: bool = False) -> list[tuple[int, bool]]:
    """Polls every hour, or after anything up to two hours, of a channel that changes at random."""
    rng = np.random.default_rng(seed)
    intervals = np.full(count, HOUR_US) if even else rng.integers(1, 2 * HOUR_US, count)
    changed = rng.random(count) < -np.expm1(-rate_per_poll * intervals / HOUR_US)
    return list(zip(intervals.tolist(), changed.tolist(), strict=True))


def bias(rates: list[float], rate_per_poll: float) -> float:
    return float(np.mean(rates)) / (rate_per_poll / (HOUR_US / SECOND_US)) - 1


def naive(found: list[tuple[int, bool]]) -> float:
    return sum(changed for _, changed in found) / sum(interval for interval, _ in found) * SECOND_US


def test_counting_is_72_percent_low_where_a_channel_changes_three_times_between_polls() -> None:
    tried = [polls(3, seed=seed) for seed in range(300)]
    assert bias([naive(one) for one in tried], 3) == pytest.approx(-0.72, abs=0.01)
    assert abs(bias([incomplete(one) for one in tried], 3)) < 0.08


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(("rate_per_poll", "most"), [(0.1, 0.08), (0.3, 0.06), (1, 0.06), (3, 0.09)])
def test_the_bias_is_small(rate_per_poll: float, most: float, even: bool) -> None:
    tried = [incomplete(polls(rate_per_poll, seed=seed, even=even)) for seed in range(300)]
    assert abs(bias(tried, rate_per_poll)) < most


def test_more_polls_leave_less_bias() -> None:
    tried = [incomplete(polls(3, seed=seed, count=1_000)) for seed in range(20)]
    assert abs(bias(tried, 3)) < 0.02


@given(
    found=st.lists(st.tuples(st.integers(1, 10**13), st.booleans()), min_size=1, max_size=40),
)
def test_a_node_that_learns_poll_by_poll_learns_the_same(found: list[tuple[int, bool]]) -> None:
    learned = Estimator(memory_us=FOR_EVER_US)
    for interval_us, changed in found:
        learned.observe(interval_us, changed=changed)
    assert learned.rate_per_s == pytest.approx(incomplete(found), rel=0.05)
    assert 0 < learned.rate_per_s < float("inf")


@given(found=st.lists(st.tuples(st.integers(1, 10**13), st.booleans()), min_size=1, max_size=40))
def test_the_rate_is_where_the_likelihood_has_its_top(found: list[tuple[int, bool]]) -> None:
    if not any(changed for _, changed in found):
        return
    intervals = np.array([interval for interval, _ in found], float) / SECOND_US
    changed = np.array([changed for _, changed in found])

    def likelihood(rate: float) -> float:
        seen = np.log(-np.expm1(-rate * intervals[changed])).sum()
        return float(seen - rate * (intervals[~changed].sum() + 0.5 * intervals.mean()))

    rate = incomplete(found)
    assert likelihood(rate) >= max(likelihood(rate * 0.99), likelihood(rate * 1.01))


def test_every_poll_with_a_change_is_a_finite_rate_and_none_is_a_small_one() -> None:
    always, never = [(HOUR_US, True)] * 30, [(HOUR_US, False)] * 30
    assert incomplete(always) * 3_600 == pytest.approx(np.log(61))
    assert incomplete(never) * 3_600 == pytest.approx(0.5 / 30.5)
    assert incomplete([]) == 0
    assert incomplete([(0, True)]) == 0


def test_what_was_long_ago_counts_less() -> None:
    learned = Estimator()
    for _ in range(24 * 60):
        learned.observe(HOUR_US, changed=True)
    busy = learned.rate_per_s
    for _ in range(24 * 180):
        learned.observe(HOUR_US, changed=False)
    assert learned.rate_per_s < busy / 50


def test_the_state_is_stored_and_goes_on() -> None:
    learned = Estimator()
    for interval_us, changed in polls(1, seed=1):
        learned.observe(interval_us, changed=changed)
    again = msgspec.json.decode(msgspec.json.encode(learned), type=Estimator)
    for one in (learned, again):
        one.observe(HOUR_US, changed=True)
    assert again == learned
    assert len(msgspec.json.encode(learned)) < 2_000
    assert Estimator().update_interval_us is None


def test_dates_of_items_tell_the_rate_without_bias() -> None:
    rng = np.random.default_rng(2)
    now_us = 10**15
    rates = []
    for _ in range(500):
        gaps = rng.exponential(HOUR_US, 15)
        rates.append(complete((now_us - np.cumsum(gaps)).astype(int).tolist(), now_us=now_us))
    assert bias(rates, 1) == pytest.approx(0, abs=0.03)


def test_dates_that_tell_nothing() -> None:
    assert complete([], now_us=5) == 0
    assert complete([1], now_us=5) == 0
    assert complete([3, 3, 3], now_us=5) == 0, "items of one moment are one change"
    assert complete([9, 10, 11], now_us=5) == 0, "dates in the future are not believed"
    assert complete([5, 4], now_us=5) > 0
