"""`backtest`: replays every queue of a recorded stream under each candidate, queues in parallel.

    frame ──by queue, in order of time──► tasks: the queue cores, one per candidate ──► accounts, added up

A task processes its queues one after the other and reads Arrow batches as they come. It holds the waiting
events of one queue (at most `capacity` for each candidate) and some integers for each event of it: 8 bytes ×
(2 + attributes measured + 2 × candidates). Only accounts travel back.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.core.backtest.account import Account, QueueRun, from_json
from penstock.core.backtest.measures import QUARTILES, normal_range
from penstock.core.backtest.settings import (
    Backtest,
    RecordedStream,
    as_written,
    no_queue_column,
    packed_already,
    reserved_name,
)
from penstock.errors import InputError
from penstock.pipeline import session
from penstock.pipeline.compile.attach import attach
from penstock.pipeline.compile.events import EVENT, as_events, events_of, known
from penstock.pipeline.compile.queue_columns import told
from penstock.pipeline.compile.sources import Sources
from penstock.pipeline.compile.typed_columns import either
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.tables.schemas import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from penstock.core.backtest.settings import Settings
    from penstock.pipeline.compile.typed_columns import TypedColumns


BACKTEST: Final = st.StructType(
    [
        st.StructField("candidate", st.StringType()),
        st.StructField("queues", st.LongType()),
        st.StructField("accepted", st.LongType()),
        st.StructField("delivered", st.LongType()),
        st.StructField("digested", st.LongType()),
        st.StructField("packs", st.LongType()),
        st.StructField("conserved", st.BooleanType()),
        st.StructField("account", st.StringType()),
    ]
)
"""A candidate's result; `account` is all of it as JSON, which `core.backtest.account.from_json` reads."""


def backtest(
    settings: Settings, *, schema: st.StructType = EVENTS, tasks: int | None = None
) -> Callable[[DataFrame], DataFrame]:
    """Make a transform that replays every queue of recorded events: one row per candidate, columns BACKTEST.

        events.transform(backtest(Settings(candidates=candidates, capacity=1000, drain=drain("100/s"))))

    The column `ts` is the time of an event. The events are read twice, once for the figures of the stream.
    `tasks` is the number of parts that queues are divided among; default: as Spark is set.
    """
    sources = Sources(schema, settings.attributes, settings.payload)
    _check(sources, settings)

    def tested(frame: DataFrame) -> DataFrame:
        figures = _figures(frame, sources, settings)[0].select(sf.struct(*_FIGURES).alias(_STREAM))
        prepared = _prepared(frame, sources, settings)
        whole = _replayed(prepared, sources, settings, figures, tasks=tasks, lanes=1)
        merged = told(whole.repartition(1), _RESULT)
        return merged.mapInArrow(partial(_merged, settings=settings), BACKTEST)

    return tested


def backtested(frame: DataFrame, settings: Settings) -> Backtest:
    """The result of `backtest` of a frame, with figures and the errors that need them."""
    sources = Sources(frame.schema, settings.attributes, settings.payload)
    _check(sources, settings)
    return replayed(frame, settings, _stream(frame, sources, settings))


def replayed(frame: DataFrame, settings: Settings, stream: RecordedStream) -> Backtest:
    """`backtested` of a frame whose figures are known."""
    sources = Sources(frame.schema, settings.attributes, settings.payload)
    cores = session.cores(frame.sparkSession)
    # Candidates of one queue share a task, and so the decoding, unless that leaves cores idle.
    lanes = len(settings.candidates) if stream.queues < 2 * cores else 1
    rows = _replayed(
        _prepared(frame, sources, settings),
        sources,
        settings,
        stream,
        tasks=TASKS_PER_CORE * cores,
        lanes=lanes,
    ).collect()
    accounts = _accounts(((row["candidate"], bytes(row["account"])) for row in rows), settings)
    queues = next(iter(accounts.values())).queues
    silent = frozenset(one.name for one in settings.candidates if one.drops is not None)
    return Backtest(replace(stream, queues=queues), accounts, silent)


def _accounts(rows: Iterable[tuple[int, bytes]], settings: Settings) -> dict[str, Account]:
    """Accounts of tasks, added up by candidate."""
    found: dict[int, list[Account]] = {number: [] for number in range(len(settings.candidates))}
    for number, account in rows:
        found[number].append(from_json(account))
    return {
        candidate.name: reduce(Account.merge, found[number])
        for number, candidate in enumerate(settings.candidates)
        if found[number]
    }


# -- the frame -----------------------------------------------------------------------------------------------

