"""A folder of Parquet or JSON files as a stream, and a stream written to such a folder.

    stream = folder_stream(spark, "in")
    query = write_folder(stream.transform(pack_stream(…)), "out", checkpoint="checkpoint")

A file is read once, when it appears; it must appear complete (written elsewhere, then moved). The written
folder has every row once, whatever happens to the query, if it is read with Spark, which follows the list of
finished files in it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.tables.files import format_of
from penstock.pipeline.tables.recorded import CORRUPT, load, time_of
from penstock.pipeline.tables.schemas import DIGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS: Final = ("parquet", "json")
_NO_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


def folder_stream(
    spark: SparkSession,
    path: str,
    *,
    format: str | None = None,  # noqa: A002
    schema: st.StructType | str | None = None,
    files_per_trigger: int | None = None,
    ts: str = "ts",
) -> DataFrame:
    """Events of a folder's files as they appear, with a column `ts` of whole microseconds.

    The format follows from the folder's ending, Parquet if it has none; the columns are those of the existing
    files, or of `schema`. `ts` names the time column: microseconds, a timestamp, or ISO 8601.
    """
    kind = _known(format or format_of(path), path)
    if files_per_trigger is not None and files_per_trigger < 1:
        raise InputError(f"files_per_trigger {files_per_trigger}; at least 1", path=path)
    columns = _schema(spark, path, kind) if schema is None else _parsed(spark, schema)
    time = time_of(columns, ts, path)
    reader = spark.readStream.format(kind)
    if files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_trigger)
    if kind == "json":  # a line that is not JSON must not become a row of nulls
        reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
        columns = st.StructType([*columns, st.StructField(CORRUPT, st.StringType())])
    frame = reader.schema(columns).load(path)
    timed = frame.withColumn("ts", _checked_time(columns, time, ts))
    return timed.drop(CORRUPT)


def write_folder(
    stream: DataFrame,
    path: str,
    *,
    checkpoint: str,
    format: str = "parquet",  # noqa: A002
    every_s: float | None = None,
) -> StreamingQuery:
    """Start writing a stream to a folder; returns the query.

    Without `every_s` it processes the existing data, trigger by trigger, and ends; with it, it checks for
    more that often and does not end. The same `checkpoint` continues where the last query stopped or was
    killed.
    """
    kind = _known(format, path)
    if not stream.isStreaming:
        raise InputError("not a streaming frame; for a batch use `frame.write`", path=path)
    if every_s is not None and not 0 < every_s < float("inf"):
        raise InputError(f"every_s {every_s}; seconds, above 0", path=path)
    if checkpoint.rstrip("/") == path.rstrip("/"):
        raise InputError("the checkpoint needs a folder of its own", path=checkpoint)
    writer = stream.writeStream.format(kind).option("path", path).option("checkpointLocation", checkpoint)
    if every_s is not None:
        return writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds").start()
    with _without_empty_triggers(stream.sparkSession):
        return writer.trigger(availableNow=True).start()


@contextmanager
def _without_empty_triggers(spark: SparkSession) -> Iterator[None]:
    """A query started here ends with its data; one with timers would wait for them with empty triggers."""
    before = spark.conf.get(_NO_DATA)
    spark.conf.set(_NO_DATA, "false")
    try:
        yield
    finally:
        spark.conf.set(_NO_DATA, before or "true")


def _known(kind: str, path: str) -> str:
    if kind not in FORMATS:
        raise InputError(f"unknown format '{kind}'; allowed for streams: parquet, json", path=path)
    return kind


def _schema(spark: SparkSession, path: str, kind: str) -> st.StructType:
    found = [field for field in load(spark, path, kind).schema if field.name != CORRUPT]
    if not found:
        raise InputError("empty, so the columns are unknown; put an event there, or give a schema", path=path)
    return st.StructType([_digests(field) if kind == "json" else field for field in found])


def _digests(field: st.StructField) -> st.StructField:
    """Recognise a digest by its column's name, because in JSON it is an object like any other."""
    struct = field.name == "digest" and isinstance(field.dataType, st.StructType)
    return st.StructField(field.name, DIGEST) if struct else field


def _parsed(spark: SparkSession, schema: st.StructType | str) -> st.StructType:
    if isinstance(schema, st.StructType):
        return schema
    return spark.createDataFrame([], schema).schema


def _checked_time(columns: st.StructType, time: Column, ts: str) -> Column:
    """The time, or an error with file and line; a digest needs none."""
    file = sf.col("_metadata.file_path")
    names = columns.names
    said = sf.concat(file, sf.lit(f": an event without a time: column '{ts}' is "), _shown(column(ts)))
    missing = sf.raise_error(said).cast("bigint")
    if "digest" in names:
        missing = sf.when(column("digest").isNull(), missing)
    checked = sf.coalesce(time, missing)
    if CORRUPT not in names:
        return checked
    line = sf.concat(file, sf.lit(": a line is not a JSON object: "), sf.substring(sf.col(CORRUPT), 1, 80))
    broken = sf.raise_error(line).cast("bigint")
    return sf.when(sf.col(CORRUPT).isNotNull(), broken).otherwise(checked)


def _shown(found: Column) -> Column:
    return sf.coalesce(sf.substring(found.cast("string"), 1, 80), sf.lit("null"))
