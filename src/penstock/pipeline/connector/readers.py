"""Reads streams of a node: finds the ticks, splits them into tasks, and makes Arrow batches of messages."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock import limits
from penstock.client.streams.reader import properties_of
from penstock.core.streams.requests import (
    Cuts,
    Describe,
    Described,
    Fetch,
    Fetched,
    Place,
    Placed,
    Settle,
    Split,
)
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.core.streams.wire import decode_record
from penstock.errors import InputError, StreamRefused
from penstock.pipeline.connector.options import EARLIEST, LATEST, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow import RecordBatch

    from penstock.client.streams.connection import StreamConnection
    from penstock.core.streams.requests import Figures
    from penstock.pipeline.connector.options import SourceOptions


@cache
def arrow_schema() -> pa.Schema:
    """Arrow schema of the source's columns, as Spark expects."""
    return to_arrow_schema(SCHEMA, timezone="UTC")


def batch_of(stream: str, ticks: Sequence[int], bodies: Sequence[bytes]) -> pa.RecordBatch:
    """A row for each message."""
    records = [decode_record(body) for body in bodies]
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
        [list(dict(one.user).items()) for one in more],  # in a map the last value of a repeated name counts
    ]
    schema = arrow_schema()
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


log = logging.getLogger(__name__)

SILENCE: Final = 3_600 * TICKS_PER_S
"""Ticks without a message after which the offset advances by itself, so that the log does not delete
messages behind it: a trigger without rows once an hour.
"""


@dataclass(frozen=True)
class Span(InputPartition):
    """Span of ticks that one task reads."""

    stream: str
    since: int
    until: int


class _Source:
    """Common part of batch and stream. Pickled for the workers, without its connection."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._connection: StreamConnection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Rows of a span, on a worker."""
        assert isinstance(partition, Span)
        at = partition.since
        with self._options.where.connection() as connection:
            while at < partition.until:
                try:
                    found = connection.call(Fetch(0, partition.stream, at, partition.until))
                except StreamRefused as error:
                    at = self._passed_over(error, partition.stream, at)
                    continue
                assert isinstance(found, Fetched)
                if found.behind <= at:
                    raise InputError(
                        f"stream '{partition.stream}' ends at tick {at}, before {partition.until}: "
                        "are these offsets of another node?"
                    )
                at = found.behind
                if found.ticks:
                    yield batch_of(partition.stream, found.ticks, found.bodies)

    def _call(self) -> StreamConnection:
        if self._connection is None:
            self._connection = self._options.where.connection()
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _streams(self) -> dict[str, Figures]:
        """The streams to read, with current figures; all must be hosted by the node."""
        found = self._call().call(Describe(0))
        assert isinstance(found, Described)
        there = {one.name: one for one in found.streams}
        wanted = self._options.streams or tuple(name for name, one in there.items() if one.here)
        for name in wanted:
            if name not in there:
                known = ", ".join(sorted(there)) or "none"
                raise InputError(f"node '{found.node}' has no stream '{name}'; there are: {known}")
            if not there[name].here:
                raise InputError(f"stream '{name}' is hosted by {there[name].whereabouts}: give its url")
        if not wanted:
            raise InputError(f"node '{found.node}' hosts no stream")
        return {name: there[name] for name in wanted}

    def _start(self, default: str) -> dict[str, int]:
        """First tick of each stream."""
        starting = self._options.starting
        streams = self._streams()
        if isinstance(starting, dict):
            _all_named(starting, streams, "startingOffsets")
            return {name: starting[name] for name in streams}
        word = starting or default
        return {name: one.end if word == LATEST else one.begin for name, one in streams.items()}

    def _spans(self, start: dict[str, int], end: dict[str, int]) -> list[Span]:
        """Spans of each stream, with as many rows as one task should have."""
        spans = []
        for name, until in end.items():
            at = start.get(name, until)
            while at < until:
                for cut in self._cuts(name, at, until, rows=self._options.partition_rows).ends:
                    if cut > at:
                        spans.append(Span(name, at, cut))
                    at = cut
        return spans

    def _cuts(self, stream: str, since: int, until: int, **how: int) -> Cuts:
        while True:
            try:
                found = self._call().call(Split(0, stream, since, until, **how))
            except StreamRefused as error:
                since = min(until, self._passed_over(error, stream, since))
                continue
            assert isinstance(found, Cuts)
            if found.ends[-1] < until and len(found.ends) < how.get("parts", limits.STREAM_PARTS):
                raise InputError(
                    f"stream '{stream}' ends at tick {found.ends[-1]}, before {until}: "
                    "are these offsets of another node?"
                )
            return found

    def _passed_over(self, error: StreamRefused, stream: str, at: int) -> int:
        """First available tick, if the loss of those before it is accepted."""
        if error.code != "trimmed":
            raise error
        if self._options.strict:
            raise InputError(
                f"{error}; set failOnDataLoss to false to go on without them, and give the query a consumer "
                "so that its messages are kept"
            ) from None
        log.warning("stream '%s': messages from tick %d to %d are gone", stream, at, error.first)
        return error.first


class BatchSource(_Source, DataSourceReader):
    """For `spark.read`: the messages that exist now."""

    def partitions(self) -> list[Span]:
        """One span per task."""
        try:
            start = self._start(EARLIEST)
            end = {name: one.end for name, one in self._streams().items()}
            ending = self._options.ending
            if isinstance(ending, dict):
                _all_named(ending, end, "endingOffsets")
                end = {name: min(ending[name], tick) for name, tick in end.items()}
            return self._spans(start, end)
        finally:
            self._close()


