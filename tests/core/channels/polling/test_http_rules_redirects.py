"""A page that has moved for good is fetched from its new address; a redirect for now changes nothing."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.core.channels.polling import FetchOutcome, Manners, PollState, RedirectHop, learn
from penstock.core.channels.polling.http_rules import lasting, redirect_problem

URL = "https://example.org/a"
NEW = "https://example.org/b"
NEWER = "https://example.net/c"


def after(state: PollState, *hops: RedirectHop, status: int = 200, error: str = "") -> PollState:
    url = hops[-1].url if hops else state.moved or URL
    outcome = FetchOutcome(status=status, hops=hops, url=url, error=error, conditional=True)
    return learn(state, outcome, url=URL, manners=Manners(), now_us=1_000_000)


@pytest.mark.parametrize("code", [301, 308])
def test_a_lasting_redirect_is_remembered(code: int) -> None:
    assert after(PollState(), RedirectHop(code, NEW)).moved == NEW
    assert after(PollState(), RedirectHop(code, NEW), RedirectHop(code, NEWER)).moved == NEWER


@pytest.mark.parametrize("code", [302, 303, 307])
def test_a_redirect_for_now_is_not(code: int) -> None:
    assert after(PollState(), RedirectHop(code, NEW)).moved == ""
    assert (
        after(PollState(), RedirectHop(301, NEW), RedirectHop(code, NEWER), RedirectHop(301, URL)).moved
        == NEW
    )
    assert lasting((RedirectHop(code, NEW), RedirectHop(301, NEWER))) == ""


def test_only_a_good_answer_at_the_new_address_counts() -> None:
    assert after(PollState(), RedirectHop(301, NEW), status=404).moved == ""
    assert after(PollState(), RedirectHop(301, NEW), error="It failed.").moved == ""


def test_moved_further_and_moved_back() -> None:
    moved = after(PollState(), RedirectHop(301, NEW))
    assert after(moved).moved == NEW
    assert after(moved, RedirectHop(301, NEWER)).moved == NEWER
    assert after(moved, RedirectHop(301, URL)).moved == ""


def test_a_new_address_that_keeps_failing_is_forgotten() -> None:
    state = after(PollState(), RedirectHop(301, NEW))
    for number in range(limits.MOVED_ERRORS):
        assert state.moved == NEW, number
        state = after(state, status=500)
    assert state.moved == ""


def test_circles_and_long_ways_are_not_followed() -> None:
    assert redirect_problem([URL], NEW) == ""
    assert "circle" in redirect_problem([URL, NEW], URL)
    way = [f"{URL}/{number}" for number in range(limits.REDIRECTS + 1)]
    assert "redirects" in redirect_problem(way, NEW)
    assert redirect_problem(way[:-1], NEW) == ""
