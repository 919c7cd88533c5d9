"""Runs a project on a session elsewhere, by either engine where both can; see test_run_cluster."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from penstock.cli.app import app
from penstock.node.store.parquet import EVENTS
from penstock.pipeline.project.catalogue import TABLES
from tests.spark.project.recordings import events, record

GOLD = [name for name, table in TABLES.items() if table.layer == "gold"]


def found(kind: str, address: str, folder: Path) -> list[dict[str, Any]]:
    """What each run said, and what gold then has; the project's folder is in FOLDER/where.

    On a cluster the project goes on behind a run that was killed, and another one, beside it, runs at once.
    On a server one engine makes gold again of what the other one has read.
    """
    project = Path((folder / "where").read_text())
    if kind == "master":
        both = (project, project.parent / "whole")
        return [_run(each, "plain", f"--{kind}", address) for each in both]
    recorded = project.parent / "data" / "recorded"
    record(recorded, EVENTS, events(100, start=200, seed=2))
    return [_run(project, engine, f"--{kind}", address) for engine in ("spark", "plain")]


def _run(project: Path, engine: str, *where: str) -> dict[str, Any]:
    said = StringIO()
    with redirect_stdout(said):
        app(
            ["pipeline", "run", str(project), "--engine", engine, *where, "--json"],
            standalone_mode=False,
        )
    run = json.loads(said.getvalue())
    return {
        "control": run["control"],
        "read": run["tables"]["events"]["rows_read"],
        "reported": sum(row["events"] for row in _rows(project, "report")),
        "gold": gold_of(project),
    }


def gold_of(project: Path) -> dict[str, list[str]]:
    """The rows of each table of gold."""
    return {name: sorted(map(str, _rows(project, name))) for name in GOLD}


def _rows(project: Path, table: str) -> list[dict[str, Any]]:
    found = ds.dataset(project / "tables" / table, format="parquet").to_table()
    return list(found.to_pylist())
