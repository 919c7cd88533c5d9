"""The web part of the tour: a noisy page and a feed, real processes, deltas over MQTT."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_what_changes_is_told_to_all_and_noise_to_nobody(tmp_path: Path) -> None:
    command = ["reproduce", "web-feed", "--quick", "--json", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert [row for row in found["rows"] if row["ok"] is False] == []
    assert [row["what"] for row in found["tables"][0]["rows"]] == [
        "EUR 49.00 → EUR 44.00",
        "new: A ferry meanwhile",
        "Ships within two days → Sold out until spring",
        "new: Bridge open again",
    ]
