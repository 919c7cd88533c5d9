"""Packs a small frame and a small stream on a session elsewhere and says what is left; see test_cluster."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.pipeline import effect, pack, with_digests, with_wire
from penstock.pipeline.session import open_session
from penstock.pipeline.stream.pack_stream import held_count, pack_stream
from penstock.pipeline.tables.folders import folder_stream, write_folder
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

POLICY: Final = parse("""
attribute: v
digest: [count, mean, last, distinct, quantiles]
levels:
  - drop: {delta: 2}
  - drop: {within: [0, 3]}
  - keep: {latest: 2}
""")
CAPACITY: Final = 12


def found(kind: str, address: str, folder: Path) -> dict[str, Any]:
    """`kind` is what open_session calls the address: master or remote."""
    config = {"spark.sql.shuffle.partitions": "2"}
    if kind == "master":
        config["spark.driver.host"] = "127.0.0.1"
    with open_session(app="penstock tests", config=config, **{kind: address}) as spark:
        return {
            **_packed(spark),
            "stream": _streamed(spark, folder),
            "places": _places(spark),
            "held": held_count(spark, f"{folder}/checkpoint"),
        }


def _packed(spark: SparkSession) -> dict[str, Any]:
    """Values 0 … 9 and a null in one queue, at all levels."""
    values = [("a", spot, float(spot)) for spot in range(10)]
    frame = spark.createDataFrame([*values, ("a", 10, None)], "queue string, ts bigint, v double")
    packed = frame.transform(pack(POLICY, key="queue", order="ts", level=3, schema=frame.schema))
    rows = (
        packed.transform(with_wire()).transform(with_digests(schema=packed.schema)).orderBy("place").collect()
    )
    effects = frame.transform(effect(POLICY, key=["queue"], order=["ts"], schema=frame.schema)).collect()
    return {
        "queue": [row["v"] if row["kind"] == "event" else row["digest"]["count"] for row in rows],
        "effects": [[row["filter"], row["seen"], row["dropped"]] for row in effects],
    }


def _streamed(spark: SparkSession, folder: Path) -> dict[str, list[Any]]:
    stream = folder_stream(spark, f"{folder}/in", files_per_trigger=1)
    packed = stream.transform(
        pack_stream(POLICY, capacity=CAPACITY, key=["room"], order=["ts"], schema=stream.schema)
    )
    query = write_folder(packed, f"{folder}/out", checkpoint=f"{folder}/checkpoint")
    query.awaitTermination()
    left: dict[str, list[Any]] = defaultdict(list)
    for row in spark.read.parquet(f"{folder}/out").orderBy("place").collect():
        left[row["room"]].append(row["v"] if row["kind"] == "event" else [row["digest"]["count"]])
    return left


def _places(spark: SparkSession) -> int:
    """In how many working directories tasks run: each executor has its own."""

    def where(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch([pa.array([os.getcwd()])], names=["place"])  # noqa: PTH109

    return spark.range(0, 64, 1, 16).mapInArrow(where, "place string").distinct().count()
