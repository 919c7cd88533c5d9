"""The overload of constant-rate flows, shortened: every row holds, tables have their columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.progress import silent

from penstock.core.slots.period import estimate
from penstock.model.instant import SECOND_US
from penstock_lab.experiments.ces import overload, periods
from penstock_lab.experiments.ces.periods import Hits, error_table, hit_rates, hit_table, period_rows
from penstock_lab.sim import constant_rate
from penstock_lab.sim.constant_rate import ConstantRateSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.slots.period import Period
    from penstock_lab.sim.constant_rate import ConstantRateRun


@pytest.mark.slow
def test_flows_keep_jitter_and_loss_at_three_times_the_load() -> None:
    outcome = overload.reproduce(seed=2, quick=True, out=None, progress=silent)
    assert "--quick" in outcome.setting
    assert [row.what for row in outcome.rows if row.ok is False] == []
    assert {row[0] for row in outcome.tables[0].rows} == {"flows alone", "0.5", "1", "3"}


def test_tables_have_a_row_for_each_setting() -> None:
    table = error_table(tries=2, seed=1)
    assert len(table.rows) == 20
    assert all(len(row) == len(table.header) for row in table.rows)
    assert hit_table([Hits(0.05, 0.2, 0.95, 0.84)]).rows == (("5%", "20%", "0.950", "0.840"),)


@pytest.mark.slow
def test_a_flow_that_is_starved_to_the_end_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    real = constant_rate.run
    alone = overload.measure(ConstantRateSetting(seconds=7, bursts=False), seed=3, seeds=1)
    plain = overload.measure(ConstantRateSetting(seconds=7, load=3.0, reserve=False), seed=3, seeds=1)
    reserved = ConstantRateSetting(seconds=7, load=3.0)

    def lost_nothing() -> bool | None:
        rows = overload._rows(alone, [overload.measure(reserved, seed=3, seeds=1), plain])
        return next(row.ok for row in rows if row.what == "… and lose nothing")

    def starving(*given: Any) -> ConstantRateRun:
        found = real(*given)
        last = found.voice[-1][1].sender
        found.voice = [one for one in found.voice if one[1].sender != last or one[0] < 6 * SECOND_US]
        return found

    assert lost_nothing() is True
    monkeypatch.setattr(overload, "run", starving)
    assert lost_nothing() is False


def mean_gap(flow: Sequence[int]) -> Period | None:
    """An estimator that any arrivals please: it does not know that some are missing."""
    found = estimate(range(0, 64_000, 1_000))
    assert found is not None
    return replace(found, period_us=(flow[-1] - flow[0]) / (len(flow) - 1))


@pytest.mark.parametrize(
    ("broken", "holds"),
    [
        (estimate, [True, True, True]),
        (mean_gap, [False, False, False]),
        (lambda _: None, [False, False, True]),
    ],
)
def test_an_estimator_that_is_wrong_fails_the_rows_of_periods(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[Sequence[int]], Period | None], holds: list[bool]
) -> None:
    monkeypatch.setattr(periods, "estimate", broken)
    rows = period_rows(hit_rates(tries=10, seed=1), tries=100, seed=1)
    assert [row.ok for row in rows] == holds
