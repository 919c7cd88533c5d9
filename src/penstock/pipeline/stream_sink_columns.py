"""Which columns a frame must have to be written into a stream, and its rows as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, TimestampType

from penstock.core.streams.requests import Row
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from penstock.pipeline.stream_source_options import SinkOptions

_KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "topic": ((StringType,), "string"),
    "payload": ((BinaryType, StringType), "binary or string"),
    "ts": ((TimestampType, LongType), "timestamp, or bigint with microseconds"),
    "content_type": ((StringType,), "string"),
    "properties": ((MapType,), "map<string,string>"),
}
"""Columns and what they may be."""


def check_columns(schema: StructType, options: SinkOptions, *, overwrite: bool) -> tuple[str, ...]:
    """The columns in order; InputError names one that cannot be."""
    if overwrite:
        raise InputError("a stream is only added to: use mode('append'), or outputMode('append' or 'update')")
    names = tuple(field.name for field in schema)
    for field in schema:
        if field.name not in _KINDS:
            raise InputError(
                f"column '{field.name}' is none of a message: {', '.join(_KINDS)}; put it into the payload, "
                "or leave it out"
            )
        kinds, said = _KINDS[field.name]
        text = field.dataType.simpleString()
        if not isinstance(field.dataType, kinds) or (field.name == "properties" and text != said):
            raise InputError(f"column '{field.name}' is {text}; a stream takes {said}: cast it")
    if "payload" not in names:
        raise InputError(f"there is no column 'payload'; there are: {', '.join(names)}")
    if "topic" not in names and not options.topic:
        raise InputError("there is no column 'topic'; add one, or name the topic of all rows by option topic")
    if "topic" in names and options.topic:
        raise InputError("there are a column 'topic' and an option topic: leave one out")
    return names


def rows_of(batch: RecordBatch, names: tuple[str, ...], topic: str) -> Iterator[Row]:
    """The messages of a batch."""
    columns: dict[str, list[Any]] = {}
    for name, column in zip(names, batch.columns, strict=True):
        values = column.cast(pa.int64()) if name == "ts" else column
        columns[name] = values.to_pylist()
    count = batch.num_rows
    nothing: list[Any] = [None] * count
    topics = columns.get("topic") or [topic] * count
    for name, values in (("topic", topics), ("payload", columns["payload"])):
        if None in values:
            raise InputError(f"a row's column '{name}' is null: every message has one")
    for at, payload in enumerate(columns["payload"]):
        yield Row(
            topics[at],
            payload.encode() if isinstance(payload, str) else payload,
            (columns.get("ts") or nothing)[at] or 0,
            (columns.get("content_type") or nothing)[at] or "",
            tuple((name, value or "") for name, value in (columns.get("properties") or nothing)[at] or ()),
        )
