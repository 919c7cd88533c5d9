"""A project run by the plain engine: what is read, what is written, what a kill leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.node.store.parquet import EVENTS
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.project.create import create
from penstock.pipeline.project.decisions import decide
from penstock.pipeline.project.plain import run_plain
from penstock.pipeline.project.runs import Accounting, backlog, mark_taken
from penstock.pipeline.project.settings import open_project
from penstock.pipeline.tables.control_tables import newest_version
from tests.spark.project.recordings import events, node, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.pipeline.project.runs import Run
    from penstock.pipeline.project.settings import Project

ADVISE = """
  - name: dashboards
    client: dash-*
    filter: ward/#
    attributes: [pulse]
    budget: 0.3
"""


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Iterator[Project]:
    made = create(tmp_path / "project", data=[tmp_path / "data"])
    yield made
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE IF EXISTS penstock_{made.identifier} CASCADE")


def once(spark: SparkSession, project: Project) -> Run:
    """One run in the tests' session."""
    accounting = Accounting(project)
    run_plain(spark, project, done=lambda *_: None)
    control = decide(spark, project)
    mark_taken(project)
    return accounting.run(engine="plain", control=control)


def content(spark: SparkSession, *names: str) -> dict[str, list[Any]]:
    return {name: sorted(map(str, spark.read.table(name).collect())) for name in names}


GOLD = [name for name, table in TABLES.items() if table.layer == "gold"]


@pytest.mark.slow
def test_every_table_and_a_second_run_that_reads_only_what_is_new(
    spark: SparkSession, project: Project, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    node(data, 2_000)
    settings = project.folder / "settings.yml"
    settings.write_text(settings.read_text().replace("advise: []", "advise:" + ADVISE))
    project = open_project(project.folder)
    first = once(spark, project)
    assert (first.tables["events"].files_read, first.tables["events"].rows_read) == (1, 2_000)
    assert first.control == {"allocation": 1, "reservations": 1}
    for name, table in TABLES.items():
        assert spark.read.table(name).schema.simpleString() == table.schema.simpleString(), name
    packed = spark.read.table("packed")
    whole = packed.selectExpr("sum(coalesce(digest.count, 1))").head()
    assert whole is not None
    assert whole[0] == 2_000
    dropped = spark.read.table("digests").selectExpr("coalesce(sum(count), 0)").head()
    assert dropped is not None
    assert dropped[0] == 2_000 - packed.where("kind = 'event'").count()
    assert [row["state"] for row in spark.read.table("policy_advice").collect()] == ["shadow"]
    assert {row["client"] for row in spark.read.table("reservations").collect()} == {
        f"bed-{number}" for number in range(4)
    }

    (data / "recorded" / "events-30000101T000000.000000Z.parquet").write_bytes(b"PAR1 broken PAR1")
    record(data / "recorded", EVENTS, [*events(1_000, start=2_000, seed=2)])
    assert backlog(project, "events").files == 2
    second = once(spark, project)
    assert (second.tables["events"].files_read, second.tables["events"].rows_read) == (2, 1_000)
    assert second.tables["polls"].rows_read == 0
    assert second.tables["packed"].rows_written <= 1_000
    assert backlog(project, "events").files == 0
    assert spark.read.table("events").count() == 3_000
    (bad,) = spark.read.table("quarantine").collect()
    assert bad["file"].endswith("events-30000101T000000.000000Z.parquet")
    assert bad["reason"]
    health = {(row["measure"], row["name"]): row["value"] for row in spark.read.table("health").collect()}
    assert health["rows", "events"] == 3_000
    assert health["quarantined", "events: files"] == 1
    advice = spark.read.table("policy_advice").collect()
    assert advice[0]["state"] in ("held", "failed")
    assert advice[0]["shadow_events"] == 1_000
    if advice[0]["state"] == "held":
        assert second.control["policies"] == 1
        assert newest_version(project.control / "policies").rows == 1  # type: ignore[union-attr]

    assert "allocation" not in second.control, "the same rows make no new version"
    marks = list((data / "recorded").glob(".taken-*.json"))
    assert len(marks) == 1
    assert b"events-30000101T000000.000000Z.parquet" in marks[0].read_bytes()


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.slow
def test_killed_between_two_tables_the_next_run_makes_the_same_gold(
    spark: SparkSession, tmp_path: Path, project: Project
) -> None:
    node(tmp_path / "data", 400)
    once(spark, project)
    expected = content(spark, *GOLD)
    other = create(tmp_path / "other", data=[tmp_path / "data"])

    def stop(name: str, *_: object) -> None:
        if name == "packed":  # silver streams from bronze: the next tables have not seen what is there
            raise Killed

    with pytest.raises(Killed):
        run_plain(spark, other, done=stop)
    once(spark, other)
    assert content(spark, *GOLD) == expected
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE IF EXISTS penstock_{other.identifier} CASCADE")
