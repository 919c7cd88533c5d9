"""Dead bands and swings that end a policy at a fixed level, where the fold itself names the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from penstock.pipeline import pack
from penstock.pipeline.compile import sequential
from penstock.policy import evaluate
from penstock.policy.text.forms import parse
from tests.agreement.comparing import assert_same
from tests.spark.compile.frames import Queue, packed_queues, typed_frame_of, typed_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = {"v": "double", "a.b": "string"}
POLICIES = {
    "dead band": "[drop: {delta: 5}]",
    "dead band, nothing unread": "[drop: {delta: 5, missing: drop}]",
    "dead band behind others": "[drop: {every: 3}, drop: {delta: {change: 20, max_silence: 1}}]",
    "swing": "[drop: {swing: 5}]",
    "swing, nothing unread": "[drop: {swing: 50, missing: drop}]",
    "several": "[drop: {swing: 1}, keep: {delta: 90}, drop: {within: [1, 5]}, drop: {delta: 3}]",
}


@pytest.fixture(scope="module")
def found() -> list[Queue]:
    return typed_queues(8, 80, KINDS, most=40)


@pytest.fixture(scope="module")
def frame(spark: SparkSession, found: list[Queue]) -> DataFrame:
    return typed_frame_of(spark, found, KINDS).cache()


@pytest.mark.parametrize("name", POLICIES)
def test_the_runs_of_a_fold_are_those_of_the_reference(
    frame: DataFrame, found: list[Queue], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequential, "BLOCK", 7)  # queues of several blocks
    policy = parse(f"attribute: v\ndigest: [count, min, max, last]\nlevels: {POLICIES[name]}")
    packed = frame.transform(
        pack(
            policy,
            key=["queue"],
            order=["spot"],
            level=policy.highest,
            schema=frame.schema,
            now=sf.col("now_us"),
        )
    )
    ours = packed_queues(packed, len(found))
    dropped = 0
    for number, queue in enumerate(found):
        expected = evaluate.pack(policy, queue.items, level=policy.highest, now_us=queue.now_us)
        assert_same(ours[number], expected.items)
        dropped += expected.effects[-1].dropped
    assert dropped


def test_a_long_queue_is_folded_as_a_short_one(spark: SparkSession) -> None:
    size = 3 * sequential.BLOCK + 1
    values = [float(place % 10) for place in range(size)]
    rows = [("a", place, value) for place, value in enumerate(values)]
    policy = parse("attribute: v\nlevels: [drop: {delta: 4}]")
    frame = spark.createDataFrame(rows, "queue string, ts bigint, v double")
    packed = frame.transform(pack(policy, key=["queue"], order=["ts"], level=1, schema=frame.schema))
    stay, last = [], None
    for place, value in enumerate(values):
        if last is None or abs(value - last) >= 4:
            stay.append(place)
            last = value
    kept = packed.where("kind = 'event'").orderBy("place").collect()
    assert [row["ts"] for row in kept] == stay
