"""The fast evaluator means what the reference means."""

from __future__ import annotations

import pytest

from penstock.policy import evaluate
from penstock.policy.columns import Plan, plan
from tests.agreement.cases import case
from tests.agreement.comparing import assert_same
from tests.kit.effort import seeds

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
def test_collapse_agrees_with_the_reference(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        found = case(seed)
        policy = found.policy if seed % 3 else None
        assert_same(Plan(policy).collapse(found.items), evaluate.collapse(policy, found.items))
