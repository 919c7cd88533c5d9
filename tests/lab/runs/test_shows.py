"""Declarations of modules, and the figures that their rows belong to."""

from __future__ import annotations

from importlib import import_module

import pytest

from penstock_lab.cli.bench import BENCHMARKS
from penstock_lab.cli.reproduce import EXPERIMENTS, LIVE
from penstock_lab.runs.shows import Shows


def test_a_row_belongs_to_the_figure_of_its_longest_beginning() -> None:
    shows = Shows(live=False, paper="PACK", figures={"": "Figure 1", "A": "Figure 2", "A: b": "Figure 3"})
    rows = ["x", "A: c", "A: b", "… and d", "… and e", "y"]
    assert shows.figures_of(rows) == ["Figure 1", "Figure 2", "Figure 3", "Figure 3", "Figure 3", "Figure 1"]


def test_a_row_may_belong_to_no_figure() -> None:
    assert Shows(live=True, paper="RBF", figures={"A": "Figure 5"}).figures_of(["… x", "A", "B"]) == [
        "",
        "Figure 5",
        "",
    ]
    assert Shows(live=True).figures_of(["A"]) == [""]


@pytest.mark.parametrize("wrong", [{"paper": "Scribe", "figures": {"": "Figure 1"}}, {"paper": "PACK"}])
def test_a_declaration_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        Shows(live=True, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [*EXPERIMENTS.values(), *LIVE.values(), *BENCHMARKS.values()])
def test_every_experiment_and_benchmark_declares_itself(module: str) -> None:
    shows = import_module(module).SHOWS
    assert isinstance(shows, Shows)
    assert shows.live or module not in LIVE.values()
