"""Pages made of stored runs: they are what the files say, and say what they do not know."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from tests.kit.paths import ROOT

from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.runs import pages, stored
from penstock_lab.runs.papers import FIGURES
from penstock_lab.runs.shows import PAPERS, Shows

MEASURED = ROOT / "docs" / "measured"


@pytest.fixture(scope="module")
def runs() -> dict[str, Any]:
    return stored.read(MEASURED)


@pytest.mark.parametrize(
    ("page", "make"), [("measurements.md", pages.measurements), ("papers.md", pages.papers)]
)
def test_a_page_is_what_the_stored_runs_say(runs: dict[str, Any], page: str, make: Any) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert text == pages.replaced(text, make(runs)), "repeat: python tools/measurements.py"


def test_the_tool_agrees() -> None:
    done = subprocess.run(
        [sys.executable, "tools/measurements.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stored_run_says_where_it_is_from_and_nothing_of_the_machines_paths(runs: dict[str, Any]) -> None:
    for name, found in runs.items():
        run = found["run"]
        assert run["command"].startswith(f"penstock {name.split('-')[0]} "), name
        assert re.fullmatch(r"[0-9a-f]{10,40}( with changes)?", run["commit"]), name
        assert run["machine"]["cores"] > 0, name
        text = (MEASURED / f"{name}.json").read_text()
        assert not re.search(r"/(tmp|home|root|work|Users)/", text), name


def test_rows_name_only_figures_that_a_paper_has(runs: dict[str, Any]) -> None:
    assert pages.unknown_figures(runs) == []
    assert {each.paper for each in FIGURES} == set(PAPERS)
    assert len({each.name for each in FIGURES}) == len(FIGURES)


def test_a_figure_has_rows_or_a_reason(runs: dict[str, Any]) -> None:
    shown = {f"{found['paper']}, {row['figure']}" for found in runs.values() for row in found["rows"]}
    assert [each.name for each in FIGURES if bool(each.why_not) == (each.name in shown)] == []


CLAIMS = (
    Claim("low | high", "1 s", "2 s", ok=False, note="fails if *late*"),
    Claim("… later", "–", "3", ok=None),
)
MADE = {
    "bench-b": stored.described(
        BenchmarkResult(
            "b", (BenchmarkRow("x", 2e6, "msg/s", "r", 1e6, 2.0, 1.5, "so"),), 1.0, note="here"
        ).as_json(),
        Shows(live=True),
        "penstock bench b",
        quick=True,
    ),
    "reproduce-e": stored.described(
        ExperimentResult("e", "E", "in the lab", CLAIMS, (), (), 1).as_json(),
        Shows(live=False, paper="PACK", figures={"": "Figure 8"}),
        "penstock reproduce e --seed 1",
        quick=False,
    ),
}


def test_the_rows_of_a_run_are_shown_as_they_are() -> None:
    page = pages.measurements(MADE)
    assert "| low \\| high | 1 s | 2 s | **no** | fails if \\*late\\* |" in page
    assert (
        "| x | 2,000,000 msg/s | 1,000,000 (r) | 2.00 × | ≥ 1.50 × | yes | so; fails below 1,500,000 msg/s |"
        in page
    )
    assert "shortened by `--quick`" in page
    assert "| [reproduce e](#reproduce-e) | PACK | simulated | 0 of 1 | complete |" in page


def test_a_paper_is_shown_figure_by_figure() -> None:
    page = pages.papers(MADE)
    assert "0 live, 1 simulated" in page
    assert "| **Figure 8** | latency, loss and packs before a slow link, beside drop-tail |" in page
    assert "| low \\| high | 1 s | 2 s | [simulated](measurements.md#reproduce-e) | **no** |" in page
    assert "no run of it is stored yet" in page
    assert "Of the 1 rows that are judged 0 hold and 1 do not" in page


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(AssertionError, match="generated"):
        pages.replaced("# Measurements\n", "x")


def told(seconds: float) -> str:
    """A time as the README writes it."""
    if seconds < 1:
        return f"{1_000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def test_the_table_of_the_readme_is_what_its_commands_say() -> None:
    found = json.loads((MEASURED / "readme" / "backtest.json").read_text())
    text = (ROOT / "README.md").read_text()
    assert found["run"]["command"] in text
    columns = [found["candidates"][name] for name in ("ward", "drop-oldest", "drop-newest")]
    alarms = [each["matters"]["pulse > 120"] for each in columns]
    for what, cells in {
        "readings above 120 that arrive": [f"{each['share']:.0%}".replace("%", " %") for each in alarms],
        "median delay of these": [told(each["delay_s"]["p50"]) for each in alarms],
        "age of a patient's newest reading: median, 99th percentile": [
            f"{told(each['age_s']['p50'])}, {told(each['age_s']['p99'])}" for each in columns
        ],
        "readings lost": [f"{each['loss']:.0%}".replace("%", " %") for each in columns],
    }.items():
        assert f"| {what} | {' | '.join(cells)} |" in text
