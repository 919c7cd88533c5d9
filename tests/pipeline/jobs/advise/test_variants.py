"""Variants of a policy that say what is urgent and fresh, and which of them is chosen."""

from __future__ import annotations

import pytest

from penstock.core.queues import drain
from penstock.pipeline.jobs.advise.profile import RANKS, Profile
from penstock.pipeline.jobs.advise.variants import normal_ranges, times_us, unusual, variants
from penstock.policy.lint import lint
from penstock.policy.predicates import predicate
from penstock.policy.text.forms import parse, to_yaml

POLICY = parse("attribute: pulse\nlevels: [drop: {delta: 5}]")


def test_what_matters_without_a_word_is_what_is_unusual() -> None:
    profile = Profile("pulse", True, tuple(60 + 20 * rank for rank in RANKS), (), 0.0, ())
    normal = normal_ranges([profile, Profile("state", False, (), (), 0.0, (("ok", 1.0),))])
    assert normal == {"pulse": pytest.approx((65 - 15, 75 + 15))}
    assert [one.text for one in unusual(normal)] == ["pulse > 90", "pulse < 50"]


@pytest.mark.parametrize(
    ("rate", "capacity", "expected"),
    [
        ("1/s", 100, [5, 10, 20]),  # four items to a quarter of a hundred
        ("0.2/s", 54, [20, 30, 60]),
        ("100/s", 1_000, [0.5, 1, 2]),
        ("5kB/s", 1_000, [0.5, 2, 5]),  # of 100 bytes each
        ("1/s", 10, []),  # a queue too short to be late
        ("1/h", 1_000, []),
    ],
)
def test_times_between_a_few_items_and_a_part_of_the_queue(
    rate: str, capacity: int, expected: list[float]
) -> None:
    found = times_us(drain(rate), capacity, 100.0)
    assert found == sorted({round(one * 1e6) for one in expected})


def test_variants_are_policies_without_a_warning() -> None:
    matters = [predicate("pulse > 120"), predicate("spo2 < 90")]
    found = variants(POLICY, matters, [1_000_000])
    assert [one.name for one in found] == ["levels only", "urgent", "fresh 1s", "urgent, fresh 1s"]
    for one in found:
        assert one.policy is not None
        assert parse(to_yaml(one.policy)) == one.policy
        assert lint(one.policy) == []
        assert len(one.policy.matters) == 2
    last = found[-1].policy
    assert last is not None
    assert (last.fresh_us, [step.attribute for step in last.urgent]) == (1_000_000, [None, "spo2"])
    assert [one.name for one in variants(POLICY, [], [])] == ["levels only"]
