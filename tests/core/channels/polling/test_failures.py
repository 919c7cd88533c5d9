"""Errors: longer and longer pauses, pages that are gone, answers that cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.polling import (
    FetchOutcome,
    HostBudget,
    Manners,
    PollState,
    Wait,
    decide,
    learn,
    plan,
)
from penstock.core.channels.polling.decider import complain
from penstock.core.channels.polling.failures import pause_us

URL = "https://example.org/feed"
S = 1_000_000
DAY = 86_400 * S
NOW = 1_700_000_000 * S
MANNERS = Manners()
PLAN = plan(URL, interval_us=900 * S, manners=MANNERS)


def after(state: PollState, status: int, *, error: str = "", now_us: int = NOW) -> PollState:
    outcome = FetchOutcome(status=status, error=error, url=URL)
    return learn(state, outcome, url=URL, manners=MANNERS, now_us=now_us)


def waits(state: PollState, now_us: int, *, asked: bool = False) -> Wait:
    host = HostBudget("example.org")
    intent = decide(state, PLAN, host=host, manners=MANNERS, now_us=now_us, asked=asked)
    assert isinstance(intent, Wait)
    return intent


@given(st.text(max_size=20), st.integers(1, 10_000))
def test_pauses_grow_within_bounds_and_are_the_same_again(url: str, errors: int) -> None:
    pause = pause_us(url, errors, manners=MANNERS)
    bound = min(MANNERS.error_least_us * 2 ** min(errors - 1, 60), MANNERS.error_most_us)
    assert bound * 3 // 4 <= pause <= bound
    assert pause == pause_us(url, errors, manners=MANNERS)


def test_channels_that_fail_together_do_not_come_back_together() -> None:
    pauses = {pause_us(f"https://example.org/{number}", 3, manners=MANNERS) for number in range(1_000)}
    assert len(pauses) > 990


@pytest.mark.parametrize(
    "status", [204, 206, 300, 301, 400, 401, 403, 404, 418, 429, 451, 500, 503, 599, 999]
)
def test_every_other_answer_is_an_error_with_a_sentence(status: int) -> None:
    state = after(PollState(), status)
    assert state.errors == 1
    assert str(status) in state.problem
    assert state.problem.endswith(".")
    assert waits(state, NOW).until_us >= NOW + MANNERS.error_least_us * 3 // 4


@pytest.mark.parametrize("status", [200, 203, 226])
def test_a_good_answer_ends_the_row_of_errors(status: int) -> None:
    state = after(after(after(PollState(), 500), 0, error="It failed."), status)
    assert (state.errors, state.problem) == (0, "")


def test_an_answer_broken_off_counts_as_an_error_and_leaves_the_validators_alone() -> None:
    known = learn(
        PollState(), FetchOutcome(status=200, headers={"etag": '"1"'}), url=URL, manners=MANNERS, now_us=NOW
    )
    state = after(known, 200, error="The answer was broken off.")
    assert (state.errors, state.etag) == (1, '"1"')


def test_gone_at_once_with_410() -> None:
    state = after(PollState(), 410)
    assert state.gone
    wait = waits(state, NOW)
    assert wait.until_us == NOW + MANNERS.gone_us
    assert "gone" in wait.reason


def test_gone_when_not_found_for_long_whatever_happens_in_between() -> None:
    state = after(PollState(), 404)
    for day in range(1, 8):
        assert not state.gone
        state = after(state, 0, error="No answer.", now_us=NOW + day * DAY - S)
        state = after(state, 404, now_us=NOW + day * DAY)
    assert state.gone
    assert not after(state, 200).gone
    assert after(after(state, 200, now_us=NOW + 8 * DAY), 404, now_us=NOW + 9 * DAY).gone is False


def test_a_person_may_ask_again_for_what_failed_or_is_gone_but_not_at_once() -> None:
    for status in (500, 410):
        state = after(PollState(), status)
        assert waits(state, NOW + S, asked=True).until_us == NOW + MANNERS.least_us
        host = HostBudget("example.org")
        later_us = NOW + MANNERS.least_us
        intent = decide(state, PLAN, host=host, manners=MANNERS, now_us=later_us, asked=True)
        assert not isinstance(intent, Wait)


def test_pages_that_cannot_be_read_are_asked_for_less_and_less_and_in_full() -> None:
    state = PollState()
    for number in range(1, 6):
        answer = FetchOutcome(status=200, headers={"etag": '"1"'}, url=URL)
        state = complain(learn(state, answer, url=URL, manners=MANNERS, now_us=NOW), "It is no feed.")
        assert (state.errors, state.etag, state.problem) == (number, "", "It is no feed.")
    assert after(state, 200).errors == 0
