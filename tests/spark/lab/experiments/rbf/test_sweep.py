"""Points of Figure 7 as Spark tasks: the same figures as in one process; filters of partitions merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.slots import wire
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape
from penstock.core.slots.slot_sets import flow_key
from penstock_lab.experiments.rbf.sweep import BurstPoint, measured, on_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_tasks_find_what_one_process_finds(spark: SparkSession) -> None:
    points = [BurstPoint(stdc=0.3, seed=1, asked=100), BurstPoint(stdc=0.6, seed=2, asked=100, coarse=8)]
    found = on_spark(spark, points)
    assert sorted(found, key=repr) == sorted((one for point in points for one in measured(point)), key=repr)


def test_filters_of_partitions_merge_into_the_filter_of_all(spark: SparkSession) -> None:
    shape = Shape(arrays=8, groups=8, positions=4096)

    def filtered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415  # in Spark's worker

        made = RefreshingFilter(shape, start=63)
        for batch in batches:
            made.insert_many(batch.column("key").to_numpy(), batch.column("slot").to_numpy())
        yield pa.RecordBatch.from_pylist([{"data": wire.to_bytes(made)}])

    arrivals = spark.range(0, 500, numPartitions=3).selectExpr(
        "xxhash64(concat('flow ', id)) AS key", "id % 64 AS slot"
    )
    rows = arrivals.mapInArrow(filtered, "data binary").collect()
    assert len(rows) == 3
    merged = RefreshingFilter(shape, start=63)
    for row in rows:
        part = wire.read(bytes(row.data))
        assert isinstance(part, RefreshingFilter)
        merged.merge(part)
    assert merged.inserted == 500
    assert all(merged.contains(flow_key(f"flow {number}"), number % 64) for number in range(500))
    assert np.count_nonzero(merged.words)