TASKS_PER_CORE: Final = 4
"""Tasks per core, so that cores finish together although queues differ in length."""
_QUEUE: Final = "__queue"
_SERIES: Final = "__series"
_TS: Final = "__ts"
_ACCURACY: Final = 1_000_000
"""Accuracy of the quartiles: exact up to a million numbers, to a millionth of them beyond."""
_RESULT: Final = st.StructType(
    [st.StructField("candidate", st.IntegerType()), st.StructField("account", st.BinaryType())]
)
_STREAM: Final = "__stream"
"""Column with the figures of the stream, equal in all rows."""
_FIGURES: Final = ("events", "queues", "begin_us", "end_us", "quartiles")


def _check(sources: Sources, settings: Settings) -> None:
    for name in (*settings.key, *settings.series):
        if sources.find(name) is None:
            raise no_queue_column(name, sources.schema.names)
    unpacked(sources)
    reserved = [name for name in sources.schema.names if name.startswith("__")]
    if reserved:
        raise reserved_name(reserved[0])


def unpacked(sources: Sources) -> None:
    """Refuse a stream that contains digests of any form."""
    found = sources.envelope("$digest")
    if found is not None:
        raise packed_already(found.name)


def _figures(
    frame: DataFrame, sources: Sources, settings: Settings
) -> tuple[DataFrame, DataFrame, dict[str, TypedColumns]]:
    """One row with the figures of the stream; the frame they are from, and its attributes."""
    wanted = list(dict.fromkeys((*settings.wanted(), *settings.measured)))
    known(sources, wanted)
    timed = frame.select("*", sources.ts().alias(_TS), _queue(settings).alias(_QUEUE))
    read, readings, _ = attach(timed, sources, [_TS, _QUEUE], wanted)
    parts = [either(part.isNotNull() for part in readings[name].parts().values()) for name in wanted]
    ranks = sf.array(*map(sf.lit, QUARTILES))
    measured = [sf.percentile_approx(_finite(readings[name]), ranks, _ACCURACY) for name in settings.measured]
    figures = read.agg(
        sf.count(sf.lit(1)).alias("events"),
        sf.approx_count_distinct(_QUEUE, 0.02).alias("queues"),
        sf.min(_TS).alias("begin_us"),
        sf.max(_TS).alias("end_us"),
        sf.array(*measured).cast("array<array<double>>").alias("quartiles"),
        sf.array(*map(sf.count_if, parts)).alias("some"),
        sf.array(*(sf.count(readings[name].number()) for name in settings.counted())).alias("numbers"),
    )
    return figures, read, readings


def _stream_of(found: Row | Mapping[str, Any], settings: Settings) -> RecordedStream:
    quartiles = zip(settings.measured, found["quartiles"], strict=True)
    normal = {name: normal_range(*pair) for name, pair in quartiles if pair is not None}
    return RecordedStream(found["events"], found["queues"], found["begin_us"], found["end_us"], normal)


def _stream(frame: DataFrame, sources: Sources, settings: Settings) -> RecordedStream:
    """Figures of the stream; refuses an attribute that no event has, which is a mistake."""
    figures, read, readings = _figures(frame, sources, settings)
    found = figures.first()
    assert found is not None
    if not found["events"]:
        raise InputError("there is no event to replay")
    for name, some in zip(readings, found["some"], strict=True):
        if not some:
            raise InputError(f"attribute '{name}': none of {found['events']:,} events has it")
    for (name, filter_name), numbers in zip(settings.counted().items(), found["numbers"], strict=True):
        if not numbers:
            raise InputError(
                f"attribute '{name}': in none of {found['events']:,} events is it a number, which the filter "
                f"'{filter_name}' needs{_written(read, readings[name])}"
            )
    return _stream_of(found, settings)


def _finite(reading: TypedColumns) -> Column:
    number = reading.number()
    return sf.when(sf.abs(number) < float("inf"), number)


def _written(read: DataFrame, reading: TypedColumns) -> str:
    """Why a column of numbers is one of texts."""
    found = read.agg(*written(reading.texts())).first()
    said = "" if found is None else as_written(found[0], found[1])
    return said and f"; {said}"


def written(text: Column) -> tuple[Column, Column]:
    """Number of texts that are numbers, and one that is not: one word in a CSV file makes the column text."""
    number = text.try_cast("double")
    return sf.count(number), sf.min(sf.when(number.isNull(), text))


def _queue(settings: Settings) -> Column:
    return sf.to_json(sf.struct(*map(column, settings.key))) if settings.key else sf.lit("")


