"""`penstock generate` as a user runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kit.command import here, penstock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_a_stream_is_written_once(tmp_path: Path) -> None:
    path = str(tmp_path / "campus.jsonl")
    asked = ("campus-syslog", "--events", "2e3", "--hours", "0.1", "--out", path, "--master", "local[1]")
    found = json.loads(penstock("generate", *asked, "--json").stdout)
    assert (found["events"], found["format"], found["sources"]) == (2_000, "json", 550)
    assert 0.09 * 3600 < (found["to_us"] - found["from_us"]) / 1e6 <= 0.1 * 3600
    parts = sorted((tmp_path / "campus.jsonl").glob("part-*"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    assert len(lines) == 2_000
    assert {"ts", "seq", "sender", "topic", "action", "ap", "host"} <= json.loads(lines[0]).keys()
    assert "--overwrite" in penstock("generate", *asked, ok=3).stderr


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (("vitals", "--events", "0"), 2, "A whole number from 1 on"),
        (("vitals", "--events", "2.5"), 2, "A whole number from 1 on"),
        (("vital", "--events", "5"), 2, "did you mean 'vitals'"),
        (("vitals", "--events", "5", "--rate", "1", "--hours", "1"), 2, "give one of them"),
        (("vitals", "--events", "5", "--hours", "0"), 2, "more than 0 hours"),
        (("vitals", "--events", "5", "--start", "noon"), 2, "2025-01-06T08:00"),
        (("vitals", "--events", "5", "--format", "xml"), 2, "there is no format 'xml'"),
        (("vitals", "--events", "5", "--sources", "0"), 3, "sources"),
    ],
)
def test_what_cannot_be_done_is_said_before_spark_starts(
    wrong: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    place = tmp_path / "stream"
    assert said in here("generate", *wrong, "--out", str(place), ok=code).stderr
    assert not place.exists()
