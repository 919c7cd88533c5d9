"""Runs commands on a session elsewhere, one after the other; see test_cluster."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from penstock.cli.app import app
from tests.kit.command import VITALS


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands that run on Spark: those of a person who tries a policy on a stream, and a schedule."""
    events = f"{folder}/vitals.parquet"
    logged = Path((folder.parent / "project" / "where").read_text()).parent / "data"
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
        "allocate": [
            *("--polls", f"{logged}/polls", "--subscriptions", f"{logged}/subscriptions"),
            *("--scheme", "fair", "--out", f"{folder}/allocation"),
        ],
    }


def found(kind: str, address: str, folder: Path) -> dict[str, Any]:
    """The JSON that each command prints; `kind` is the option that takes the address."""
    printed: dict[str, Any] = {}
    for name, arguments in commands(folder).items():
        said = StringIO()
        with redirect_stdout(said):
            app([name, *arguments, f"--{kind}", address, "--json"], standalone_mode=False)
        printed[name] = json.loads(said.getvalue())
    return printed