class StreamSource(_Source, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """For `spark.readStream`: an offset is the tick up to which each stream was read."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._target: dict[str, int] | None = None
        self._registered: set[str] = set()
        """Streams at which the consumer is registered, so that their logs keep unread messages."""
        if options.ending:
            raise InputError("endingOffsets is for spark.read: a stream has no end")

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Start of a query without a checkpoint; a known consumer continues at its position unless told
        otherwise."""
        start = self._start(LATEST)
        if self._options.consumer:
            for name in start:
                place = self._place(name)
                if place is not None and not self._options.starting:
                    start[name] = place
            named = isinstance(self._options.starting, dict)
            start = {name: self._register(name, at, named=named) for name, at in start.items()}
        return start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Read limit from the options."""
        return ReadMaxRows(self._options.most_rows) if self._options.most_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end: later messages are for the next run."""
        self._target = {name: one.end for name, one in self._streams().items()}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Latest offset, for the query's progress."""
        return {name: one.end for name, one in self._streams().items()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """End of the next trigger."""
        self._keep(start)
        streams = self._streams()
        ends = self._ends(streams, start)
        told = {name: end for name, end in ends.items() if name in start}
        fresh = {name: end for name, end in told.items() if self._any(name, start[name], end)}
        silent = {
            name: end for name, end in told.items() if name not in fresh and end - start[name] > SILENCE
        }
        # Rows of a stream that is new to the query come with the next trigger.
        new = {
            name: self._register(name, streams[name].begin, named=False) for name in ends if name not in start
        }
        return {**start, **silent, **self._limited(start, fresh, limit), **new}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Span]:
        """Spans of a trigger, one per task."""
        self._keep(start)
        return self._spans(start, end)

    def commit(self, end: dict[str, int]) -> None:
        """Everything before `end` is processed: tell the node, if the query is a consumer."""
        if self._options.consumer:
            for name, until in end.items():
                self._settle(name, until)

    def stop(self) -> None:
        """Disconnect: the query has ended."""
        self._close()

    def _keep(self, start: dict[str, int]) -> None:
        """Register the consumer of a query that continues from a checkpoint, so that messages are kept."""
        for name, at in start.items():
            self._register(name, at, named=True)

    def _register(self, name: str, at: int, *, named: bool) -> int:
        """Register the consumer, if there is one; returns its start, which is later if messages have been
        deleted.

        `named`: the user gave the tick; it is not just the first available one.
        """
        if not self._options.consumer or name in self._registered:
            return at
        while self._place(name) is None:
            try:
                self._settle(name, at)
            except StreamRefused as error:
                if error.code != "trimmed":
                    raise
                at = self._passed_over(error, name, at) if named else error.first
        self._registered.add(name)
        return at

    def _place(self, name: str) -> int | None:
        placed = self._call().call(Place(0, name, self._options.consumer))
        assert isinstance(placed, Placed)
        return placed.place

    def _settle(self, name: str, until: int) -> None:
        self._call().call(Settle(0, name, self._options.consumer, until))

    def _ends(self, streams: dict[str, Figures], start: dict[str, int]) -> dict[str, int]:
        ends = {name: one.end for name, one in streams.items()}
        if self._target is not None:
            ends = {name: min(end, self._target[name]) for name, end in ends.items() if name in self._target}
        return {name: max(end, start.get(name, 0)) for name, end in ends.items()}

    def _limited(self, start: dict[str, int], ends: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        match limit:
            case ReadMaxRows(max_rows=most):
                return self._at_most(start, ends, most)
            case ReadMaxBytes(max_bytes=most):
                share = max(1, most // max(1, len(ends)))
                return {
                    name: self._cuts(name, start[name], end, rows=1 << 60, bytes=share, parts=1).ends[0]
                    for name, end in ends.items()
                }
            case ReadMinRows(min_rows=least) if self._target is None:
                return ends if sum(self._rows(start, ends, least).values()) >= least else {}
        return ends

    def _any(self, stream: str, since: int, until: int) -> bool:
        """Whether there is a message."""
        try:
            found = self._call().call(Fetch(0, stream, since, until, most=1, consumer=self._options.consumer))
        except StreamRefused as error:
            return self._passed_over(error, stream, since) < until
        assert isinstance(found, Fetched)
        return bool(found.ticks)

    def _rows(self, start: dict[str, int], ends: dict[str, int], most: int) -> dict[str, int]:
        return {
            name: self._cuts(name, start[name], end, rows=most, parts=1).rows[0] for name, end in ends.items()
        }

    def _at_most(self, start: dict[str, int], ends: dict[str, int], most: int) -> dict[str, int]:
        """At most `most` rows in all; a stream with fewer than its share leaves the rest to the others."""
        found: dict[str, int] = {}
        first = sorted(ends, key=lambda one: (start[one], one))[
            :most
        ]  # those farthest behind, if not all fit
        rows = self._rows(start, {name: ends[name] for name in first}, most)
        left = most
        for number, name in enumerate(sorted(rows, key=lambda one: (rows[one], one))):
            share = min(rows[name], max(left // (len(rows) - number), 0))
            left -= share
            if share:
                found[name] = self._cuts(name, start[name], ends[name], rows=share, parts=1).ends[0]
        return found


def _all_named(offsets: dict[str, int], streams: dict[str, Any], option: str) -> None:
    missing = sorted(set(streams) - set(offsets))
    if missing:
        raise InputError(f"option {option} gives no tick for stream '{missing[0]}'")
    strange = sorted(set(offsets) - set(streams))
    if strange:
        raise InputError(f"option {option} names '{strange[0]}', which is not read")
