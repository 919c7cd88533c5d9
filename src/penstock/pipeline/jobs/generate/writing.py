"""Writes a generated stream into a folder (Parquet, JSON lines or CSV), all or nothing, and counts rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import Observation
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.compile.verdicts import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SPARKS_OWN: Final = ("part-", ".part-", "_SUCCESS", "._SUCCESS")
"""Prefixes of the names of files that Spark writes."""


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """Content of the folder after writing."""

    rows: int
    bytes: int
    files: int
    from_us: int
    to_us: int

    @property
    def span_s(self) -> float:
        """From the first event to the last."""
        return (self.to_us - self.from_us) / SECOND_US


def prepare(path: str, *, overwrite: bool) -> bool:
    """Create the folder, or refuse a path where the stream cannot be written, before anything is computed.

    True: the folder may be replaced. False: the path is not on this machine, so Spark has to check it.
    """
    place = _local(path)
    if place is None:
        return False
    try:
        if place.exists() and not place.is_dir():
            raise InputError("is a file; a stream is written as a folder of files", path=path)
        place.mkdir(parents=True, exist_ok=True)
        names = [entry.name for entry in place.iterdir()]
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError("cannot be written: permission denied", path=path)
    foreign = [name for name in names if not name.startswith(_SPARKS_OWN)]
    if foreign:
        raise InputError(f"holds '{foreign[0]}', which is not part of a stream; use a new folder", path=path)
    if names and not overwrite:
        raise _exists(path)
    return True


def write(frame: DataFrame, path: str, *, kind: str, replace: bool) -> WrittenFolder:
    """Write a frame whose column `ts` is the event time; `replace` deletes the existing files."""
    seen = Observation()
    counted = (flat(frame) if kind == "csv" else frame).observe(
        seen, sf.count(sf.lit(1)).alias("rows"), sf.min("ts").alias("from_us"), sf.max("ts").alias("to_us")
    )
    writer = counted.write.mode("overwrite" if replace else "error").format(kind)
    if kind == "csv":
        writer = writer.option("header", "true")
    try:
        writer.save(path)
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("PATH_ALREADY_EXISTS"):
            raise _exists(path) from None
        raise
    found = seen.get
    files, size = _files(frame.sparkSession, path)
    return WrittenFolder(found["rows"], size, files, found["from_us"], found["to_us"])


def flat(frame: DataFrame) -> DataFrame:
    """Fields of structs as columns `struct.field`, where policies find them too."""

    def columns(kind: st.StructType, above: Column | None, name: str) -> list[Column]:
        found: list[Column] = []
        for field in kind:
            value = column(field.name) if above is None else above.getField(field.name)
            title = name + field.name
            if isinstance(field.dataType, st.StructType):
                found += columns(field.dataType, value, f"{title}.")
            else:
                found.append(value.alias(title))
        return found

    return frame.select(*columns(frame.schema, None, ""))


def _exists(path: str) -> InputError:
    return InputError("already exists; use --overwrite to replace it", path=path)


def _local(path: str) -> Path | None:
    """The path, if it is on this machine."""
    address = urlparse(path)
    if address.scheme == "file":
        return Path(address.path)
    return None if address.scheme else Path(path)


def _files(spark: SparkSession, path: str) -> tuple[int, int]:
    """Number of files and their bytes, from Spark, wherever they are."""
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    row = listed.agg(sf.count(sf.lit(1)).alias("files"), sf.sum("length").alias("bytes")).first()
    assert row is not None
    return row["files"], row["bytes"] or 0
