"""Digests' sketches and hashes mean the same to Spark SQL: both directions, real Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.model import Event, sketches
from penstock.policy.verdicts import lot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS = [float(number % 701) for number in range(5_000)]
TEXTS = [f"sensor-{number % 313} ü😀" for number in range(5_000)]


def only(frame: DataFrame) -> Any:
    """The one cell of a frame."""
    row = frame.first()
    assert row is not None
    return row[0]


def one_row(spark: SparkSession, query: str, **columns: Any) -> Any:
    """Evaluate expressions over one row of binary columns."""
    schema = ", ".join(f"{name} binary" for name in columns)
    frame = spark.createDataFrame([tuple(bytearray(data) for data in columns.values())], schema)
    return only(frame.selectExpr(query))


def test_spark_reads_our_distinct_count(spark: SparkSession) -> None:
    ours = sketches.distinct_of(TEXTS)
    assert one_row(spark, "hll_sketch_estimate(s)", s=ours) == round(sketches.distinct_estimate(ours))


def test_spark_reads_our_quantiles(spark: SparkSession) -> None:
    ours = sketches.quantiles_of(NUMBERS)
    assert one_row(spark, "kll_sketch_get_n_double(s)", s=ours) == len(NUMBERS)
    for rank, value in sketches.quantile_estimates(ours).items():
        assert one_row(spark, f"kll_sketch_get_quantile_double(s, {rank}D)", s=ours) == value


def test_we_read_and_merge_spark_s_distinct_count(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS[:2_000]], "v string")
    theirs = bytes(only(frame.selectExpr(f"hll_sketch_agg(xxhash64(v), {sketches.LG_REGISTERS})")))
    merged = sketches.merge_distinct(theirs, sketches.distinct_of(TEXTS))
    assert sketches.distinct_estimate(merged) == pytest.approx(313, rel=0.05)
    back = one_row(spark, "hll_sketch_estimate(hll_union(a, b))", a=merged, b=theirs)
    assert back == pytest.approx(313, rel=0.05)


def test_we_read_and_merge_spark_s_quantiles(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(number,) for number in NUMBERS], "v double")
    theirs = bytes(only(frame.selectExpr(f"kll_sketch_agg_double(v, {sketches.KLL_K})")))
    merged = sketches.merge_quantiles(theirs, sketches.quantiles_of(NUMBERS))
    assert one_row(spark, "kll_sketch_get_n_double(s)", s=merged) == 2 * len(NUMBERS)
    assert sketches.quantile_estimates(merged)[0.5] == pytest.approx(350, abs=0.03 * 701)


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        ("5|ü😀|7", "'5|ü😀|7'"),
        ("", "''"),
        (5, "5L"),
        (5.0, "5L"),
        (-(2**63), "-9223372036854775808L"),
        (2.5, "2.5D"),
        (1e300, "1e300D"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_value_has_the_hash_that_spark_gives_it(spark: SparkSession, value: Any, expression: str) -> None:
    assert only(spark.sql(f"select xxhash64({expression})")) == sketches.value_hash(value)


def test_a_lot_is_the_same_in_spark(spark: SparkSession) -> None:
    event = Event("t", b"", 0, sender="sensor ü", seq=41)
    drawn = "shiftrightunsigned(xxhash64(concat_ws('|', 7L, 'sensor ü', 41L)), 11) / pow(2, 53)"
    assert only(spark.sql(f"select {drawn}")) == lot(7, event)
