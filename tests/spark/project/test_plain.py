"""A project run by the plain engine: what is read, what is written, what a kill leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError
from penstock.node.store.parquet import EVENTS, RecordFiles
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.project.create import create
from penstock.pipeline.project.database import checkpoint_of
from penstock.pipeline.project.decisions import decide
from penstock.pipeline.project.plain import run_plain
from penstock.pipeline.project.runs import Accounting, backlog, mark_taken
from penstock.pipeline.project.settings import open_project
from penstock.pipeline.project.status import status_of
from tests.kit.effort import LONG
from tests.spark.project.recordings import events, node, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.pipeline.project.runs import Run
    from penstock.pipeline.project.settings import Project


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Iterator[Project]:
    made = create(tmp_path / "project", data=[tmp_path / "data"])
    yield made
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE IF EXISTS {made.database} CASCADE")


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
    assert spark.read.table("policy_advice").count() == 0, (
        "nobody has asked; see tests/e2e/test_control_tables.py"
    )
    assert {row["client"] for row in spark.read.table("reservations").collect()} == {
        f"bed-{number}" for number in range(4)
    }

    newer = events(990, start=2_000, seed=2)
    for place in range(0, 990, 10):
        record(data / "recorded", EVENTS, newer[place : place + 10])
    (data / "recorded" / "events-20000101T000000.000000Z.parquet").write_bytes(b"PAR1 broken PAR1")
    assert backlog(project, "events").files == 100
    second = once(spark, project)
    assert (second.tables["events"].files_read, second.tables["events"].rows_read) == (100, 990)
    assert second.tables["polls"].rows_read == 0
    assert second.tables["packed"].rows_written <= 990
    assert backlog(project, "events").files == 0
    assert spark.read.table("events").count() == 2_990
    (bad,) = spark.read.table("quarantine").collect()
    assert bad["file"].endswith("events-20000101T000000.000000Z.parquet")
    assert bad["reason"]
    health = {(row["measure"], row["name"]): row["value"] for row in spark.read.table("health").collect()}
    assert health["rows", "events"] == 2_990
    assert health["quarantined", "events: files"] == 1
    assert "allocation" not in second.control, "the same rows make no new version"
    (unread,) = [record(data / "recorded", EVENTS, [event]) for event in events(1, start=2_990)]
    assert recorder_deletes(data / "recorded") == 101, "all but what has not been read"
    assert unread.exists()


def recorder_deletes(folder: Path) -> int:
    """How many files a recorder deletes that may keep next to nothing."""
    files = RecordFiles(folder, EVENTS, rotate_events=1, keep_bytes=1)
    return len(files.record(events(1, start=3_000), finish=True).deleted)


class Killed(Exception):
    """Stands for the end of the process."""


SOME = ["events", "packed", "flows", "report", "control tables"]
"""A table that is read from files, the one with state, two that are made anew, and what nodes load."""


@pytest.mark.slow
def test_killed_behind_any_table_the_next_run_makes_the_same_gold(
    spark: SparkSession, tmp_path: Path, project: Project
) -> None:
    node(tmp_path / "data", 400)
    boundaries: list[str] = []
    run_plain(spark, project, done=lambda name, *_: boundaries.append(name))
    decide(spark, project, done=lambda name, *_: boundaries.append(name))
    expected = content(spark, *GOLD)
    assert set(boundaries) == {*TABLES, "control tables"}
    settings = create(tmp_path / "other", data=[tmp_path / "data"]).folder / "settings.yml"
    settings.write_text(settings.read_text().replace("format: parquet", "format: orc"))
    other = open_project(settings.parent)  # gold does not depend on the format of the files either

    def stops(behind: str) -> None:
        def stop(name: str, *_: object) -> None:
            if name == behind:
                raise Killed

        run_plain(spark, other, done=stop)
        decide(spark, other, done=stop)

    # Each run begins with what the one before has left, and gets further.
    for name in boundaries if LONG else SOME:
        with pytest.raises(Killed):
            stops(name)
    once(spark, other)
    assert content(spark, *GOLD) == expected
    assert {path.name for path in other.control.glob("*/*")} == {"v=0001"}
    assert not list((other.folder / "tables").rglob("*.parquet"))
    shown = status_of(other)
    assert shown["tables"]["events"]["rows"] == 400
    health = {(row["measure"], row["name"]): row["value"] for row in shown["health"]}
    assert health["rows", "events"] == 400
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE IF EXISTS {other.database} CASCADE")


DEFINITIONS = """
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def numbers():
    return spark.readStream.schema("n bigint").parquet(str(Path(__file__).parent.parent / "in")){}

@dp.materialized_view
def total():
    return spark.read.table("numbers").selectExpr("count(*) AS rows", "sum(n) AS total")
"""


def small(spark: SparkSession, project: Project, more: str = "") -> list[Any]:
    """The rows of a project of two tables, whose first one ends with `more`."""
    (project.folder / "transformations" / "tables.py").write_text(DEFINITIONS.format(more))
    run_plain(spark, project, done=lambda *_: None)
    assert spark.read.table("total").collect() == spark.sql("SELECT count(*), sum(n) FROM numbers").collect()
    return sorted(tuple(row) for row in spark.read.table("numbers").collect())


def test_tables_grow_columns_and_a_wrong_definition_is_told(spark: SparkSession, project: Project) -> None:
    files = project.folder / "in"
    spark.range(3).selectExpr("id AS n").coalesce(1).write.parquet(str(files))
    assert small(spark, project) == [(0,), (1,), (2,)]
    spark.range(3, 5).selectExpr("id AS n").coalesce(1).write.mode("append").parquet(str(files))
    grown = small(spark, project, '.selectExpr("n", "n + 1 AS next")')
    assert grown == [(0, None), (1, None), (2, None), (3, 4), (4, 5)]
    assert small(spark, project) == grown, "a column that is no longer defined stays"
    with pytest.raises(InputError, match="column 'n' of the table 'numbers' is bigint, its definition says"):
        small(spark, project, '.selectExpr("cast(n AS string) AS n")')
    with pytest.raises(InputError, match=r"tables.py: line 11: NameError: name 'none' is not defined"):
        small(spark, project, ".limit(none)")
    with pytest.raises(InputError, match=r"tables.py: line 11: SyntaxError: "):
        small(spark, project, ")")
    with pytest.raises(InputError, match="'total' is defined twice"):
        small(
            spark, project, "\n\n@dp.materialized_view(name='total')\ndef other():\n    return spark.range(1)"
        )


def test_tables_that_the_catalog_does_not_know_are_taken_up(spark: SparkSession, project: Project) -> None:
    """As after the end of a server, whose catalog is in memory, or a kill while a view was made."""
    files, tables = project.folder / "in", project.folder / "tables"
    spark.range(3).selectExpr("id AS n").coalesce(1).write.parquet(str(files))
    stream = spark.readStream.schema("n bigint").parquet(str(files)).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", str(checkpoint_of(project, "numbers")))
    stream.trigger(availableNow=True).start(str(tables / "numbers")).awaitTermination()
    spark.range(7).write.parquet(str(tables / "total"))
    spark.range(3, 5).selectExpr("id AS n").coalesce(1).write.mode("append").parquet(str(files))
    assert small(spark, project) == [(0,), (1,), (2,), (3,), (4,)]
