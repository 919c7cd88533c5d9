"""The rate limiter: never faster than agreed, never later than needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.instant import SECOND_US
from penstock.node.access.rate import ClientRates, RateLimit, RateLimits


@given(st.integers(1, 1000), st.integers(1, 10), st.lists(st.integers(0, 3000), min_size=1, max_size=100))
def test_a_burst_and_then_evenly(interval_us: int, burst: int, gaps_us: list[int]) -> None:
    limits = RateLimits(interval_us=interval_us, burst=burst, keys=10)
    now_us, sent = 0, []
    for gap_us in gaps_us:
        now_us += gap_us
        wait_us = int(limits.wait_us("ann", now_us=now_us))
        now_us += wait_us
        assert limits.wait_us("ann", now_us=now_us) == 0  # waiting so long is enough
        if wait_us:
            assert limits.wait_us("ann", now_us=now_us - 1) == 1  # and less is not
            assert not limits.take("ann", now_us=now_us - 1)
        assert limits.take("ann", now_us=now_us)
        sent.append(now_us)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + (sent[last] - sent[first]) // interval_us


def test_nobody_waits_for_another() -> None:
    limits = RateLimits(interval_us=1_000_000, burst=1, keys=10)
    limits.spend("ann", now_us=0)
    assert limits.wait_us("ann", now_us=0) == 1_000_000
    assert limits.wait_us("bob", now_us=0) == 0


def test_a_clock_that_is_set_back_holds_nobody_for_long() -> None:
    limits = RateLimits(interval_us=1_000_000, burst=1, keys=10)
    limits.spend("ann", now_us=10**15)
    assert limits.wait_us("ann", now_us=0) == 1_000_000
    assert limits.wait_us("ann", now_us=1_000_000) == 0
    limit = RateLimit(interval_us=1_000_000, ahead_us=0)
    assert limit.take(now_us=10**15)
    assert not limit.take(now_us=0)
    assert limit.take(now_us=1_000_000)


def test_whoever_uses_more_than_allowed_waits_for_one_unit() -> None:
    limits = RateLimits(interval_us=1_000_000, burst=3, keys=10)
    for _ in range(100):
        limits.spend("ann", now_us=0)
    assert limits.wait_us("ann", now_us=0) == 1_000_000


def test_keys_that_were_not_seen_for_longest_are_forgotten() -> None:
    limits = RateLimits(interval_us=1_000_000, burst=1, keys=2)
    for key in "abac":
        limits.spend(key, now_us=0)
    assert [bool(limits.wait_us(key, now_us=0)) for key in "abc"] == [True, False, True]


def test_a_limit_of_amounts_waits_as_long_as_the_rate_takes() -> None:
    limit = RateLimit.of(100.0, ahead_s=1)
    limit.spend(100, now_us=0)
    assert limit.wait_us(now_us=0) == 0
    limit.spend(100, now_us=0)
    assert limit.wait_us(now_us=0) == pytest.approx(SECOND_US)
    assert limit.wait_us(now_us=SECOND_US) == 0
    limit.spend(1_000, now_us=10 * SECOND_US)
    assert limit.wait_us(now_us=10 * SECOND_US) == pytest.approx(9 * SECOND_US)


def test_rates_make_a_client_wait_as_long_as_its_rates_take() -> None:
    rates = ClientRates(100.0, 0.0)
    rates.spend(100, 5, now_us=0)
    assert rates.wait_s(now_us=0) == 0
    rates.spend(100, 5, now_us=0)
    assert rates.wait_s(now_us=0) == pytest.approx(1.0)
    assert rates.wait_s(now_us=SECOND_US) == 0
    by_bytes = ClientRates(0.0, 1000.0)
    by_bytes.spend(1, 3000, now_us=0)
    assert by_bytes.wait_s(now_us=0) == pytest.approx(2.0)
    by_both = ClientRates(100.0, 1000.0)
    by_both.spend(300, 2000, now_us=0)
    assert by_both.wait_s(now_us=0) == pytest.approx(2.0)
