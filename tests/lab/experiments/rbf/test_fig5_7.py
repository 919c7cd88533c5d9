"""Figures 5 to 7 hold but for what their notes explain, with a seed their numbers were not chosen for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.progress import silent

from penstock.core.slots import batch, formulas
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock_lab.experiments.rbf import fig5_7
from penstock_lab.experiments.rbf.sweep import ARRAYS, ARRIVALS, BITS, SLOTS, BurstPoint, measured, shape

if TYPE_CHECKING:
    from penstock_lab.experiments.result import ExperimentResult


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> ExperimentResult:
    return fig5_7.reproduce(seed=77, quick=True, out=tmp_path_factory.mktemp("rbf"), progress=silent)


@pytest.mark.slow
def test_rows_miss_only_what_their_notes_explain(figures: ExperimentResult) -> None:
    missed = [row for row in figures.rows if row.ok is False]
    assert [" ".join(row.note.split()[:2]) for row in missed] == ["fails by", "fails where", "fails where"]
    assert sum(row.ok is True for row in figures.rows) == 17


@pytest.mark.slow
def test_a_filter_that_never_wipes_its_arrays_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefreshingFilter, "_wipe", lambda *_: None)
    curves = fig5_7.Curves(list(measured(BurstPoint(fig5_7.EVEN, 3, 0))))
    assert fig5_7.refreshed(curves).ok is False


def test_a_query_that_looks_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row.ok for row in fig5_7.closed_forms() if row.what.startswith("Figure 5")] == [True]
    query = batch.query
    monkeypatch.setattr(batch, "query", lambda *given: [query(*given), query(*given)][0])
    assert [row.ok for row in fig5_7.closed_forms() if row.what.startswith("Figure 5")] == [False]


def test_a_filter_that_holds_more_arrays_than_it_needs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    more = property(lambda shape: min(shape.arrays + 2, 64))
    monkeypatch.setattr(Shape, "held", more)
    assert [row.ok for row in fig5_7.closed_forms() if row.what.startswith("Figure 6")] == [False]


FEW_ARRAYS_ARE_BEST = {arrays: 1e-3 * arrays for arrays in ARRAYS}
ALL_ALIKE = dict.fromkeys(ARRAYS, 1e-3)


@pytest.mark.parametrize(
    ("wild", "calm", "holds"),
    [
        (FEW_ARRAYS_ARE_BEST, ALL_ALIKE, [True, True, True]),
        (ALL_ALIKE, ALL_ALIKE, [True, False, True]),
        (dict(zip(ARRAYS, reversed(FEW_ARRAYS_ARE_BEST.values()), strict=True)), ALL_ALIKE, [False] * 3),
    ],
)
def test_bursts_that_hurt_few_arrays_or_nobody_are_noticed(
    wild: dict[int, float], calm: dict[int, float], holds: list[bool]
) -> None:
    assert [row.ok for row in fig5_7._bursts(wild, calm, 0.05, 0.65)] == holds


@pytest.mark.slow
def test_pictures_and_both_readings_are_there(figures: ExperimentResult) -> None:
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in figures.plots)
    assert len(figures.plots) == 2
    assert [table.title.rpartition(" ")[2] for table in figures.tables] == ["free", "paid", "answers"]
    assert "--quick" in figures.setting
    assert "in this process" in figures.setting


def test_the_storage_is_the_papers() -> None:
    assert BITS == 12 << 20
    for arrays in ARRAYS:
        assert shape(arrays, paid=False).positions * arrays == BITS
        assert shape(arrays, paid=True).bits <= BITS
        assert shape(arrays, paid=True).slots == SLOTS
    assert shape(64, paid=True) == shape(64, paid=False)


@pytest.mark.slow
def test_one_point_agrees_with_the_formula_where_traffic_is_even() -> None:
    for one in measured(BurstPoint(stdc=0.001, seed=3, asked=0)):
        expected = formulas.expected(shape(one.arrays, paid=one.paid), per_slot=ARRIVALS / SLOTS)
        assert one.last == pytest.approx(expected, rel=0.03)
