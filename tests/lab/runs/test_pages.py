"""Pages made of stored runs: they are what the files say, and say what they do not know."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from tests.kit.paths import ROOT

from penstock.errors import InputError
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
        stored.Begun(),
        quick=True,
    ),
    "reproduce-e": stored.described(
        ExperimentResult("e", "E", "in the lab", CLAIMS, (), (), 1).as_json(),
        Shows(live=False, paper="PACK", figures={"": "Figure 8"}),
        "penstock reproduce e --seed 1",
        stored.Begun(),
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


def test_rows_that_do_not_hold_come_first() -> None:
    page = pages.measurements(MADE)
    listed = page[page.index("## Rows that do not hold") : page.index("## Experiments")]
    assert "| [reproduce e](#reproduce-e) | low \\| high | 1 s | 2 s | fails if \\*late\\* |" in listed
    assert listed.count("\n| [") == 1
    assert "Every row that is judged holds." in pages.measurements({"bench-b": MADE["bench-b"]})


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


def words(path: str) -> str:
    """A page without its line breaks."""
    return " ".join((ROOT / path).read_text().split())


def test_the_readme_polls_as_often_as_the_stored_run(runs: dict[str, Any]) -> None:
    table = runs["reproduce-corona-table2"]["tables"][0]["rows"]
    rows = {row["scheme"]: row for row in table}
    ours = rows["ours, lite, solved centrally, at least 60 s apart"]
    delay_s, polls = (float(ours[cell].split()[0]) for cell in ("s per subscription", "polls"))
    paper = rows["Corona-Lite"]
    paper_s, paper_polls = float(paper["at 4.7 empty cells"]), float(paper["polls"].split()[0])
    assert (
        f"{delay_s:.0f} s of mean delay with {polls:.0f} polls of a page in half an hour, at the shortest "
        f"interval a node takes by default, where the paper's method takes about {paper_s:.0f} s "
        f"with {paper_polls:.0f}"
    ) in words("README.md")


def test_what_the_readme_says_of_flows_holds_in_the_stored_run(runs: dict[str, Any]) -> None:
    run = runs["reproduce-ces-overload-live"]
    said = words("README.md")
    assert (
        "three times the load it can carry they keep their jitter, within 1.5 × that of an idle link" in said
    )
    assert "lose nothing, while the rest is packed ([measured live]" in said
    rows = {row["what"]: row for row in run["rows"]}
    kept = rows["served flows keep their jitter at 3 × load"]
    assert (kept["ok"], kept["paper"], run["how"]) == (True, "≤ 1.5 × idle", "live")
    assert rows["… and lose nothing at 3 × load"]["ok"]
    assert rows["best effort is packed by its policy meanwhile"]["ok"]


RUN = {"command": "penstock reproduce e --seed 1", "date": "2026-01-02", "quick": False}
ROW = {"unit": "s", "rival": "r", "rival_value": 4.0, "ratio": 2.0, "goal": None, "ok": None, "note": "so"}
RUNS: dict[str, dict[str, Any]] = {
    "reproduce-e": {
        "run": RUN,
        "tables": [
            {"title": "Low | high", "rows": [{"load": "1", "loss": "2 %"}, {"load": "3", "loss": "4 %"}]},
            {"title": "Low again", "rows": [{"load": "5"}]},
        ],
    },
    "bench-b": {
        "bench": "b",
        "run": {**RUN, "command": "penstock bench b --quick", "quick": True},
        "rows": [{"name": "asks: x", "value": 2.0, **ROW}, {"name": "other", "value": 1.0, **ROW}],
    },
}


def page(asked: str) -> str:
    return f"before\n<!-- measured: {asked} -->\nold figures\n<!-- measured: end -->\nafter\n"


def test_a_block_is_the_table_of_a_run() -> None:
    found = pages.filled(page("reproduce-e | Low again"), RUNS, "p")
    assert found == (
        "before\n<!-- measured: reproduce-e | Low again -->\n\n| load |\n| --- |\n| 5 |\n\n"
        "([`penstock reproduce e --seed 1`](../measurements.md#reproduce-e), 2026-01-02)\n\n"
        "<!-- measured: end -->\nafter\n"
    )
    assert pages.filled(found, RUNS, "p") == found


def test_lines_are_chosen_by_their_first_cell() -> None:
    table = {"title": "Low", "rows": RUNS["reproduce-e"]["tables"][0]["rows"]}
    runs = {"reproduce-e": {"run": RUN, "tables": [table]}}
    found = pages.filled(page("reproduce-e | Low | 3"), runs, "p")
    assert "| 3 | 4 % |" in found
    assert "2 %" not in found


def test_a_block_is_rows_of_a_benchmark_by_how_they_begin() -> None:
    found = pages.filled(page("bench-b | asks"), RUNS, "p")
    assert "| asks: x | 2 s | 4 (r) | 2.00 × |  | – |\n" in found
    assert "other" not in found
    assert "2026-01-02, shortened)" in found
    assert "| other |" in pages.filled(page("bench-b | asks; other"), RUNS, "p")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (page("reproduce-x | Low"), "p.md: `measured: reproduce-x | Low`: no run 'reproduce-x' is stored"),
        (page("reproduce-e | High"), "no part that begins with 'High'"),
        (page("reproduce-e | Low"), "or several"),
        (page("bench-b | nothing"), "no part that begins with 'nothing'"),
        (page("bench-b | asks; nothing"), "no part that begins with 'asks; nothing'"),
        (page("reproduce-e | Low again | 7"), "no line begins with the cell '7'"),
        ("<!-- measured: bench-b -->\n", "has no `<!-- measured: end -->`"),
    ],
)
def test_a_block_that_cannot_be_made_is_named(text: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        pages.filled(text, RUNS, "p.md")
    assert problem in str(raised.value)


def test_guides_say_what_the_stored_runs_say() -> None:
    runs = stored.read(ROOT / "docs" / "measured")
    guides = {path.name: path.read_text() for path in (ROOT / "docs" / "guides").glob("*.md")}
    strays = [name for name, text in guides.items() if pages.filled(text, runs, name) != text]
    assert strays == [], "repeat: python tools/measurements.py"
    assert sum("<!-- measured: " in text for text in guides.values()) >= 3
