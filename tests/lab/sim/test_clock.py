"""The virtual clock: order, cancelling, ends of runs, and runs that would never end."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SimulationError
from penstock_lab.sim.clock import Clock, Timer


def test_actions_run_in_order_of_time() -> None:
    clock, seen = Clock(), list[int]()
    for when_us in (30, 10, 20):
        clock.at(when_us, lambda: seen.append(clock.now_us))
    assert clock.run(100) == 3
    assert seen == [10, 20, 30]
    assert clock.now_us == 100


@given(st.lists(st.integers(0, 5), max_size=50))
def test_equal_times_run_in_the_order_of_planning(times: list[int]) -> None:
    clock, seen = Clock(), list[tuple[int, int]]()
    for number, when_us in enumerate(times):
        clock.at(when_us, partial(seen.append, (when_us, number)))
    clock.run_until_idle()
    assert seen == sorted((when_us, number) for number, when_us in enumerate(times))


def test_an_action_for_the_present_runs_after_those_already_planned() -> None:
    clock, seen = Clock(), list[str]()

    def first() -> None:
        seen.append("first")
        clock.after(0, lambda: seen.append("planned by first"))

    clock.at(5, first)
    clock.at(5, lambda: seen.append("second"))
    clock.run(5)
    assert seen == ["first", "second", "planned by first"]


def test_run_includes_its_end_and_keeps_what_comes_later() -> None:
    clock, seen = Clock(), list[int]()
    clock.at(10, lambda: seen.append(10))
    clock.at(11, lambda: seen.append(11))
    clock.run(10)
    assert seen == [10]
    assert clock.pending == 1
    clock.run(11)
    assert seen == [10, 11]
    assert clock.pending == 0


def test_run_until_idle_stops_at_the_last_action() -> None:
    clock = Clock()
    clock.after(7, lambda: None)
    assert clock.run_until_idle() == 1
    assert clock.now_us == 7


def test_a_cancelled_action_does_not_run() -> None:
    clock, seen = Clock(), list[str]()
    cancelled = clock.at(1, lambda: seen.append("cancelled"))
    kept = clock.at(1, lambda: seen.append("kept"))
    cancelled.cancel()
    assert not cancelled.active
    assert kept.active
    assert clock.pending == 1
    assert clock.run(1) == 1
    assert seen == ["kept"]
    kept.cancel()


def test_a_timer_is_active_until_it_has_run() -> None:
    clock = Clock()
    timer = clock.at(1, lambda: None)
    active = [timer.active]
    clock.run(1)
    assert [*active, timer.active] == [True, False]


def test_an_action_may_cancel_one_of_the_same_moment() -> None:
    clock, seen = Clock(), list[str]()
    planned = list[Timer]()

    def cancel_all() -> None:
        for timer in planned:
            timer.cancel()

    clock.at(1, cancel_all)
    planned.append(clock.at(1, lambda: seen.append("cancelled")))
    clock.run(1)
    assert seen == []


def test_the_past_is_refused() -> None:
    clock = Clock()
    clock.run(10)
    with pytest.raises(SimulationError, match="planned for 9 µs, but the clock is at 10 µs"):
        clock.at(9, lambda: None)
    with pytest.raises(SimulationError, match="planned for 9 µs"):
        clock.after(-1, lambda: None)
    with pytest.raises(SimulationError, match="run until 9 µs"):
        clock.run(9)


def test_an_action_may_not_run_the_clock() -> None:
    clock = Clock()

    def run_on() -> None:
        clock.run(2)

    clock.at(1, run_on)
    with pytest.raises(SimulationError, match=r"an action called run\(\)"):
        clock.run(5)


def test_standing_time_is_an_error_that_names_the_moment_and_the_action() -> None:
    clock = Clock(steps_per_instant=100)

    def again() -> None:
        clock.after(0, again)

    clock.at(3, again)
    with pytest.raises(SimulationError, match=r"time stands still at 3 µs: more than 100 steps.*again"):
        clock.run(10)


def test_the_bound_counts_per_moment_and_not_per_run() -> None:
    clock = Clock(steps_per_instant=2)
    for when_us in (0, 0, 1, 1, 2, 2):
        clock.at(when_us, lambda: None)
    assert clock.run(2) == 6


def test_a_timer_that_renews_itself_for_ever_is_an_error_without_an_end_time() -> None:
    clock = Clock()

    def again() -> None:
        clock.after(10, again)

    again()
    with pytest.raises(SimulationError, match="still not idle after 50 steps"):
        clock.run_until_idle(step_limit=50)
    assert clock.steps == 50


def test_a_bound_of_no_steps_is_refused() -> None:
    with pytest.raises(SimulationError, match="steps_per_instant is 0"):
        Clock(steps_per_instant=0)


def test_the_clock_goes_on_after_an_action_failed() -> None:
    clock, seen = Clock(), list[int]()

    def fail() -> None:
        raise ValueError("broken")

    clock.at(1, fail)
    clock.at(2, lambda: seen.append(2))
    with pytest.raises(ValueError, match="broken"):
        clock.run(5)
    clock.run(5)
    assert seen == [2]
