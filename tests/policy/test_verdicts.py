"""Verdicts of filters: every filter gives one about each event. Their meaning is in tests/agreement."""

from __future__ import annotations

from penstock.model.event import Event
from penstock.policy import filters, verdicts
from penstock.policy.filters import Verb
from penstock.policy.nodes import Policy, Step
from penstock.policy.verdicts import Verdict, View


def test_every_filter_of_the_catalogue_has_a_meaning() -> None:
    assert list(verdicts.undecided()) == []


def test_an_attribute_that_cannot_be_read_is_neither_a_match_nor_a_difference() -> None:
    step = Step(Verb.DROP, filters.Gt(value=5))
    events = [Event("t", b'{"v": %s}' % value, 0) for value in (b"6", b"5", b"null", b'"six"')]
    found = verdicts.decide(View(Policy(levels=((step,),), attribute="v"), step, events, 0))
    assert found == [Verdict.MATCHES, Verdict.DIFFERS, Verdict.UNREADABLE, Verdict.UNREADABLE]
