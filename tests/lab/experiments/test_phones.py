"""The live part of the tour: a node, two phones on slow links, a recording."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_every_reading_is_accounted_for_and_recorded(tmp_path: Path) -> None:
    command = ["reproduce", "phones", "--quick", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["accepted = delivered + digested + queued"]["ok"], rows
    told = rows["readings the phone got or was told about"]
    assert told["ok"], rows
    published = int(told["ours"].split(" of ")[1].replace(",", ""))
    files = list((tmp_path / "recorded-phones").glob("*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in files) == published
