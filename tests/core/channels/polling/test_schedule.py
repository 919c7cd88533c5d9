"""Turns: evenly spread over channels and nodes, kept when late, never made up for."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.polling import Manners, PollState, plan
from penstock.core.channels.polling.schedule import hold, next_us
from penstock.core.channels.polling.values import settled, shifted

S = 1_000_000
MANNERS = Manners(least_us=S, most_us=86_400 * S)
URL = "https://example.org/feed"


def test_channels_spread_evenly_over_the_interval() -> None:
    bins = [0] * 20
    for number in range(20_000):
        one = plan(f"https://example.org/{number}", interval_us=900 * S, manners=MANNERS)
        bins[one.phase_us * 20 // one.interval_us] += 1
    assert max(bins) < 1_000 * 1.15  # 4.6 standard deviations
    assert min(bins) > 1_000 * 0.85


def test_pollers_of_one_channel_share_its_interval() -> None:
    phases = sorted(
        plan(URL, interval_us=900 * S, manners=MANNERS, rank=rank, pollers=6).phase_us for rank in range(6)
    )
    gaps = [after - before for before, after in zip(phases, [*phases[1:], phases[0] + 900 * S], strict=True)]
    assert gaps == [150 * S] * 6


@given(st.integers(S, 86_400 * S), st.integers(0, 10**16))
def test_the_next_turn_is_the_first_of_the_phase(interval_us: int, after_us: int) -> None:
    one = plan(URL, interval_us=interval_us, manners=MANNERS)
    found = next_us(one, after_us=after_us)
    assert 0 <= found - after_us < one.interval_us
    assert found % one.interval_us == one.phase_us


@given(st.lists(st.integers(0, 89), min_size=50, max_size=50))
def test_lateness_does_not_add_up(late_s: list[int]) -> None:
    one = plan(URL, interval_us=180 * S, manners=MANNERS)
    now_us, turns = 10**15, []
    for late in late_s:
        wait = hold(PollState(polled_us=now_us), one, now_us=now_us)
        assert wait is not None
        turns.append(wait.until_us)
        now_us = wait.until_us + late * S
    assert [after - before for before, after in itertools.pairwise(turns)] == [180 * S] * 49


@given(st.integers(S, 86_400 * S), st.integers(S, 86_400 * S), st.integers(0, 10**12))
def test_a_changed_interval_brings_no_poll_at_once(before_us: int, after_us: int, ago_us: int) -> None:
    now_us = 10**15
    polled = PollState(polled_us=now_us - ago_us % before_us)
    one = plan(URL, interval_us=after_us, manners=MANNERS)
    wait = hold(polled, one, now_us=now_us)
    due_us = now_us if wait is None else wait.until_us
    assert due_us >= min(now_us, polled.polled_us + one.interval_us // 2)
    assert due_us <= max(now_us, polled.polled_us + 2 * one.interval_us)


def test_turns_missed_while_we_were_away_are_not_made_up_for() -> None:
    now_us = 10**15
    away = PollState(polled_us=now_us - 30 * 86_400 * S)
    one = plan(URL, interval_us=900 * S, manners=MANNERS, since_us=now_us)
    wait = hold(away, one, now_us=now_us)
    assert wait is not None
    assert wait.until_us == next_us(one, after_us=now_us)


def test_a_state_from_the_future_is_moved_back() -> None:
    now_us = 10**15
    wrong = PollState(polled_us=now_us + 10**12, not_before_us=now_us + 10**12 + 5 * S)
    state = settled(wrong, now_us=now_us)
    assert (state.polled_us, state.not_before_us, state.fresh_until_us) == (now_us, now_us + 5 * S, 0)
    assert settled(state, now_us=now_us) is state
    broken = PollState(polled_us=now_us, not_before_us=2**62)
    assert settled(broken, now_us=now_us).not_before_us == 0
    assert shifted(shifted(state, 77), -77) == state
