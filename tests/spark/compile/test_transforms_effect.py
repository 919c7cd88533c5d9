"""The effect of each filter, counted by Spark as by the reference."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from penstock.pipeline import effect
from penstock.policy import evaluate
from penstock.policy.text.forms import parse
from tests.spark.compile.frames import frame_of, policies, queues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_seen_and_dropped_are_those_of_the_reference(spark: SparkSession) -> None:
    found = queues(5, 40)
    frame = frame_of(spark, found).cache()
    for policy in policies(2, 3):
        counts: Counter[tuple[object, str]] = Counter()
        for queue in found:
            one = evaluate.pack(policy, queue.items, level=policy.highest, now_us=queue.now_us)
            for done in one.effects:
                counts[done.cause, "seen"] += done.seen
                counts[done.cause, "dropped"] += done.dropped
        rows = frame.transform(
            effect(policy, key=["queue"], order=["spot"], schema=frame.schema, now=sf.col("now_us"))
        ).collect()
        causes = [placed.cause for placed in policy.steps(policy.highest)]
        assert [(row["level"], row["position"], row["filter"]) for row in rows] == [
            (cause.level, cause.position, cause.filter) for cause in causes
        ]
        for cause, row in zip(causes, rows, strict=True):
            seen, dropped = counts[cause, "seen"], counts[cause, "dropped"]
            assert (row["seen"], row["dropped"]) == (seen, dropped)
            assert row["ratio"] == (dropped / seen if seen else None)


def test_by_a_column_of_the_key(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("a", 1, 1.0), ("a", 2, 9.0), ("b", 3, 9.0)], "queue string, ts bigint, v double"
    )
    high = parse("attribute: v\nlevels: [drop: {gt: 5}]")
    rows = (
        frame.transform(effect(high, key=["queue"], order=["ts"], schema=frame.schema, by="queue"))
        .orderBy("queue")
        .collect()
    )
    assert [(row["queue"], row["seen"], row["dropped"]) for row in rows] == [("a", 2, 1), ("b", 1, 1)]
