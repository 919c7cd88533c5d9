"""Pauses grow up to their bound and are spread, the same for the same seed."""

from __future__ import annotations

from itertools import islice
from random import Random

from penstock.core.backoff import doubled, pauses_s


def test_pauses_double_up_to_the_bound() -> None:
    assert [doubled(3, times, most=20) for times in (0, 1, 2, 3, 1_000_000)] == [3, 6, 12, 20, 20]


def test_pauses_are_between_half_and_all_of_a_bound_that_doubles() -> None:
    found = list(islice(pauses_s(Random(7), least_s=1, most_s=5), 6))
    for pause_s, bound_s in zip(found, (1, 2, 4, 5, 5, 5), strict=True):
        assert bound_s / 2 <= pause_s <= bound_s
    assert found == list(islice(pauses_s(Random(7), least_s=1, most_s=5), 6))
