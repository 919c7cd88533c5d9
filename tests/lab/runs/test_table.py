"""Rows of experiments, benchmarks and failures in one table."""

from __future__ import annotations

import pytest

from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs import stored
from penstock_lab.runs.everything import Ended
from penstock_lab.runs.shows import Shows
from penstock_lab.runs.table import TableRow, number, rows_of, rows_of_all


def test_rows_of_an_experiment() -> None:
    claims = (Claim("low", "1 s", "2 s", ok=False, note="fails above 1 s"), Claim("high", "–", "3", ok=None))
    outcome = ExperimentResult("e1", "E1", "here", claims, (), (), 1)
    shows = Shows(live=True, paper="PACK", figures={"low": "Figure 8"})
    found = stored.described(outcome.as_json(), shows, "penstock reproduce e1", stored.Begun(), quick=True)
    assert rows_of(found) == [
        TableRow("e1", "PACK, Figure 8", "low", "1 s", "2 s", "live", ok=False, note="fails above 1 s"),
        TableRow("e1", "", "high", "–", "3", "live", ok=None),
    ]


def test_rows_of_a_benchmark() -> None:
    measured = (
        BenchmarkRow("fast", 1_234_567.0, "msg/s", "mosquitto", 94_900.0, 13.0, 6.0, fails_if="slow"),
        BenchmarkRow("alone", 1.234, "s"),
    )
    outcome = BenchmarkResult("b", measured, 1.0)
    found = stored.described(outcome.as_json(), Shows(live=False), "c", stored.Begun(), quick=False)
    assert rows_of(found) == [
        TableRow(
            "bench b",
            "",
            "fast",
            "mosquitto: 94,900 msg/s; goal ≥ 6.00 ×",
            "1,234,567 msg/s, 13.00 ×",
            "simulated",
            ok=True,
            note="fails if slow: below 6.00 ×",
        ),
        TableRow("bench b", "", "alone", "–", "1.23 s", "simulated", ok=None),
    ]


def test_a_run_that_failed_is_a_row_that_does_not_hold() -> None:
    (row,) = rows_of_all([Ended("ward", 1.0, None, "no Java", 4)])
    assert (row.of, row.ok, row.note) == ("ward", False, "no Java")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.00123, "0.00123"), (94.94, "94.9"), (100.4, "100"), (12345.6, "12,346")],
)
def test_figures_have_three_digits_or_more(value: float, text: str) -> None:
    assert number(value) == text
