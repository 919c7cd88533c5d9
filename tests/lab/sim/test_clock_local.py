"""A node's clock: offset, drift, and planning in local time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SimulationError
from penstock_lab.sim.clock import Clock, LocalClock


def test_a_clock_without_skew_reads_the_true_time() -> None:
    clock = Clock()
    clock.run(123)
    assert LocalClock(clock).now_us == 123


def test_offset_and_drift_add_up() -> None:
    clock = Clock()
    local = LocalClock(clock, offset_us=-500, drift_ppm=100)
    assert local.now_us == -500
    clock.run(10_000_000)
    assert local.now_us == 10_000_000 - 500 + 1_000


@given(
    offset_us=st.integers(-(10**9), 10**9),
    drift_ppm=st.integers(-999_999, 10**6),
    when_us=st.integers(-(10**9), 10**12),
)
def test_an_action_runs_at_the_first_moment_that_reads_so_late(
    offset_us: int, drift_ppm: int, when_us: int
) -> None:
    clock = Clock()
    local = LocalClock(clock, offset_us=offset_us, drift_ppm=drift_ppm)
    true_us = local.at(when_us, lambda: None).when_us
    clock.run(max(true_us - 1, 0))
    assert true_us == 0 or local.now_us < when_us
    clock.run(true_us)
    assert local.now_us >= when_us


def test_a_clock_that_runs_backward_is_refused() -> None:
    with pytest.raises(SimulationError, match="drift_ppm is -1000000"):
        LocalClock(Clock(), drift_ppm=-1_000_000)
