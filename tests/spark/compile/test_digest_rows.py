"""Digests between Spark and a node: each reads and merges what the other made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PythonException

from penstock.model import Cause, Digest, Event, digest_wire
from penstock.model.digest import merge_all
from penstock.pipeline import digest_of_row, pack, row_of_digest, with_digests, with_wire
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy import evaluate
from penstock.policy.text.forms import parse
from tests.agreement.comparing import assert_same_digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLICY = parse(
    """
attribute: v
digest: [count, mean, stddev, min, max, first, last, distinct, quantiles]
levels: [keep: {every: 1000}]
"""
)
SCHEMA = "queue int, ts bigint, seq bigint, v double"


def by_node(values: range) -> Digest:
    """A digest as a node makes it."""
    events = [Event("t", b'{"v": %d.5}' % value, value, seq=value) for value in values]
    (digest,) = evaluate.collapse(POLICY, events, cause=Cause(level=1, position=1, filter="every"))
    assert isinstance(digest, Digest)
    return digest


def rows(values: range) -> list[tuple[int, int, int, float]]:
    return [(0, value, value, value + 0.5) for value in values]


def packed(frame: DataFrame) -> DataFrame:
    return frame.transform(pack(POLICY, key=["queue"], order=["ts"], level=1))


def test_spark_merges_a_node_s_digests(spark: SparkSession) -> None:
    parts = [by_node(range(40)), by_node(range(40, 50))]
    wire = [(0, part.from_us, None, None, bytearray(digest_wire.to_bytes(part))) for part in parts]
    events = [(*row, None) for row in rows(range(100, 120))]
    frame = spark.createDataFrame([*wire, *events], f"{SCHEMA}, digest binary").transform(with_digests())
    (row,) = packed(frame).collect()
    assert row["kind"] == "digest"
    assert_same_digest(digest_of_row(row["digest"]), merge_all([*parts, by_node(range(100, 120))]))


def test_a_node_merges_spark_s_digests(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows(range(30)), SCHEMA)
    (row,) = packed(frame).transform(with_wire()).collect()
    theirs = digest_wire.from_bytes(bytes(row["digest"]))
    assert_same_digest(theirs, by_node(range(30)))
    assert_same_digest(theirs.merge(by_node(range(30, 60))), by_node(range(60)))


def test_rows_made_on_the_driver_need_no_worker(spark: SparkSession) -> None:
    given = [(0, 0, None, None, row_of_digest(by_node(range(10))))]
    frame = spark.createDataFrame(given, f"{SCHEMA}, digest {DIGEST.simpleString()}")
    (row,) = packed(frame).collect()
    assert digest_of_row(row["digest"]) == by_node(range(10))


def test_a_damaged_digest_is_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(0, 0, None, None, bytearray(b"\x00"))], f"{SCHEMA}, digest binary")
    said = "column 'digest' of the row with queue 0, ts 0, seq None: not a digest of version 1"
    with pytest.raises(PythonException, match=said):
        frame.transform(with_digests()).collect()
