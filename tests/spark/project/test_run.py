"""Projects run by either engine, as a user does: a process for each run, of which one is killed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from penstock.node.store.parquet import EVENTS
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.project.create import create
from penstock.pipeline.project.database import checkpoint_of
from tests.kit.commands_in_one_process import commands
from tests.kit.effort import LONG
from tests.kit.waiting import until
from tests.spark.project.recordings import events, node, record

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
async def test_both_engines_make_the_same_gold_also_of_a_run_that_was_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    node(data, 200)
    declared, plain = (create(tmp_path / name, data=[data]) for name in ("declared", "plain"))
    if LONG:
        await killed(plain, checkpoint_of(plain, "arrivals") / "commits" / "0")  # packed is next
    await killed(plain, plain.folder / "tables" / "report" / "_SUCCESS")  # in the middle of gold
    with commands() as run:
        last = run(*words(plain, "plain"))
        assert last["tables"]["events"]["rows_read"] == 0, "the first run has read the file"
        assert last["control"] == {"allocation": 1, "reservations": 1}
        first = run(*words(declared, "spark"))
        assert first["control"] == {"allocation": 1, "reservations": 1}
        polled = rows(declared, "allocation")
        assert polled
        assert {name: rows(plain, name) for name in GOLD} == {name: rows(declared, name) for name in GOLD}
        if not LONG:
            return  # tests/e2e/test_control_tables.py has a second run of this engine, too
        # In the second run all tables exist, so a view could be made of one that is being written.
        record(data / "recorded", EVENTS, events(200, start=200, seed=2))
        second = run(*words(declared, "spark"))
    assert second["tables"]["events"]["rows_read"] == 200
    assert rows(declared, "allocation") == polled, "polls are the same"
    assert sum(day["events"] for day in rows(declared, "report")) == 400
    assert "allocation" not in second["control"]
