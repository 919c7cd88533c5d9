"""The tour ends by itself, with a report that needs nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
def test_the_tour_shows_every_part_and_writes_one_page(tmp_path: Path) -> None:
    command = ["demo", "--quick", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert [part["experiment"] for part in found["parts"]] == [
        "phones",
        "web-feed",
        "streams-kill",
        "pack-fig9",
        "ces-overload",
    ]
    failed = [(one["command"], one["found"]) for one in found["commands"] if one["exit"]]
    assert failed == []
    # How late things are is for the demo to judge where it runs: the machine of a test may be busy.
    broken = [row["what"] for part in found["parts"] for row in part["rows"] if row["ok"] is False]
    assert [what for what in broken if not re.search(r"\b(age|delay)\b", what)] == []
    page = (tmp_path / "report.html").read_text()
    for said in (
        "What each phone showed",
        "Open next",
        "EUR 49.00 → EUR 44.00",
        "keep their jitter",
        "level 1: keeps",
    ):
        assert said in page
    assert 'src="http' not in page
    assert "<link" not in page
