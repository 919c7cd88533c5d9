"""A project run by processes on a standalone master with two workers, and on a Spark Connect server."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from penstock.node.store.parquet import EVENTS
from penstock.pipeline.project.create import create
from tests.kit.command import answer
from tests.kit.jvm import OPTIONS
from tests.spark.cluster.servers import HOST, connect_server, standalone
from tests.spark.project.recordings import events, node, record

if TYPE_CHECKING:
    from pathlib import Path

# With those of tests/spark/cluster: one cluster at a time.
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.xdist_group("spark-cluster")]

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": OPTIONS,
}


def run(project: Path, *where: str) -> dict[str, Any]:
    return answer("pipeline", "run", str(project), *where)


def reported(project: Path) -> int:
    """Events that the table `report` counts."""
    found = ds.dataset(project / "tables" / "report", format="parquet").to_table(["events"])
    return sum(found.column("events").to_pylist())


def test_on_a_master_and_then_on_a_server_by_either_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run goes on where the one before, elsewhere, has ended."""
    data = tmp_path / "data"
    node(data, 200)
    project = create(tmp_path / "project", data=[data]).folder
    monkeypatch.setenv("SPARK_LOCAL_IP", HOST)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    given = [*(f"--conf={name}={value}" for name, value in SMALL.items()), "pyspark-shell"]
    with standalone(tmp_path / "standalone") as master, monkeypatch.context() as there:
        there.setenv("PYSPARK_SUBMIT_ARGS", shlex.join(given))
        first = run(project, "--engine", "plain", "--master", master)
    assert first["control"] == {"allocation": 1, "reservations": 1}
    assert (first["tables"]["events"]["rows_read"], reported(project)) == (200, 200)
    with connect_server(tmp_path / "connect") as remote:
        record(data / "recorded", EVENTS, events(100, start=200, seed=2))
        second = run(project, "--engine", "plain", "--remote", remote)
        assert (second["tables"]["events"]["rows_read"], reported(project)) == (100, 300)
        record(data / "recorded", EVENTS, events(50, start=300, seed=3))
        third = run(project, "--engine", "spark", "--remote", remote)
        assert (third["tables"]["events"]["rows_read"], reported(project)) == (50, 350)
    assert "allocation" not in second["control"] | third["control"], "polls are the same"
