"""Content filters that are wrong say what is wrong with them, and where."""

from __future__ import annotations

import pytest

from penstock.errors import PolicyError
from penstock.policy.content import ContentFilter


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keep: {gt: x, attribute: [1]}", "filter"),
        ("levels: [keep: {gt: 1}]", "filter"),
        ("", "filter"),
        ("- keep: {gt: 1}\n- drop: uniq", "'uniq' looks at more than one event"),
    ],
)
def test_content_filters_that_are_wrong_say_so(text: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        ContentFilter(text)


def test_the_place_of_a_problem_in_a_content_filter_is_the_clients_own() -> None:
    with pytest.raises(PolicyError) as caught:
        ContentFilter("- keep: {gt: 1}\n- drop: {withn: [1, 2]}")
    assert caught.value.line == 2
    assert caught.value.column == 10
