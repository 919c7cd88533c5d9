"""A project run by a process on a standalone master with two workers, and by one on a Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.project.create import create
from tests.kit.command import answer
from tests.kit.effort import LONG
from tests.spark.cluster.project import gold_of
from tests.spark.project.recordings import node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.cluster.findings import Found

# With those of tests/spark/cluster: one cluster for all.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.xdist_group("spark-cluster"),
    pytest.mark.timeout(1_800),
]


def test_a_killed_run_goes_on_elsewhere_and_makes_the_same_gold(on_master: Found, tmp_path: Path) -> None:
    """A process was killed in the middle of gold; the next run, on the cluster, has all tables to write."""
    killed, whole = on_master["project"]
    assert (killed["read"], whole["read"]) == (0, 200), "the run that was killed has read the file"
    for run in (killed, whole):
        assert run["control"] == {"allocation": 1, "reservations": 1}
        assert run["reported"] == 200
    assert killed["gold"]["allocation"]
    assert killed["gold"] == whole["gold"]
    if LONG:  # by the other engine, of nothing, on this machine
        node(tmp_path / "data", 200)
        project = create(tmp_path / "declared", data=[tmp_path / "data"])
        run = answer("pipeline", "run", str(project.folder), "--engine", "spark", "--master", "local[2]")
        assert run["control"] == {"allocation": 1, "reservations": 1}
        assert killed["gold"] == gold_of(project.folder)


def test_on_a_master_and_then_on_a_server_by_either_engine(on_master: Found, on_remote: Found) -> None:
    """Each run goes on where the one before, elsewhere, has ended."""
    first, _ = on_master["project"]
    second, third = on_remote["project"]
    assert (second["read"], second["reported"]) == (100, 300)
    assert (third["read"], third["reported"]) == (0, 300)
    assert "allocation" not in second["control"] | third["control"], "polls are the same"
    assert first["gold"]["allocation"] == second["gold"]["allocation"]
    assert second["gold"] == third["gold"], "either engine makes the same of what is in the tables"