def _prepared(frame: DataFrame, sources: Sources, settings: Settings) -> DataFrame:
    """Events with the names of their queues and series, and the measured numbers."""
    by_event = [sf.col(EVENT).getField(name) for name in ("sender", "topic")]
    series = sf.xxhash64(*(map(column, settings.series) if settings.series else by_event))
    events = frame.transform(
        as_events(
            settings.wanted(),
            attributes=settings.attributes,
            payload=settings.payload,
            schema=sources.schema,
        )
    )
    named = events.select("*", _queue(settings).alias(_QUEUE), series.alias(_SERIES))
    kept = [EVENT, _QUEUE, _SERIES]
    read, readings, _ = attach(named, sources, kept, list(settings.measured))
    numbers = [
        sf.coalesce(readings[name].number(), sf.lit(float("nan"))).alias(_measure(place))
        for place, name in enumerate(settings.measured)
    ]
    return read.select(*kept, *numbers)


def _measure(place: int) -> str:
    return f"__measured{place}"


def _replayed(
    prepared: DataFrame,
    sources: Sources,
    settings: Settings,
    stream: RecordedStream | DataFrame,
    *,
    tasks: int | None,
    lanes: int,
) -> DataFrame:
    """Accounts of all tasks. `stream` has the figures, or is a frame of one row that has.

    Rows are shuffled once, whatever the number of candidates. With several `lanes` the candidates of a queue
    are replayed by as many tasks, each of which reads the same shuffled rows.
    """
    if not settings.key:
        parted = prepared.repartition(1)  # all events are one queue
    elif tasks is None:
        parted = prepared.repartition(_QUEUE)
    else:
        parted = prepared.repartition(tasks, _QUEUE)
    inside = [sf.col(EVENT).getField(name) for name in ("ts_us", "seq", "sender", "topic", "payload")]
    ordered = parted.sortWithinPartitions(_QUEUE, *inside)
    names = [EVENT, _QUEUE, _SERIES, *map(_measure, range(len(settings.measured)))]
    if not isinstance(stream, RecordedStream):
        ordered, names = ordered.crossJoin(sf.broadcast(stream)), [*names, _STREAM]
    ordered = told(ordered, st.StructType([st.StructField(name, st.NullType()) for name in names]))
    numbered = sources.envelope("$seq") is not None
    figures = stream if isinstance(stream, RecordedStream) else None
    every = range(len(settings.candidates))
    parts = [
        ordered.mapInArrow(
            partial(_work, settings=settings, stream=figures, own=own, numbered=numbered), _RESULT
        )
        for own in ([tuple(every)] if lanes == 1 else [(number,) for number in every])
    ]
    return reduce(lambda one, other: one.union(other), parts)


# -- on the worker -------------------------------------------------------------------------------------------


def _work(
    batches: Iterable[pa.RecordBatch],
    *,
    settings: Settings,
    stream: RecordedStream | None,
    own: tuple[int, ...],
    numbered: bool,
) -> Iterator[pa.RecordBatch]:
    """Replay all queues of a task, which come one after the other, each in order of time.

    `own` are the candidates of this task; without `stream` its figures are in the rows.
    """
    plans = {number: settings.candidates[number].plan() for number in own}
    totals: dict[int, Account] = {}
    run: QueueRun | None = None
    place: str | None = None
    for batch in batches:
        if stream is None and batch.num_rows:
            stream = _stream_of(batch.column(_STREAM)[0].as_py(), settings)
        for name, part in _parts(batch):
            if run is None or place != name:
                if run is not None and stream is not None:
                    run.settle(totals, stream)
                run, place = QueueRun(name, plans, settings), name
            values = [part.column(_measure(number)).to_numpy() for number in range(len(settings.measured))]
            events = [event for event in events_of(part.column(EVENT)) if event is not None]
            run.feed(events, part.column(_SERIES).to_numpy(), values, numbered=numbered)
    if run is not None and stream is not None:
        run.settle(totals, stream)
    encoded = [msgspec.json.encode(found) for found in totals.values()]
    columns = [pa.array(list(totals), pa.int32()), pa.array(encoded, pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, names=_RESULT.names)


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """A batch cut where another queue begins."""
    queues = batch.column(_QUEUE).dictionary_encode()
    names, numbers = queues.dictionary.to_pylist(), queues.indices.to_numpy()
    cuts = np.flatnonzero(np.diff(numbers) != 0) + 1
    starts = [0, *cuts.tolist()] if len(numbers) else []
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        yield names[numbers[start]], batch.slice(start, end - start)


def _merged(batches: Iterable[pa.RecordBatch], *, settings: Settings) -> Iterator[pa.RecordBatch]:
    """Accounts of all tasks as one row per candidate."""
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    made = [
        {
            "candidate": name,
            **{
                field: getattr(one, field)
                for field in ("queues", "accepted", "delivered", "digested", "packs")
            },
            "conserved": one.is_conserved,
            "account": msgspec.json.encode(one).decode(),
        }
        for name, one in _accounts(rows, settings).items()
    ]
    yield pa.RecordBatch.from_pylist(made, to_arrow_schema(BACKTEST))
