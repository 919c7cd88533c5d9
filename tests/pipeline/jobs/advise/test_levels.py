"""Levels chosen from the profile of a stream."""

from __future__ import annotations

import pytest

from penstock.pipeline.jobs.advise.levels import usual
from penstock.pipeline.jobs.advise.profile import Profile
from penstock.policy.filters import Inset
from penstock.policy.predicates import predicate

ACTIONS = (
    ("Authenticated", 0.35),
    ("Reassociated", 0.25),
    ("roamed", 0.2),
    ("Associated", 0.15),
    ("lost", 0.05),
)


def dropped(common: tuple[tuple[str | bool, float], ...], *matters: str) -> tuple[object, ...]:
    """Values of the attribute `action` that the level of usual values drops; none: there is no such level."""
    profile = Profile("action", numeric=False, values=(), changes=(), repeats=0.0, common=common)
    found = usual(profile, 0.2, [predicate(text, attribute="action") for text in matters])
    if found is None:
        return ()
    assert isinstance(found.step.filter, Inset)
    return found.step.filter.values


@pytest.mark.parametrize(
    ("matters", "expected"),
    [
        ((), ("Authenticated", "Reassociated", "roamed")),
        (("in [Associated, Reassociated]",), ("Authenticated", "roamed", "lost")),
        (("= Associated", "matches ^Re"), ("Authenticated", "roamed", "lost")),
        (("other = Authenticated",), ("Authenticated", "Reassociated", "roamed")),
    ],
)
def test_usual_values_are_dropped_but_none_that_matters(
    matters: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert dropped(ACTIONS, *matters) == expected


def test_of_two_values_the_rarer_one_remains_unless_the_other_one_matters() -> None:
    flags = ((True, 0.7), (False, 0.3))
    assert dropped(flags) == (True,)
    assert dropped(flags, "= true") == (False,)
    assert dropped(()) == ()
