"""Generated streams on disk: what is written can be read, and nothing is overwritten by mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock.pipeline.jobs.generate import GENERATORS, Recipe, writing
from penstock.pipeline.tables import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ASKED = Recipe(events=500, rate=5.0, sources=5)


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_what_is_written_is_read_again(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "stream")
    frame = GENERATORS["telemetry"].frame(spark, ASKED)
    done = writing.write(frame, path, kind=kind, replace=False)
    assert done.rows == 500
    assert done.files == 2
    assert done.bytes == sum(file.stat().st_size for file in (tmp_path / "stream").glob("part-*"))
    found = recorded.read(spark, path, format=kind)
    assert found.count() == 500
    speed = found["`readings.speed`"] if kind == "csv" else found["readings.speed"]
    wanted = frame.select("readings.speed").collect()
    assert sorted(row[0] or -1 for row in found.select(speed).collect()) == sorted(
        row[0] or -1 for row in wanted
    )
    times = [row["ts"] for row in found.select("ts").collect()]
    assert (done.from_us, done.to_us) == (min(times), max(times))
    assert done.span_s == pytest.approx((max(times) - min(times)) / 1e6)


def test_spark_is_asked_where_the_folder_is_not_ours(spark: SparkSession, tmp_path: Path) -> None:
    frame = GENERATORS["vitals"].frame(spark, ASKED)
    path = str(tmp_path / "stream")
    writing.write(frame, path, kind="parquet", replace=False)
    with pytest.raises(InputError, match="already exists; use --overwrite"):
        writing.write(frame, path, kind="parquet", replace=False)
    assert writing.write(frame, path, kind="parquet", replace=True).rows == 500


def test_a_folder_is_prepared_or_refused(tmp_path: Path) -> None:
    new = tmp_path / "a" / "b"
    assert writing.prepare(str(new), overwrite=False)
    assert new.is_dir()
    assert writing.prepare(f"file://{new}", overwrite=False), "an empty folder is no stream"
    assert not writing.prepare("s3a://bucket/stream", overwrite=False)
    (new / "part-0000.parquet").touch()
    (new / "_SUCCESS").touch()
    with pytest.raises(InputError, match="already exists"):
        writing.prepare(str(new), overwrite=False)
    assert writing.prepare(str(new), overwrite=True)
    (new / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds 'thesis.tex'"):
        writing.prepare(str(new), overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        writing.prepare(str(new / "thesis.tex"), overwrite=True)
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        writing.prepare(str(new / "thesis.tex" / "deep"), overwrite=True)
