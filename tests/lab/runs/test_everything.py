"""Every run in a process of its own: what failed, hung or came too late does not stop the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from penstock_lab.runs.everything import BUG, LATE, Ended, Limits, run, run_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

NO = ("reproduce", "no-such-experiment")


def test_an_error_is_told_with_its_exit_code() -> None:
    found = run("wrong", NO, within_s=300)
    assert found.found is None
    assert found.exit_code == 2
    assert "there is no experiment 'no-such-experiment'" in found.error


def test_a_command_that_says_nothing_of_rows_has_failed() -> None:
    found = run("filters", ("filters",), within_s=300)
    assert (found.found, found.exit_code) == (None, BUG)
    assert "exit code 0" in found.error


def test_a_run_that_takes_too_long_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    words = ("reproduce", "phones", "--out", str(tmp_path))
    began_s = time.monotonic()
    found = run("phones", words, within_s=5)
    assert found.found is None
    assert "too long" in found.error
    assert time.monotonic() - began_s < 300


def test_those_that_cannot_begin_in_time_have_failed() -> None:
    told: list[tuple[int, str, bool]] = []

    def hear(number: int, name: str, one: Ended | None) -> None:
        told.append((number, name, one is not None))

    found = run_all({"a": NO, "b": NO}, Limits(one_s=60, all_s=0), hear)
    assert [(one.name, one.exit_code) for one in found] == [("a", LATE), ("b", LATE)]
    assert all("not run" in one.error for one in found)
    assert told == [(0, "a", False), (1, "a", True), (1, "b", False), (2, "b", True)]
