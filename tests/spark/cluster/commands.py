"""Runs commands on a session elsewhere, one after the other, and prints what they print; see test_cluster.

The first command opens the session, as it would by itself; the others find it open. One each would start
executors and Python workers four times, and show nothing more.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from pyspark.sql import session as classic
from pyspark.sql.connect import session as connect

from penstock.cli.app import app
from tests.kit.command import VITALS


def commands(folder: str) -> dict[str, list[str]]:
    """The commands of a person who tries a policy on a stream, all of which run on Spark."""
    events = f"{folder}/vitals.parquet"
    return {
        "generate": ["vitals", "--events", "600", "--sources", "3", "--out", events],
        "backtest": [
            *("--events", events, "--policy", VITALS, "--capacity", "20", "--drain", "0.1/s"),
            *("--key", "sender", "--out", f"{folder}/report"),
        ],
        "advise": [
            *("--events", events, "--attribute", "pulse", "--budget", "0.4", "--capacity", "50"),
            *("--key", "sender", "--out", f"{folder}/policy.yaml"),
        ],
        "shed": [
            *("--in", events, "--out", f"{folder}/packed", "--policy", f"{folder}/policy.yaml"),
            *("--capacity", "50", "--key", "sender", "--partitions", "2"),
        ],
    }


def main(kind: str, address: str, folder: str) -> int:
    """`kind` is the option that takes the address: master or remote."""
    for session in (classic.SparkSession, connect.SparkSession):
        session.stop = _stays  # type: ignore[method-assign, assignment]
    found: dict[str, Any] = {}
    for name, arguments in commands(folder).items():
        printed = StringIO()
        with redirect_stdout(printed):
            app([name, *arguments, f"--{kind}", address, "--json"], standalone_mode=False)
        found[name] = json.loads(printed.getvalue())
    sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


def _stays(session: object) -> None:
    """The end of the process ends it."""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
