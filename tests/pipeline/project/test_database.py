"""A specification for a Spark Connect server: the user's own, with the project's database there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.errors import InputError
from penstock.pipeline.project.create import create
from penstock.pipeline.project.database import checkpoint_of, specification_on_server
from penstock.pipeline.project.settings import SPECIFICATION

if TYPE_CHECKING:
    from pathlib import Path


def test_the_database_is_the_projects_and_the_checkpoints_are_those_of_any_run(tmp_path: Path) -> None:
    project = create(tmp_path / "project", data=[tmp_path / "data"])
    path = project.folder / SPECIFICATION
    mine = "configuration: {spark.sql.shuffle.partitions: '3'}\n"
    path.write_text(path.read_text() + mine)
    own = msgspec.yaml.decode(path.read_bytes())
    found = msgspec.yaml.decode(specification_on_server(project).read_bytes())
    assert found["database"] == project.database
    assert found["configuration"]["spark.sql.shuffle.partitions"] == "3"
    assert "RocksDB" in found["configuration"]["spark.sql.streaming.stateStore.providerClass"]
    assert {**found, "database": own["database"], "configuration": own["configuration"]} == own
    assert specification_on_server(project).parent == path.parent, "definitions are found relative to it"
    there = project.folder / "storage/_checkpoints/spark_catalog" / project.database / "events/events/0"
    there.mkdir(parents=True)
    assert checkpoint_of(project, "events").samefile(there)


def test_a_broken_specification_is_told(tmp_path: Path) -> None:
    project = create(tmp_path / "project", data=[tmp_path / "data"])
    (project.folder / SPECIFICATION).write_text("name: [")
    with pytest.raises(InputError, match=SPECIFICATION):
        specification_on_server(project)
