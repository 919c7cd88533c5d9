"""Writes frames into a stream, each row once: tasks stage their rows at the node, the driver commits.

The node identifies a batch by the query and its number, or by the job, and ignores a batch that it already
has. A repeated task stages its rows again, and the rows of the failed attempt are dropped.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, TimestampType

from penstock import limits
from penstock.core.streams.requests import Abort, Commit, Describe, Described, Row, Stage, Staged, size_of
from penstock.errors import InputError, PenstockError, SparkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from penstock.pipeline.connector.options import SinkOptions

_KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "topic": ((StringType,), "string"),
    "payload": ((BinaryType, StringType), "binary or string"),
    "ts": ((TimestampType, LongType), "timestamp, or bigint with microseconds"),
    "content_type": ((StringType,), "string"),
    "properties": ((MapType,), "map<string,string>"),
}
"""Columns of a message and their types."""


def check_columns(schema: StructType, options: SinkOptions, *, overwrite: bool) -> tuple[str, ...]:
    """Column names in order; InputError names an invalid one."""
    if overwrite:
        raise InputError("streams only append: use mode('append'), or outputMode('append' or 'update')")
    names = tuple(field.name for field in schema)
    for field in schema:
        if field.name not in _KINDS:
            raise InputError(
                f"column '{field.name}' is unknown; allowed: {', '.join(_KINDS)}; put it into the payload, "
                "or leave it out"
            )
        kinds, said = _KINDS[field.name]
        text = field.dataType.simpleString()
        if not isinstance(field.dataType, kinds) or (field.name == "properties" and text != said):
            raise InputError(f"column '{field.name}' is {text}; a stream takes {said}: cast it")
    if "payload" not in names:
        raise InputError(f"there is no column 'payload'; there are: {', '.join(names)}")
    if "topic" not in names and not options.topic:
        raise InputError("there is no column 'topic'; add it, or set option topic for all rows")
    if "topic" in names and options.topic:
        raise InputError("both a column 'topic' and option topic are given; leave one out")
    return names


def rows_of(batch: RecordBatch, names: tuple[str, ...], topic: str) -> Iterator[Row]:
    """Messages of a batch."""
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


QUERY: Final = "sql.streaming.queryId"
"""Property in which Spark gives a task its query: constant as long as the checkpoint lives."""


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """Rows that a task has staged."""

    writer: str
    attempt: str
    parts: int


class _Sink:
    """Common part of batch and stream."""

    def __init__(self, options: SinkOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def _stage(self, batches: Iterator[RecordBatch], writer: str) -> StagedRows:
        """On a worker: stage all rows of a task, in parts."""
        attempt = secrets.token_hex(16)
        part = 0
        with self._options.where.connection() as connection:
            found = connection.call(Describe(0))
            assert isinstance(found, Described)
            try:
                for rows in _parts(batches, self._names, self._options.topic, most_bytes=found.most_bytes):
                    connection.call(Stage(0, self._options.stream, attempt, part, rows))
                    part += 1
            except BaseException:
                if part:
                    with suppress(PenstockError):  # otherwise the node deletes them later
                        connection.call(Abort(0, self._options.stream, (attempt,)))
                raise
        return StagedRows(writer, attempt, part)

    def _commit(
        self, messages: Sequence[WriterCommitMessage | None], batch: int, *, once: bool = False
    ) -> None:
        made = _made(messages)
        if not any(one.parts for one in made):
            return
        staged = tuple(Staged(one.attempt, one.parts) for one in made)
        options = self._options
        with options.where.connection() as connection:
            connection.call(
                Commit(0, options.stream, made[0].writer, batch, staged, sender=options.writer, once=once)
            )

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        made = _made(messages)
        if made:
            with self._options.where.connection() as connection:
                connection.call(Abort(0, self._options.stream, tuple(one.attempt for one in made)))


class BatchSink(_Sink, DataSourceArrowWriter):
    """For `frame.write`: the job is a writer with one batch."""

    def __init__(self, options: SinkOptions, names: tuple[str, ...]) -> None:
        super().__init__(options, names)
        self._job = f"spark-job:{secrets.token_hex(16)}"

    def write(self, iterator: Iterator[RecordBatch]) -> StagedRows:
        """Write the rows of a partition; runs on a worker."""
        return self._stage(iterator, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: all tasks succeeded."""
        self._commit(messages, 0, once=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: a task failed."""
        self._abort(messages)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """For `frame.writeStream`: the query is a writer, its batches are numbered."""

    def write(self, iterator: Iterator[RecordBatch]) -> StagedRows:
        """Write the rows of a partition; runs on a worker."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY)
        if not query:
            raise SparkFailed(
                "Spark gives no query id to this task, so a repeated batch could not be recognised"
            )
        return self._stage(iterator, f"spark-query:{query}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: all tasks of a trigger succeeded."""
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver: a task failed."""
        self._abort(messages)


def _made(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    return [one for one in messages if isinstance(one, StagedRows)]


def _parts(
    batches: Iterator[RecordBatch], names: tuple[str, ...], topic: str, *, most_bytes: int
) -> Iterator[tuple[Row, ...]]:
    """Rows in parts that fit one request."""
    rows: list[Any] = []
    size = 0
    for batch in batches:
        for row in rows_of(batch, names, topic):
            if len(row.payload) > most_bytes:
                raise InputError(
                    f"a payload of {len(row.payload):,} bytes on '{row.topic}'; the node takes {most_bytes:,}"
                )
            rows.append(row)
            size += size_of(row)
            if len(rows) == limits.STREAM_FETCH or size >= limits.STREAM_FETCH_BYTES:
                yield tuple(rows)
                rows, size = [], 0
    if rows:
        yield tuple(rows)
