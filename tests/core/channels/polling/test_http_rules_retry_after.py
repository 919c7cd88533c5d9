"""A server that asks for rest gets it, in either form and by its own clock, up to a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.polling import FetchOutcome, Manners
from penstock.core.channels.polling.http_rules import asked_us

NOW = 1_770_114_030_000_000  # Tuesday 3 February 2026, 10:20:30 UTC
S = 1_000_000
MANNERS = Manners()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120),
        ({"retry-after": " 120 "}, 120),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "1e9"}, 0),
        ({"retry-after": "999999999999"}, 86_400),
        ({"retry-after": "Tue, 03 Feb 2026 10:22:30 GMT"}, 120),
        ({"retry-after": "Tuesday, 03-Feb-26 10:22:30 GMT"}, 120),
        ({"retry-after": "Tue Feb  3 10:22:30 2026"}, 120),
        ({"retry-after": "Tue, 03 Feb 2026 10:20:00 GMT"}, 0),
        ({"retry-after": "Fri, 03 Feb 2096 10:20:00 GMT"}, 86_400),
        ({"retry-after": "Mon, 03 Feb 2025 10:22:30 GMT", "date": "Mon, 03 Feb 2025 10:20:30 GMT"}, 120),
        ({}, 0),
    ],
)
def test_both_forms(status: int, headers: dict[str, str], seconds: int) -> None:
    until_us = asked_us(FetchOutcome(status=status, headers=headers), manners=MANNERS, now_us=NOW)
    assert until_us == (NOW + seconds * S if seconds else 0)


def test_on_other_answers_it_means_nothing() -> None:
    outcome = FetchOutcome(status=200, headers={"retry-after": "120"})
    assert asked_us(outcome, manners=MANNERS, now_us=NOW) == 0


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_is_written_the_bound_holds(text: str, date: str) -> None:
    outcome = FetchOutcome(status=429, headers={"retry-after": text, "date": date})
    until_us = asked_us(outcome, manners=MANNERS, now_us=NOW)
    assert until_us == 0 or NOW < until_us <= NOW + MANNERS.retry_most_us
