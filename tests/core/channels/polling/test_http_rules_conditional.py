"""Validators go back as they came, and a 304 that cannot be true is not believed."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.core.channels.polling import FetchOutcome, Manners, PollState, learn
from penstock.core.channels.polling.http_rules import conditions

URL = "https://example.org/feed"
NOW = 1_700_000_000_000_000
MANNERS = Manners()


def answered(state: PollState, status: int, headers: dict[str, str], **more: object) -> PollState:
    outcome = FetchOutcome(status=status, headers=headers, url=URL, **more)  # type: ignore[arg-type]
    return learn(state, outcome, url=URL, manners=MANNERS, now_us=NOW)


@pytest.mark.parametrize("etag", ['"plain"', 'W/"weak"', "bare", '"with , ; spaces--gzip"', '"é"'])
def test_an_etag_goes_back_byte_for_byte(etag: str) -> None:
    state = answered(PollState(), 200, {"etag": etag})
    assert conditions(state, now_us=NOW) == {"If-None-Match": etag}


@pytest.mark.parametrize("date", ["Tue, 03 Feb 2026 10:20:30 GMT", "Fri, 01 Jan 2123 00:00:00 GMT", "noon"])
def test_last_modified_goes_back_even_if_it_is_no_date(date: str) -> None:
    state = answered(PollState(), 200, {"last-modified": date})
    assert conditions(state, now_us=NOW) == {"If-Modified-Since": date}


def test_a_feed_with_an_etag_is_asked_for_its_new_items_only() -> None:
    state = answered(PollState(), 200, {"etag": '"1"', "content-type": "application/atom+xml"})
    assert conditions(state, now_us=NOW) == {"If-None-Match": '"1"', "A-IM": "feed"}
    page = answered(PollState(), 200, {"etag": '"1"', "content-type": "text/html"})
    assert "A-IM" not in conditions(page, now_us=NOW)


@pytest.mark.parametrize("bad", ["x" * (limits.VALIDATOR_CHARS + 1), "\udce9", "a\x00b"])
def test_a_validator_that_cannot_go_back_as_it_came_is_not_kept(bad: str) -> None:
    assert answered(PollState(), 200, {"etag": bad}).etag == ""


def test_a_304_refreshes_what_it_names_and_leaves_the_rest() -> None:
    first = answered(PollState(), 200, {"etag": '"1"', "last-modified": "then"})
    second = answered(first, 304, {"etag": '"2"', "cache-control": "max-age=600"}, conditional=True)
    assert (second.etag, second.last_modified, second.errors) == ('"2"', "then", 0)
    assert second.fresh_until_us == NOW + 600_000_000
    assert second.full_us == first.full_us


def test_validators_of_an_older_answer_do_not_outlive_a_newer_one() -> None:
    first = answered(PollState(), 200, {"etag": '"1"', "last-modified": "then"})
    assert conditions(answered(first, 200, {}), now_us=NOW) == {}


def test_a_304_nobody_asked_for_is_an_error() -> None:
    state = answered(PollState(), 304, {})
    assert state.errors == 1
    assert "without conditions" in state.problem


def test_a_304_from_another_address_is_not_believed_and_next_time_the_whole_page_is_asked_for() -> None:
    first = answered(PollState(), 200, {"etag": '"1"'})
    elsewhere = FetchOutcome(status=304, url="https://example.org/other", conditional=True)
    state = learn(first, elsewhere, url=URL, manners=MANNERS, now_us=NOW)
    assert state.errors == 1
    assert conditions(state, now_us=NOW) == {}


def test_once_a_week_the_whole_page_is_asked_for() -> None:
    state = answered(PollState(), 200, {"etag": '"1"'})
    assert conditions(state, now_us=NOW + limits.POLL_FULL_US - 1)
    assert conditions(state, now_us=NOW + limits.POLL_FULL_US) == {}
