"""Projects run as a user does: a process for each run, of which one is killed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.project.create import create
from penstock.pipeline.project.database import checkpoint_of
from tests.kit.commands_in_one_process import commands
from tests.kit.effort import LONG
from tests.kit.waiting import until
from tests.spark.project.recordings import node

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipeline.project.settings import Project

GOLD = [name for name, table in TABLES.items() if table.layer == "gold"]


def words(project: Project, engine: str) -> list[str]:
    return ["pipeline", "run", str(project.folder), "--engine", engine, "--master", "local[2]"]


def rows(project: Project, table: str) -> list[dict[str, Any]]:
    found = ds.dataset(project.folder / "tables" / table, format="parquet").to_table().to_pylist()
    return sorted(found, key=str)


async def killed(project: Project, when: Path) -> None:
    """Run by the plain engine, and kill the process as soon as a file is there."""
    assert not when.exists()
    process = subprocess.Popen([sys.executable, "-m", "penstock", *words(project, "plain")])
    try:
        await until(lambda: when.exists() or process.poll() is not None, within_s=600)
        assert process.poll() is None, "the run ended before it could be killed"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.long
async def test_a_run_that_was_killed_makes_the_same_gold_in_the_end(tmp_path: Path) -> None:
    data = tmp_path / "data"
    node(data, 200)
    whole, torn = (create(tmp_path / name, data=[data]) for name in ("whole", "torn"))
    if LONG:
        await killed(torn, checkpoint_of(torn, "arrivals") / "commits" / "0")  # packed is next
    await killed(torn, torn.folder / "tables" / "report" / "_SUCCESS")  # in the middle of gold
    with commands() as run:
        last = run(*words(torn, "plain"))
        assert last["tables"]["events"]["rows_read"] == 0, "the first run has read the file"
        assert last["control"] == {"allocation": 1, "reservations": 1}
        # On a server the engines are compared by tests/spark/project/test_run_cluster.py.
        first = run(*words(whole, "spark" if LONG else "plain"))
        assert first["control"] == {"allocation": 1, "reservations": 1}
        assert rows(whole, "allocation")
        assert {name: rows(torn, name) for name in GOLD} == {name: rows(whole, name) for name in GOLD}
