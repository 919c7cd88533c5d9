"""The report of the tour: what is seen at once, what is folded, what is left out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import sync_playwright
from tests.e2e.chromium import ARGUMENTS

from penstock.cli.html_page import Table
from penstock_lab.cli.tour import Part, _round_up, other_work, summary, write_report
from penstock_lab.experiments.phones import Moment, Watched
from penstock_lab.experiments.result import Claim, ExperimentResult
from penstock_lab.experiments.ward import POLICY
from penstock_lab.rigs.browser import browser

OUTCOME = ExperimentResult(
    experiment="one",
    title="Two phones <live>",
    setting="here",
    rows=(
        Claim("alarms", "50%", "100%", ok=True, note="fails below 50%"),
        Claim("only told", "–", "3", ok=None),
    ),
    tables=(),
    plots=(),
    seed=7,
    rival="others",
)
WATCHED = Watched(
    outcome=OUTCOME,
    moments=tuple(Moment(second, 7 * second, (7 * second, second), (1.5, 3.0)) for second in range(1, 9)),
    alarms_shown=(1.0, 0.519),
    delays_s=(0.31, 2.2),
    readings=4_000,
    told=(4_000, 3_990),
    recording=Path("recorded"),
    picture=None,
    no_picture="",
)


def report(folder: Path, watched: Watched = WATCHED, *, ok: bool = True, busy: str = "") -> str:
    (folder / "the policy.yaml").write_text("name: it\n")
    part = Part("Streams", "penstock reproduce streams-kill", OUTCOME, ("written: x",), ok)
    files = [(folder / "the policy.yaml", "the policy"), (folder / "none.html", "was not written")]
    return write_report(
        folder / "report.html", policy=POLICY, watched=watched, parts=[part], files=files, busy=busy
    ).read_text()


def test_the_first_screen_has_the_problem_a_chart_and_three_numbers(tmp_path: Path) -> None:
    page = report(tmp_path)
    first = page.partition("<details>")[0]
    assert "<h1>Every alarm arrives on a link that is too slow</h1>" in first
    assert re.findall(r'class="big">([^<]+)<', first) == ["100 %", "0.3 s", "0"]
    assert "51 % without a policy" in first
    assert first.count("<svg") == 2
    assert 'aria-label="Alarms seen so far; at the end:' in first


def test_details_are_folded_and_rows_that_nothing_is_claimed_of_are_left_out(tmp_path: Path) -> None:
    page = report(tmp_path)
    assert page.count("<details>") == page.count("</details>") == 3
    assert "only told" not in page
    assert "Two phones &lt;live&gt;" in page


def test_the_files_to_open_next_are_linked_if_they_are_there(tmp_path: Path) -> None:
    page = report(tmp_path)
    assert '<a href="the%20policy.yaml">the policy.yaml</a>: the policy' in page
    assert "none.html" not in page


def test_a_part_that_failed_is_named_before_the_details(tmp_path: Path) -> None:
    missed = Claim("age: 2 s or less", "4.5 s", "3.3 s", ok=False, note="fails above 2 s")
    late = replace(WATCHED, outcome=replace(OUTCOME, rows=(*OUTCOME.rows, missed)))
    first = report(tmp_path, late, ok=False, busy="The machine was busy.").partition("<details>")[0]
    _, _, told = first.partition("Not everything held in this run:")
    assert "<li>Two phones &lt;live&gt;: age: 2 s or less: 3.3 s (others: 4.5 s)</li>" in told
    assert "<li>Streams: alarms: 100% (others: 50%)</li>" in told
    assert "The machine was busy." in told


def test_other_work_of_the_machine_is_told_only_if_there_is_some(tmp_path: Path) -> None:
    assert not other_work(2.0, 2)
    assert "load 2.1 on 2 cores" in other_work(2.1, 2)
    assert "The machine was busy." not in report(tmp_path, busy="The machine was busy.")


def test_a_share_is_never_rounded_up_to_all(tmp_path: Path) -> None:
    page = report(tmp_path, replace(WATCHED, alarms_shown=(0.9999, 0.5)))
    assert "<h1>99 % of the alarms arrive on a link that is too slow</h1>" in page


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    page = report(tmp_path)
    assert 'src="http' not in page
    assert "<script" not in page
    assert "<link" not in page


def test_a_part_without_an_experiment_is_told_by_its_first_line() -> None:
    assert summary(Part("Spark", "", None, ("level 1", "level 2"), ok=True)) == "level 1"
    assert summary(Part("Spark", "", None, (), ok=True)) == ""


@pytest.mark.parametrize("value", [0.0, 0.7, 2.0, 3.9, 14.0, 99.0, 143.0, 5_001.0, 1e6])
def test_the_scale_holds_every_value_without_much_room(value: float) -> None:
    top = _round_up(value)
    assert value <= top <= max(2.0, 1.5 * value + 2)
    assert top % 2 == 0


LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1360, "light"), (390, "dark"))


@pytest.mark.e2e
def test_nothing_has_to_be_moved_sideways(tmp_path: Path) -> None:
    program = browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    wide = Table("Figures", tuple(f"column {n}" for n in range(9)), (tuple("x" * 60 for _ in range(9)),))
    report(tmp_path, replace(WATCHED, outcome=replace(OUTCOME, tables=(wide,), setting="y" * 300)))
    with sync_playwright() as playwright:
        looking = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        for width, colours in LOOKS:
            page = looking.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
            page.goto((tmp_path / "report.html").as_uri(), timeout=120_000)
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        looking.close()
