"""Frames into a stream, each row once: tasks stage their rows at the node, the driver commits the batch.

The node knows a batch by the query and its number, or by the job; one that it has is passed over. A task
that is repeated stages its rows again, and those of the attempt that failed are dropped.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock import limits
from penstock.core.streams.requests import Abort, Commit, Describe, Described, Stage, Staged, size_of
from penstock.errors import InputError, PenstockError, SparkFailed
from penstock.pipeline.stream_sink_columns import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow import RecordBatch

    from penstock.core.streams.requests import Row
    from penstock.pipeline.stream_source_options import SinkOptions

QUERY: Final = "sql.streaming.queryId"
"""Where Spark says which query a task works for: the same as long as its checkpoint lives."""


@dataclass(frozen=True)
class Made(WriterCommitMessage):
    """What a task has staged."""

    writer: str
    attempt: str
    parts: int


class _Sink:
    """What batch and stream have in common."""

    def __init__(self, options: SinkOptions, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def _stage(self, batches: Iterator[RecordBatch], writer: str) -> Made:
        """On a worker: all rows of a task, in parts."""
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
                    with suppress(PenstockError):  # else they go by themselves, some time
                        connection.call(Abort(0, self._options.stream, (attempt,)))
                raise
        return Made(writer, attempt, part)

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

    def write(self, iterator: Iterator[RecordBatch]) -> Made:
        """On a worker."""
        return self._stage(iterator, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: all tasks are done."""
        self._commit(messages, 0, once=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: one of them failed."""
        self._abort(messages)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """For `frame.writeStream`: the query is a writer, its batches have numbers."""

    def write(self, iterator: Iterator[RecordBatch]) -> Made:
        """On a worker."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY)
        if not query:
            raise SparkFailed(
                "Spark does not say which query this task works for; its rows would not be known again"
            )
        return self._stage(iterator, f"spark-query:{query}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: all tasks of a trigger are done."""
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver: one of them failed."""
        self._abort(messages)


def _made(messages: Sequence[WriterCommitMessage | None]) -> list[Made]:
    return [one for one in messages if isinstance(one, Made)]


def _parts(
    batches: Iterator[RecordBatch], names: tuple[str, ...], topic: str, *, most_bytes: int
) -> Iterator[tuple[Row, ...]]:
    """Rows in as many at a time as one request takes."""
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
