"""Predicates: how they are written on a command line, and which events they match."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PolicyError
from penstock.model import Event
from penstock.policy import evaluate
from penstock.policy.columns import Plan
from penstock.policy.filters import Uniq, Verb
from penstock.policy.nodes import Missing, Policy, Step
from penstock.policy.predicates import Predicate, predicate
from tests.kit.policies import predicates


def events(*values: object) -> list[Event]:
    return [
        Event("ward/1", msgspec.json.encode({"pulse": value}), place) for place, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("text", "shown", "matched"),
    [
        ("pulse > 120", "pulse > 120", [False, True, False]),
        ("pulse>=45", "pulse >= 45", [True, True, False]),
        ("> 120", "pulse > 120", [False, True, False]),
        ("pulse <= 45", "pulse <= 45", [True, False, False]),
        ("pulse < 1e2", "pulse < 100", [True, False, False]),
        ("pulse = 'on'", "pulse = on", [False, False, True]),
        ("pulse == on", "pulse = on", [False, False, True]),
        ("pulse != 45", "pulse != 45", [False, True, True]),
        ("pulse in [45, on]", "pulse in [45, on]", [True, False, True]),
        ("pulse in 45", "pulse in [45]", [True, False, False]),
        ("pulse within [40, 50]", "pulse within [40, 50]", [True, False, False]),
        ("pulse matches ^o", "pulse matches ^o", [False, False, True]),
        ("$topic = ward/1", "$topic = ward/1", [True, True, True]),
        ("{gt: 120}", "pulse > 120", [False, True, False]),
        ("{lt: 2, attribute: $ts}", "$ts < 2", [True, True, False]),
        ("{supset: [1]}", "the list pulse contains all of 1", [False, False, False]),
    ],
)
def test_how_it_is_written(text: str, shown: str, matched: list[bool]) -> None:
    found = predicate(text, attribute="pulse")
    assert found.text == shown
    assert found.matches(events(45, 130.5, "on")).tolist() == matched


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pulse", "pulse: no comparison was found, for example 'pulse > 120'"),
        ("pulse >", "no comparison was found"),
        ("> 5", "it names no attribute, for example"),
        ("pulse within 5", "'within' takes two ends, as [50, 100], found 5"),
        ("pulse > [1]", "value: expected a number or a text"),
        ("pulse matches (", "pattern"),
        ("$tpic = a", "unknown pseudo-attribute '$tpic'"),
        ("{latest: 5}", "'latest' does not look at the value of one event alone"),
        ("{gtt: 5}", "unknown filter 'gtt' (did you mean 'gt'?)"),
        ("{gt: 5", "{gt: 5"),
    ],
)
def test_what_is_no_predicate(text: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        predicate(text)
    assert says in str(caught.value)


@given(
    predicates(), st.lists(st.none() | st.integers(-3, 3) | st.text(max_size=2) | st.booleans(), max_size=8)
)
def test_as_the_reference_decides(step: Step, values: list[object]) -> None:
    queue = events(*values)
    found = Predicate(step.filter, step.attribute or "pulse").matches(queue)
    asked = Step(Verb.KEEP, step.filter, step.attribute, Missing.DROP)
    policy = Policy(levels=((asked,),), attribute="pulse")
    expected = [
        isinstance(evaluate.pack(policy, [event], level=1, now_us=0).items[0], Event) for event in queue
    ]
    assert found.tolist() == expected


@given(
    st.lists(predicates(attribute=st.sampled_from(("pulse", "$ts"))), min_size=1, max_size=3),
    st.lists(st.none() | st.integers(-3, 3) | st.floats() | st.text(max_size=2) | st.booleans(), max_size=8),
)
def test_what_is_urgent_by_the_plan_is_urgent_by_the_reference(
    steps: list[Step], values: list[object]
) -> None:
    policy = Policy(levels=((Step(Verb.DROP, Uniq()),),), attribute="pulse", urgent=tuple(steps))
    ours, expected = Plan(policy).urgent, evaluate.urgency(policy)
    assert ours is not None
    assert expected is not None
    for event in events(*values):
        assert ours(event) is expected(event)
