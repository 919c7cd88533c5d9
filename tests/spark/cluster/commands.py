"""Runs commands on a session elsewhere, one after the other; see test_cluster."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

from penstock.cli.app import app
from tests.kit.command import VITALS

if TYPE_CHECKING:
    from pathlib import Path


def commands(folder: Path) -> dict[str, list[str]]:
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


def found(kind: str, address: str, folder: Path) -> dict[str, Any]:
    """The JSON that each command prints; `kind` is the option that takes the address."""
    printed: dict[str, Any] = {}
    for name, arguments in commands(folder).items():
        said = StringIO()
        with redirect_stdout(said):
            app([name, *arguments, f"--{kind}", address, "--json"], standalone_mode=False)
        printed[name] = json.loads(said.getvalue())
    return printed
