"""`format("penstock-control")`: a frame becomes the next version of a control table, which nodes follow.

    register_control(spark)
    writer = frame.write.format("penstock-control").mode("append")
    writer.options(path="control/allocation", table="allocation").save()

The workers write parts next to the versions, on a file system that they and the driver share; the driver
makes them a version in one step. Rows that equal those of the newest version, or that were rolled back, make
no new version.

path     folder of the control table
table    its name: allocation, reservations, policies
note     how the version was made, for people; optional
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from penstock.errors import InputError
from penstock.pipeline.tables.control_tables import (
    begin_version,
    content_hash,
    finish_version,
    newest_version,
    read_parts,
    write_part,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "penstock-control"
OPTIONS: Final = ("path", "table", "note")


@dataclass
class Written(WriterCommitMessage):
    """A part that a worker wrote; empty: its partition had no rows."""

    name: str


class ControlWriter(DataSourceArrowWriter):
    """Writes the parts of one version, and makes them a version."""

    def __init__(self, folder: str, table: str, note: str) -> None:
        self._folder = folder
        self._table = table
        self._note = note
        self._making = str(begin_version(folder))

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write the rows of one partition, in a worker."""
        import pyarrow as pa  # noqa: PLC0415  # in Spark's workers

        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return Written("")
        name = f"part-{uuid4().hex}.parquet"
        write_part(pa.Table.from_batches(batches), Path(self._making), name)
        return Written(name)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the parts the next version, unless nothing has changed."""
        making = Path(self._making)
        names = sorted(one.name for one in messages if isinstance(one, Written) and one.name)
        parts = [making / name for name in names]
        try:
            newest = newest_version(self._folder)
            content = content_hash(read_parts(parts))
            if newest is not None and content in (newest.content, *newest.refuses):
                return
            # Parts of tasks that ran twice are not part of the version.
            for path in making.iterdir():
                if path.name not in names:
                    path.unlink()
            finish_version(self._folder, making, parts, name=self._table, note=self._note)
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the parts."""
        del messages
        shutil.rmtree(self._making, ignore_errors=True)


class ControlTable(DataSource):
    """Spark's entry point: makes writers."""

    @classmethod
    def name(cls) -> str:
        """Name for `format`."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> ControlWriter:
        """Writer for `frame.write`."""
        del schema
        for option in self.options:
            if option not in OPTIONS:
                raise InputError(f"unknown option '{option}' of {FORMAT}; allowed: {', '.join(OPTIONS)}")
        for option in ("path", "table"):
            if not self.options.get(option):
                raise InputError(f"{FORMAT} needs the option '{option}'")
        if overwrite:
            raise InputError(f'{FORMAT} adds a version and deletes none: use mode("append")')
        return ControlWriter(self.options["path"], self.options["table"], self.options.get("note", ""))


def register_control(spark: SparkSession | Any) -> None:
    """Register the format in a session, classic or Connect."""
    spark.dataSource.register(ControlTable)
