"""Bronze tables: what nodes recorded, read once, file by file.

Spark's checkpoints know which files were read. A file that cannot be read is skipped here and is in
`quarantine` with the reason: it is tried there by pyarrow, which says what is wrong.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.pipeline.compile.queue_columns import told, with_columns
from penstock.pipeline.project.catalogue import RECORDED, TABLES, recorded_schema
from penstock.pipeline.project.expectations import checked, dropped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.project.expectations import Expectation
    from penstock.pipeline.project.settings import Project

_SHOWN: Final = ("payload", "properties")
"""Columns that `quarantine` leaves out of a row: they may be large."""


def recorded(
    spark: SparkSession, project: Project, kind: str, expectations: Sequence[Expectation] = ()
) -> DataFrame:
    """Stream of a bronze table: rows of a kind from the files of all nodes, as they appear."""
    rows = _rows(spark, project, kind).transform(checked(expectations))
    return rows.select(*TABLES[kind].names)


def arrivals(events: DataFrame) -> DataFrame:
    """Who sent when on which topic."""
    named = events.where("sender <> '' AND topic <> ''")
    return named.select(sf.col("sender").alias("client"), "topic", "ts", "day")


def quarantine(
    spark: SparkSession, project: Project, expectations: Mapping[str, Sequence[Expectation]]
) -> DataFrame:
    """Stream of files that cannot be read, and of rows that expectations drop."""
    parts = [_bad_files(spark, project, kind) for kind in RECORDED]
    for kind, own in expectations.items():
        if any(one.action == "drop" for one in own):
            parts.append(_bad_rows(spark, project, kind, own))
    return reduce(lambda left, right: left.unionByName(right), parts)


def _rows(spark: SparkSession, project: Project, kind: str) -> DataFrame:
    reader = spark.readStream.schema(recorded_schema(kind)).option("ignoreCorruptFiles", True)
    rows = reader.parquet(_pattern(project.sources(kind)))
    return with_columns(rows, {"day": _day(), "file": sf.col("_metadata.file_path")})


def _day() -> Column:
    return sf.to_date(sf.timestamp_micros("ts"))


def _pattern(folders: Sequence[Path]) -> str:
    """All folders as one pattern of Hadoop: of a pattern, unlike of a path, nothing needs to exist yet."""
    escaped = ("".join(f"\\{one}" if one in "\\{}[]*?," else one for one in str(each)) for each in folders)
    # The slash is in front of the brace: a text that begins with a brace is a relative path.
    return "/{" + ",".join(one.removeprefix("/") for one in escaped) + "}/*.parquet"


def _bad_rows(
    spark: SparkSession, project: Project, kind: str, expectations: Sequence[Expectation]
) -> DataFrame:
    names = [one.name for one in RECORDED[kind] if one.name not in _SHOWN]
    found = _rows(spark, project, kind).transform(dropped(expectations))
    return found.select(
        sf.lit(kind).alias("table"), "file", "reason", sf.to_json(sf.struct(*names)).alias("row")
    )


def _bad_files(spark: SparkSession, project: Project, kind: str) -> DataFrame:
    files = spark.readStream.format("binaryFile").schema(_FILES).load(_pattern(project.sources(kind)))
    # The schema as text: a Spark type does not travel to the workers of every kind of session.
    types = {one.name: one.kind.simpleString() for one in RECORDED[kind]}
    paths = told(files.select("path"), st.StructType([_PROBLEMS["path"]]))
    found = paths.mapInArrow(partial(_tried, types=types), _PROBLEMS)
    return found.select(
        sf.lit(kind).alias("table"),
        sf.col("path").alias("file"),
        "reason",
        sf.lit(None).cast("string").alias("row"),
    )


_FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
"""Columns of Spark's format for files as they are; the content is not read, because it is not selected."""


_PROBLEMS: Final = st.StructType(
    [st.StructField("path", st.StringType()), st.StructField("reason", st.StringType())]
)
"""A schema as text would have to be parsed by Spark, which a pipeline's function must not ask for."""


def _tried(batches: Iterator[pa.RecordBatch], *, types: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Paths of files that cannot be read, with the reason; in Spark's workers."""
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        paths = batch.column(0).to_pylist()
        bad = [(path, reason) for path in paths if (reason := problem_of(path, types)) is not None]
        yield pa.RecordBatch.from_pydict(
            {
                "path": pa.array([path for path, _ in bad], pa.string()),
                "reason": pa.array([reason for _, reason in bad], pa.string()),
            }
        )


def problem_of(path: str, types: Mapping[str, str]) -> str | None:
    """Why a Parquet file cannot be read as rows of these columns; None if it can."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import fs, parquet  # noqa: PLC0415

    try:
        system, place = fs.FileSystem.from_uri(path)
        with system.open_input_file(place) as handle:
            file = parquet.ParquetFile(handle)
            schema = file.schema_arrow
            for name, kind in types.items():
                if name in schema.names and not _reads_as(schema.field(name).type, kind):
                    return f"column '{name}' is {schema.field(name).type}, expected {kind}"
            present = [name for name in types if name in schema.names]
            if not present:
                return f"none of the columns {', '.join(types)} is in it"
            for number in range(file.num_row_groups):
                file.read_row_group(number, columns=present)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    return None


def _reads_as(found: Any, kind: str) -> bool:
    """Whether Spark reads a column of an Arrow type as one of its own."""
    from pyarrow import types as at  # noqa: PLC0415

    tests = {
        "bigint": at.is_signed_integer,
        "int": lambda one: at.is_signed_integer(one) and one.bit_width <= 32,
        "string": lambda one: at.is_string(one) or at.is_large_string(one),
        "binary": lambda one: at.is_binary(one) or at.is_large_binary(one),
        "boolean": at.is_boolean,
        "map<string,string>": at.is_map,
    }
    return bool(tests[kind](found))
