"""The data source `format("penstock")`: reliable streams of a node in batch and streaming queries.

    events = spark.readStream.format("penstock").options(url="stream://10.0.0.5", stream="orders").load()

Spark finds the format by itself (`pyspark_penstock`), and runs it in its own Python processes, on the driver
and on the workers; this package must be installed there. Offsets are ticks by stream. A
span of ticks always has the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from penstock.pipeline.connector.options import SCHEMA, SinkOptions, SourceOptions, check_schema
from penstock.pipeline.connector.readers import BatchSource, StreamSource
from penstock.pipeline.connector.writers import BatchSink, StreamSink, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Penstock(DataSource):
    """Spark's entry point: makes readers and writers."""

    @classmethod
    def name(cls) -> str:
        """Name for `format`."""
        return "penstock"

    def schema(self) -> StructType:
        """Schema of the source."""
        return SCHEMA

    def reader(self, schema: StructType) -> BatchSource:
        """Reader for `spark.read`."""
        check_schema(schema)
        return BatchSource(SourceOptions.of(self.options))

    def streamReader(self, schema: StructType) -> StreamSource:  # noqa: N802  # Spark's name
        """Reader for `spark.readStream`."""
        check_schema(schema)
        return StreamSource(SourceOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """Writer for `frame.write`."""
        options = SinkOptions.of(self.options)
        return BatchSink(options, check_columns(schema, options, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802
        """Writer for `frame.writeStream`."""
        options = SinkOptions.of(self.options)
        return StreamSink(options, check_columns(schema, options, overwrite=overwrite))
