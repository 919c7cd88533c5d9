"""`format("penstock-control")`: a frame becomes a version that nodes load, once for each content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from penstock.node.store.control_table import load
from penstock.pipeline.connector.control_sink import register_control
from penstock.pipeline.tables.control_tables import newest_version, roll_back, versions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"url": "string", "interval_us": "int64"}


def save(frame: DataFrame, folder: Path, **options: str) -> None:
    writer = frame.write.format("penstock-control").mode("append")
    writer.options(path=str(folder), table="allocation", **options).save()


def test_parts_become_a_version_and_equal_rows_none(spark: SparkSession, tmp_path: Path) -> None:
    register_control(spark)
    rows = spark.range(100).selectExpr("concat('u', id) AS url", "id AS interval_us")
    save(rows.repartition(3), tmp_path, note="by a test")
    found = load(tmp_path, "allocation", COLUMNS)
    assert found is not None
    assert (found.version.version, found.version.rows, found.version.note) == (1, 100, "by a test")
    assert len(found.version.files) == 3
    assert sorted(found.table["interval_us"].to_pylist()) == list(range(100))
    save(rows.coalesce(1), tmp_path)
    assert versions(tmp_path) == [1]
    save(rows.limit(10), tmp_path)
    roll_back(tmp_path)
    save(rows.limit(10).repartition(2), tmp_path)  # was taken back
    newest = newest_version(tmp_path)
    assert newest is not None
    assert (newest.version, newest.rows) == (3, 100)
    save(rows.where("false"), tmp_path)
    newest = newest_version(tmp_path)
    assert newest is not None
    assert (newest.version, newest.rows) == (4, 0)
    assert not list(tmp_path.glob(".making-*"))


def test_a_wrong_option_is_named_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    register_control(spark)
    rows = spark.range(1)
    with pytest.raises(PySparkException, match="unknown option 'tabel'"):
        save(rows, tmp_path, tabel="x")
    with pytest.raises(PySparkException, match="deletes none"):
        rows.write.format("penstock-control").mode("overwrite").options(path=str(tmp_path), table="t").save()
    broken = rows.selectExpr("raise_error('broken') AS url")
    with pytest.raises(PySparkException, match="broken"):
        save(broken, tmp_path)
    assert not list(tmp_path.iterdir())
