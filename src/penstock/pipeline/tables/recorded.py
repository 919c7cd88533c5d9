"""Reads recorded events (Parquet, JSON lines or CSV) as a frame with a checked column `ts`.

The path is a file or a folder of files; the format follows from the ending, or is given. JSON lines are
plain objects (their fields are the attributes) or envelopes with `payload`, as `penstock policy try` takes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.tables.files import FORMATS, finish_running, format_of, nothing_there

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CORRUPT: Final = "__corrupt"
"""Column in which Spark puts a line that is not JSON."""


def read(spark: SparkSession, path: str, *, format: str | None = None, ts: str = "ts") -> DataFrame:  # noqa: A002
    """Events at a path, with a column `ts` of whole microseconds made from the named column."""
    kind = format or format_of(path)
    return _timed(checked(load(spark, path, kind), path), ts, path)


def load(spark: SparkSession, path: str, kind: str) -> DataFrame:
    """Load a path as it is; only its existence is checked."""
    finish_running(path)
    reader = spark.read
    try:
        if kind == "parquet":
            return reader.parquet(path)
        if kind == "json":
            return reader.json(path, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)
        if kind == "csv":
            return reader.csv(
                path, header=True, inferSchema=True, mode="FAILFAST", sep="\t" if ".tsv" in path else ","
            )
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith("PATH_NOT_FOUND"):
            raise InputError("there is no such file or folder", path=path) from None
        if condition.startswith("UNABLE_TO_INFER_SCHEMA"):
            raise nothing_there(path, kind) from None
        raise
    raise InputError(f"unknown format '{kind}'; allowed: {', '.join(FORMATS)}", path=path)


def checked(frame: DataFrame, path: str) -> DataFrame:
    """Refuse lines that are not JSON, naming the first one; Spark would make them rows of nulls."""
    if not frame.columns:
        raise InputError("there is no event in it", path=path)
    if CORRUPT not in frame.columns:
        return frame
    if frame.columns == [CORRUPT]:
        raise InputError("no line is a JSON object", path=path)
    named = frame.select(*map(column, frame.columns), sf.col("_metadata.file_path").alias("__file"))
    bad = named.where(
        sf.col(CORRUPT).isNotNull()
    ).head()  # all columns, because Spark refuses to select this one alone
    if bad is not None:
        line = bad[CORRUPT][:80]
        raise InputError(f"a line is not a JSON object: {line!r}", path=bad["__file"])
    return frame.drop(CORRUPT)


def _timed(frame: DataFrame, ts: str, path: str) -> DataFrame:
    found = time_of(frame.schema, ts, path)
    counted = frame.agg(sf.count(sf.lit(1)).alias("events"), sf.count(found).alias("timed")).first()
    assert counted is not None
    if not counted["events"]:
        raise InputError("there is no event in it", path=path)
    if counted["timed"] < counted["events"]:
        bad = frame.where(found.isNull()).head()
        raise InputError(f"an event without a time: column '{ts}' of {str(bad)[:200]}", path=path)
    return frame.withColumn("ts", found)


def time_of(schema: st.StructType, ts: str, path: str) -> Column:
    """Event time in microseconds, from the named column; null where it cannot be read."""
    kinds = {field.name: field.dataType for field in schema}
    if ts not in kinds:
        there = ", ".join(kinds)
        raise InputError(
            f"there is no column '{ts}' for the time of an event; name it with --ts; there are: {there}",
            path=path,
        )
    kind = kinds[ts]
    if isinstance(kind, st.IntegralType):
        return column(ts).cast("bigint")
    if isinstance(kind, st.TimestampType):
        return sf.unix_micros(column(ts))
    if isinstance(kind, st.TimestampNTZType | st.StringType):
        return sf.unix_micros(sf.try_to_timestamp(column(ts).cast("string")))
    wanted = "whole microseconds, a timestamp, or ISO 8601 texts"
    raise InputError(f"column '{ts}' is {kind.simpleString()}, expected {wanted}", path=path)
