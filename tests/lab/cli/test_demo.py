"""The tour's commands: run as processes, told in a few lines, shown again from their JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.html_page import Table
from penstock_lab.cli.demo import Command, CommandResult, run
from penstock_lab.experiments.result import Claim, ExperimentResult

OUTCOME = ExperimentResult(
    experiment="one",
    title="One",
    setting="here",
    rows=(
        Claim("this", "1", "2", ok=True, note="fails below 1"),
        Claim("that", "–", "3", ok=None, note="so"),
    ),
    tables=(Table("Figures", ("a", "b"), (("1", "2"), ("3", "4"))),),
    plots=(Path("one.png"),),
    seed=7,
    rival="others",
)


def test_an_outcome_is_read_back_from_its_json() -> None:
    assert ExperimentResult.from_json(OUTCOME.as_json()) == OUTCOME


def test_an_account_is_told_in_one_line() -> None:
    account = {
        "accepted": 1_200,
        "delivered": 1_000,
        "digested": 200,
        "latency_s": {"mean": 1.25, "p99": None},
    }
    answer = {"candidates": {"ward": account, "drop-oldest": account}, "report": "r.html"}
    assert CommandResult(Command("Try", ()), 0, answer, "", 1.0).lines() == [
        "ward: accepted 1,200 = delivered 1,000 + digested 200; latency mean 1.2 s, p99 0.0 s",
        "drop-oldest: accepted 1,200 = delivered 1,000 + dropped 200; latency mean 1.2 s, p99 0.0 s",
        "written: r.html",
    ]


@pytest.mark.e2e
def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.yaml")
    found = run(Command("Check", ("policy", "explain", missing), aside=True))
    assert found.exit != 0
    assert found.outcome is None
    (line,) = found.lines()
    assert line.startswith("error: ")
    assert missing in line
