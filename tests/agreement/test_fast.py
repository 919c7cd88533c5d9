"""The fast evaluator means what the reference means."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from penstock.model import Event
from penstock.policy import evaluate
from penstock.policy.columns import Plan, plan
from penstock.policy.columns.frame import Frame
from tests.agreement.cases import case
from tests.agreement.comparing import assert_same
from tests.kit.effort import seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = 10_000
"""Of a long run."""
BATCH = 250


@pytest.fixture(autouse=True)
def _always_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small queues would go to the reference itself and agree by definition."""
    monkeypatch.setattr(plan, "SMALL", 0)


@pytest.mark.parametrize("batch", seeds(0, CASES // BATCH))
def test_pack_agrees_with_the_reference(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        found = case(seed)
        expected = evaluate.pack(found.policy, found.items, level=found.level, now_us=found.now_us)
        ours = Plan(found.policy).pack(found.items, level=found.level, now_us=found.now_us)
        try:
            assert ours.effects == expected.effects
            assert_same(ours.items, expected.items)
        except AssertionError as error:
            raise AssertionError(f"case({seed}): {found.policy}") from error


@pytest.mark.parametrize("batch", seeds(0, 4))
def test_sparing_agrees_with_the_reference(batch: int) -> None:
    kept = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        found = case(seed)
        events = [item for item in found.items if isinstance(item, Event)]
        level, now_us = found.level or 1, found.now_us
        told: list[list[list[int]]] = []

        def spare(stay: Sequence[int], go: Sequence[int]) -> list[int]:
            told.append([list(stay), list(go)])  # noqa: B023  # called before the loop goes on
            return [place for place in go if place % 3]

        expected = evaluate.pack(found.policy, found.items, level=level, now_us=now_us, spare=spare)
        ours = Plan(found.policy).pack(found.items, level=level, now_us=now_us, spare=spare)
        plain = evaluate.pack(found.policy, found.items, level=level, now_us=now_us)
        try:
            assert ours.effects == expected.effects
            assert_same(ours.items, expected.items)
            stay, go = told[0]
            assert told[1:] == told[:1] or not go  # nobody is asked if there is nothing to spare
            left = [item for item in expected.items if isinstance(item, Event)]
            assert left == [events[place] for place in sorted([*stay, *(one for one in go if one % 3)])]
            assert [item for item in plain.items if isinstance(item, Event)] == [events[one] for one in stay]
        except AssertionError as error:
            raise AssertionError(f"case({seed}): {found.policy}") from error
        kept += len(left) - sum(isinstance(item, Event) for item in plain.items)
    assert kept > 100


@pytest.mark.parametrize("batch", seeds(0, 4))
def test_collapse_agrees_with_the_reference(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        found = case(seed)
        policy = found.policy if seed % 3 else None
        assert_same(Plan(policy).collapse(found.items), evaluate.collapse(policy, found.items))


def test_a_pack_leaves_nothing_to_the_garbage_collector() -> None:
    """Arrays that hold each other in a circle stay until it comes, and cost a third of the speed."""
    packs = [(Plan(found.policy), found) for found in map(case, range(100))]
    gc.collect()
    gc.disable()
    try:
        for planned, found in packs:
            planned.pack(found.items, level=found.level, now_us=found.now_us)
        assert [one for one in gc.get_objects() if isinstance(one, Frame)] == []
    finally:
        gc.enable()
