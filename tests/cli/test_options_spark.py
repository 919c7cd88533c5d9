"""Which streams are short enough for a Java that compiles quickly instead of well."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.cli.options import in_a_hurry

if TYPE_CHECKING:
    from pathlib import Path

NAME = "SPARK_SUBMIT_OPTS"
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "")  # so that what a test sets is taken back
    monkeypatch.delenv(NAME)


def test_a_short_stream_hurries_and_a_long_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "one.parquet").write_bytes(bytes(60))
    monkeypatch.setattr(limits, "SHORT_BYTES", 100)
    in_a_hurry(path=str(tmp_path))
    assert os.environ.pop(NAME) == QUICK
    (tmp_path / "day=1" / "two.parquet").write_bytes(bytes(60))
    in_a_hurry(path=str(tmp_path))
    in_a_hurry(path="s3a://elsewhere/events.parquet")  # nobody knows how long
    assert NAME not in os.environ


def test_a_few_generated_events_hurry_and_many_do_not() -> None:
    in_a_hurry(events=limits.SHORT_EVENTS + 1)
    assert NAME not in os.environ
    in_a_hurry(events=limits.SHORT_EVENTS)
    assert os.environ[NAME] == QUICK


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "-Xlog:gc")
    in_a_hurry(events=1)
    assert os.environ[NAME] == "-Xlog:gc"
