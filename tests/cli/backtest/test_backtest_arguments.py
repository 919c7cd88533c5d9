"""Arguments that `backtest` and `advise` refuse before they start Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.command import VITALS, answer, here

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

BACKTEST = ("backtest", "--events", "events.parquet", "--policy", VITALS)
USUAL = (*BACKTEST, "--capacity", "9", "--drain", "1/s")
ADVISE = ("advise", "--events", "events.parquet")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((*BACKTEST, "--capacity", "100", "--drain", "fast"), 3, "a drain is written like 100/s"),
        ((*BACKTEST, "--capacity", "100", "--drain", "0/s"), 3, "at least one an hour"),
        ((*BACKTEST, "--capacity", "2", "--drain", "1/s"), 2, "--capacity"),
        ((*BACKTEST, "--drain", "1/s"), 2, "Missing option '--capacity'"),
        ((*USUAL, "--column", "pulse"), 2, "--column ATTRIBUTE=COLUMN"),
        ((*USUAL, "--controller", "lader"), 2, "did you mean 'ladder'?"),
        ((*USUAL, "--policy", VITALS), 3, "duplicate candidate name"),
        ((*USUAL, "--engine", "sprak"), 2, "did you mean 'spark'?"),
        (
            (*USUAL, "--engine", "local", "--master", "local[2]"),
            2,
            "go with --engine spark",
        ),
        ((*USUAL, "--matters", "pulse"), 3, "pulse: no comparison was found, for example 'pulse > 120'"),
        ((*USUAL, "--matters", "pulse within 5"), 3, "'within' takes two ends"),
        ((*USUAL, "--matters", "{latest: 3}"), 3, "'latest' does not look at the value of one event alone"),
        ((*USUAL, "--matters", "{gtt: 3}"), 3, "did you mean 'gt'?"),
        ((*USUAL, "--window", "0s"), 2, "--window 0s: write a duration like 10s"),
        ((*USUAL, "--engine", "local"), 3, "events.parquet: there is no such file or folder"),
        ((*ADVISE, "--attribute", "pulse", "--budget", "30"), 3, "a share between 0 and 1"),
        ((*ADVISE, "--budget", "0.3"), 2, "Missing option '--attribute'"),
        (
            (*ADVISE, "--attribute", "pulse", "--budget", "0.3", "--drain", "fast"),
            3,
            "a drain is written like",
        ),
        (
            (*ADVISE, "--attribute", "pulse", "--budget", "0.3", "--matters", "pulse"),
            3,
            "no comparison was found",
        ),
    ],
)
def test_a_wrong_command_line_is_said_at_once(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = here(*arguments, ok=code)
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_policy_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("levels: [drop: {delat: 5}]")
    found = answer(
        "backtest", "--events", "e.parquet", "--policy", str(path), "--capacity", "9", "--drain", "1/s", ok=3
    )
    assert "did you mean 'delta'?" in found["error"]["message"]
    assert str(path) in found["error"]["message"]
