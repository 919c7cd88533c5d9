"""Digests between Spark and a node: each reads and merges what the other made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
    return frame.transform(pack(POLICY, key=["queue"], order=["ts"], level=1, schema=frame.schema))


def test_spark_merges_a_node_s_digests(spark: SparkSession) -> None:
    parts = [by_node(range(40)), by_node(range(40, 50))]
    written = (digest_wire.to_bytes(parts[0]), digest_wire.to_compact(parts[1]))
    wire = [(0, part.from_us, None, None, bytearray(data)) for part, data in zip(parts, written, strict=True)]
    events = [(*row, None) for row in rows(range(100, 120))]
    frame = spark.createDataFrame([*wire, *events], f"{SCHEMA}, digest binary")
    frame = frame.transform(with_digests(schema=frame.schema))
    (row,) = packed(frame).collect()
    assert row["kind"] == "digest"
    assert_same_digest(digest_of_row(row["digest"]), merge_all([*parts, by_node(range(100, 120))]))


@pytest.mark.parametrize("properties", ["map<string, string>", "array<struct<name: string, value: string>>"])
def test_digests_among_messages_are_read_in_either_form(spark: SparkSession, properties: str) -> None:
    """A publisher's digests, as the recorder and a reader of a stream give them."""
    parts = [by_node(range(40)), by_node(range(40, 50)), by_node(range(50, 60))]
    packed_bytes = [
        digest_wire.to_compact(parts[0]),
        json.dumps(digest_wire.to_json(parts[1], with_sketches=True)).encode(),
        digest_wire.to_bytes(parts[2]),
    ]
    marks = [digest_wire.COMPACT_MARK, digest_wire.JSON_MARK, digest_wire.COMPACT_MARK]

    def told(*pairs: tuple[str, str]) -> Any:
        return dict(pairs) if properties.startswith("map") else list(pairs)

    given: list[tuple[Any, ...]] = [
        (0, number, bytearray(data), told(("x", "y"), mark))
        for number, (data, mark) in enumerate(zip(packed_bytes, marks, strict=True))
    ]
    given += [
        (0, 3, bytearray(b"no digest"), told(digest_wire.COMPACT_MARK)),
        (0, 4, bytearray(packed_bytes[0]), told(("penstock-digest", "3"))),
        (0, 5, bytearray(b"7"), told()),
        (0, 6, None, None),
    ]
    frame = spark.createDataFrame(given, f"queue int, ts bigint, payload binary, properties {properties}")
    found = frame.transform(with_digests(schema=frame.schema)).orderBy("ts").collect()
    assert [row["digest"] is not None for row in found] == [True, True, True, False, False, False, False]
    for row, part in zip(found[:3], parts, strict=True):
        read = digest_of_row(row["digest"])
        assert (read.count, read.causes) == (part.count, part.causes)
        assert (read.from_us, read.to_us) == (part.from_us, part.to_us)
    (row,) = packed(frame.transform(with_digests(schema=frame.schema)).where("ts < 3")).collect()
    assert digest_of_row(row["digest"]).count == 60


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
        frame.transform(with_digests(schema=frame.schema)).collect()
