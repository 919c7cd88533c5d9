"""Messages of a stream as an Arrow batch, on a worker of Spark."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.client.stream_message import properties_of
from penstock.core.streams.record import decode
from penstock.pipeline.stream_source_options import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def arrow_schema() -> pa.Schema:
    """What Spark expects of the source's columns."""
    return to_arrow_schema(SCHEMA, timezone="UTC")


def batch_of(stream: str, ticks: Sequence[int], bodies: Sequence[bytes]) -> pa.RecordBatch:
    """A row for each message."""
    records = [decode(body) for body in bodies]
    more = [properties_of(one.properties) for one in records]
    columns: list[Sequence[Any]] = [
        [stream] * len(records),
        ticks,
        [one.topic for one in records],
        [one.payload for one in records],
        [one.ts_us for one in records],
        [one.sender for one in records],
        [one.seq for one in records],
        [one.qos for one in records],
        [one.content_type for one in more],
        [list(dict(one.user).items()) for one in more],  # a name counts once in a map, with its last value
    ]
    schema = arrow_schema()
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
