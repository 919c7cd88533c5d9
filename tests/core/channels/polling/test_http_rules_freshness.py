"""How long answers are fresh, by the server's own clock, and never for long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.channels.polling import Manners, PollState, take_hints
from penstock.core.channels.polling.http_rules import fresh_us, rest_hold, skip_hold
from tests.kit.http_headers import Said

NOW = 1_770_114_030_000_000  # Tuesday 3 February 2026, 10:20:30 UTC
S = 1_000_000
MANNERS = Manners()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"cache-control": "max-age=600"}, 600),
        ({"cache-control": "public, Max-Age = 600 , must-revalidate"}, 600),
        ({"cache-control": 'max-age="600"'}, 600),
        ({"cache-control": "max-age=600", "age": "500"}, 100),
        ({"cache-control": "max-age=600", "age": "5000"}, 0),
        ({"cache-control": "max-age=0"}, 0),
        ({"cache-control": "no-cache, max-age=600"}, 0),
        ({"cache-control": "no-store"}, 0),
        ({"cache-control": "max-age=nonsense", "expires": "Tue, 03 Feb 2026 11:00:00 GMT"}, 0),
        ({"cache-control": "max-age=604800"}, 3_600),
        ({"cache-control": "max-age=" + "9" * 15}, 3_600),
        ({"cache-control": "max-age=" + "9" * 50}, 0),
        ({"expires": "Tue, 03 Feb 2026 10:25:30 GMT"}, 300),
        ({"expires": "Tue, 03 Feb 2026 10:15:30 GMT"}, 0),
        ({"expires": "0"}, 0),
        ({"expires": "Tue, 99 Feb 2026 10:15:30 GMT"}, 0),
        ({"expires": "Tue, 03 Feb 2026 10:25:30 GMT", "cache-control": "max-age=60"}, 60),
        # A server whose clock is a year behind means five minutes all the same.
        ({"date": "Mon, 03 Feb 2025 10:20:30 GMT", "expires": "Mon, 03 Feb 2025 10:25:30 GMT"}, 300),
        ({}, 0),
    ],
)
def test_how_long_an_answer_is_fresh(headers: dict[str, str], seconds: int) -> None:
    until_us = fresh_us(headers, manners=MANNERS, now_us=NOW)
    assert until_us == (NOW + seconds * S if seconds else 0)


@given(st.dictionaries(st.sampled_from(["cache-control", "expires", "date", "age"]), st.text(max_size=40)))
def test_whatever_a_server_writes_no_answer_is_fresh_for_longer_than_the_cap(headers: dict[str, str]) -> None:
    until_us = fresh_us(headers, manners=MANNERS, now_us=NOW)
    assert until_us == 0 or NOW < until_us <= NOW + MANNERS.fresh_most_us


def test_a_feed_gets_the_rest_it_asks_for_up_to_the_cap() -> None:
    state = take_hints(PollState(polled_us=NOW), Said(ttl_s=900, update_period_s=600))
    hold = rest_hold(state, manners=MANNERS, now_us=NOW)
    assert hold is not None
    assert hold.until_us == NOW + 900 * S
    lazy = take_hints(state, Said(update_period_s=7 * 86_400))
    hold = rest_hold(lazy, manners=MANNERS, now_us=NOW)
    assert hold is not None
    assert hold.until_us == NOW + MANNERS.fresh_most_us
    assert rest_hold(take_hints(state, Said(ttl_s=-5)), manners=MANNERS, now_us=NOW) is None


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        (Said(skip_hours=(11, 12)), 0),
        (Said(skip_hours=(10, 11)), 2),
        (Said(skip_hours=(10, *range(11, 24), 0, 24)), 15),
        (Said(skip_hours=tuple(range(24))), 0),
        (Said(skip_days=(1,)), 14),
        (Said(skip_days=(1, 2)), 38),
        (Said(skip_days=(1,), skip_hours=(0,)), 15),
        (Said(skip_days=(-1, 9), skip_hours=(-3, 77)), 0),
        (Said(skip_days=(1, 2, 3, 4)), 0),  # more than a long weekend
        (Said(skip_days=(0, 2)), 0),
    ],
)
def test_hours_and_days_that_a_feed_skips(said: Said, hours: int) -> None:
    hold = skip_hold(take_hints(PollState(polled_us=NOW), said), now_us=NOW)
    if not hours:
        assert hold is None
        return
    assert hold is not None
    assert hold.until_us == (NOW // (3_600 * S) + hours) * 3_600 * S


@given(
    st.lists(st.integers(-5, 30)),
    st.lists(st.integers(-2, 9)),
    st.integers(0, 7 * 86_400),
)
def test_no_feed_is_quiet_for_ever(hours: list[int], days: list[int], after_s: int) -> None:
    now_us = NOW + after_s * S
    said = Said(skip_hours=tuple(hours), skip_days=tuple(days))
    hold = skip_hold(take_hints(PollState(polled_us=NOW), said), now_us=now_us)
    assert hold is None or now_us < hold.until_us <= now_us + limits.POLL_SKIP_US
