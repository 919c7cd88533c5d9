"""The same transforms on Spark Connect, in a process of its own: one holds either kind of session."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_pack_and_effect_over_connect() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.over_connect"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "queue": [8, 8.0, 1, None],
        "effects": [["delta", 11, 5], ["within", 6, 2], ["latest", 4, 2]],
    }
