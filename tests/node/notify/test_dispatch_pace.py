"""How fast one subscriber may be told: never faster than agreed, never later than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.node.notify.dispatch import SubscriberPace


@given(st.integers(1, 1000), st.integers(1, 10), st.lists(st.integers(0, 3000), min_size=1, max_size=100))
def test_a_burst_and_then_evenly(interval_us: int, burst: int, gaps_us: list[int]) -> None:
    pace = SubscriberPace(interval_us=interval_us, burst=burst)
    now_us, sent = 0, []
    for gap_us in gaps_us:
        now_us += gap_us
        wait_us = pace.wait_us("ann", now_us=now_us)
        now_us += wait_us
        assert pace.wait_us("ann", now_us=now_us) == 0  # waiting so long is enough
        if wait_us:
            assert pace.wait_us("ann", now_us=now_us - 1) == 1  # and less is not
        pace.spend("ann", now_us=now_us)
        sent.append(now_us)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + (sent[last] - sent[first]) // interval_us


def test_nobody_waits_for_another() -> None:
    pace = SubscriberPace(interval_us=1_000_000, burst=1)
    pace.spend("ann", now_us=0)
    assert pace.wait_us("ann", now_us=0) == 1_000_000
    assert pace.wait_us("bob", now_us=0) == 0


def test_a_clock_that_is_set_back_holds_nobody_for_long() -> None:
    pace = SubscriberPace(interval_us=1_000_000, burst=1)
    pace.spend("ann", now_us=10**15)
    assert pace.wait_us("ann", now_us=0) == 1_000_000
    assert pace.wait_us("ann", now_us=1_000_000) == 0
