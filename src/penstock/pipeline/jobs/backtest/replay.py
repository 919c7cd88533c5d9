"""`backtest`: replays every queue of a recorded stream under each candidate, queues in parallel.

    frame ──by queue, in order of time──► tasks: the queue cores, one per candidate ──► accounts, added up

A task processes its queues one after the other and reads Arrow batches as they come. It holds the waiting
events of one queue (at most `capacity` for each candidate) and some integers for each event of it: 8 bytes ×
(2 + attributes measured + 2 × candidates). Only accounts travel back.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

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
from penstock.pipeline.compile.events import EVENT, as_events, events_of, known
from penstock.pipeline.compile.sources import Sources, attach
from penstock.pipeline.compile.typed_columns import either
from penstock.pipeline.compile.verdicts import column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame

    from penstock.core.backtest.settings import Settings
    from penstock.pipeline.compile.typed_columns import TypedColumns


def backtest(frame: DataFrame, settings: Settings) -> Backtest:
    """Replay every queue of a frame whose column `ts` is the time of events."""
    sources = Sources(frame.schema, settings.attributes, settings.payload)
    _check(sources, settings)
    return replay(frame, settings, _stream(frame, sources, settings))


def replay(frame: DataFrame, settings: Settings, stream: RecordedStream) -> Backtest:
    """`backtest` of a frame whose figures are known."""
    sources = Sources(frame.schema, settings.attributes, settings.payload)
    replayed = _replayed(_prepared(frame, sources, settings), sources, settings, stream)
    found: dict[int, list[Account]] = {number: [] for number in range(len(settings.candidates))}
    for row in replayed.collect():
        found[row["candidate"]].append(from_json(bytes(row["account"])))
    accounts = {
        candidate.name: reduce(Account.merge, found[number])
        for number, candidate in enumerate(settings.candidates)
    }
    queues = next(iter(accounts.values())).queues
    silent = frozenset(one.name for one in settings.candidates if one.drops is not None)
    return Backtest(replace(stream, queues=queues), accounts, silent)


# -- the frame -----------------------------------------------------------------------------------------------

TASKS_PER_CORE: Final = 4
"""Tasks per core, so that cores finish together although queues differ in length."""
_QUEUE: Final = "__queue"
_SERIES: Final = "__series"
_LANE: Final = "__lane"
_TS: Final = "__ts"
_ACCURACY: Final = 1_000_000
"""Accuracy of the quartiles: exact up to a million numbers, to a millionth of them beyond."""
_RESULT: Final = "candidate int, account binary"


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


def _stream(frame: DataFrame, sources: Sources, settings: Settings) -> RecordedStream:
    """Figures of the stream; refuses an attribute that no event has, which is a mistake."""
    wanted = list(dict.fromkeys((*settings.wanted(), *settings.measured)))
    known(sources, wanted)
    timed = frame.select("*", sources.ts().alias(_TS), _queue(settings).alias(_QUEUE))
    read, readings, _ = attach(timed, sources, [_TS, _QUEUE], wanted)
    parts = [either(part.isNotNull() for part in readings[name].parts().values()) for name in wanted]
    counted = settings.counted()
    ranks = sf.array(*map(sf.lit, QUARTILES))
    measured = [_finite(readings[name]) for name in settings.measured]
    found = read.agg(
        sf.count(sf.lit(1)).alias("events"),
        sf.approx_count_distinct(_QUEUE, 0.02).alias("queues"),
        sf.min(_TS).alias("begin_us"),
        sf.max(_TS).alias("end_us"),
        *(sf.count_if(part).alias(f"__some{place}") for place, part in enumerate(parts)),
        *(sf.count(readings[name].number()).alias(f"__numbers{place}") for place, name in enumerate(counted)),
        *(
            sf.percentile_approx(number, ranks, _ACCURACY).alias(f"__quartiles{place}")
            for place, number in enumerate(measured)
        ),
    ).first()
    assert found is not None
    if not found["events"]:
        raise InputError("there is no event to replay")
    for place, name in enumerate(wanted):
        if not found[f"__some{place}"]:
            raise InputError(f"attribute '{name}': none of {found['events']:,} events has it")
    for place, (name, filter_name) in enumerate(counted.items()):
        if not found[f"__numbers{place}"]:
            raise InputError(
                f"attribute '{name}': in none of {found['events']:,} events is it a number, which the filter "
                f"'{filter_name}' needs{_written(read, readings[name])}"
            )
    normal = {
        name: normal_range(*found[f"__quartiles{place}"])
        for place, name in enumerate(settings.measured)
        if found[f"__quartiles{place}"] is not None
    }
    return RecordedStream(found["events"], found["queues"], found["begin_us"], found["end_us"], normal)


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
        as_events(settings.wanted(), attributes=settings.attributes, payload=settings.payload)
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


def _replayed(prepared: DataFrame, sources: Sources, settings: Settings, stream: RecordedStream) -> DataFrame:
    cores = session.cores(prepared.sparkSession)
    # Candidates of one queue share a task, and so the decoding, unless that leaves cores idle.
    lanes = len(settings.candidates) if stream.queues < 2 * cores else 1
    lane = sf.explode(sf.sequence(sf.lit(0), sf.lit(lanes - 1))) if lanes > 1 else sf.lit(0)
    laned = prepared.select("*", lane.alias(_LANE))
    if settings.key:
        parted = laned.repartition(TASKS_PER_CORE * cores, _QUEUE, _LANE)
    else:
        parted = laned.repartitionById(lanes, sf.col(_LANE))
    inside = [sf.col(EVENT).getField(name) for name in ("ts_us", "seq", "sender", "topic", "payload")]
    ordered = parted.sortWithinPartitions(_QUEUE, _LANE, *inside)
    numbered = sources.envelope("$seq") is not None
    work = partial(_work, settings=settings, stream=stream, lanes=lanes, numbered=numbered)
    return ordered.mapInArrow(work, _RESULT)


# -- on the worker -------------------------------------------------------------------------------------------


def _work(
    batches: Iterable[pa.RecordBatch],
    *,
    settings: Settings,
    stream: RecordedStream,
    lanes: int,
    numbered: bool,
) -> Iterator[pa.RecordBatch]:
    """Replay all queues of a task, which come one after the other, each in order of time."""
    plans = [candidate.plan() for candidate in settings.candidates]
    totals: dict[int, Account] = {}
    run: QueueRun | None = None
    place: tuple[str, int] | None = None
    for batch in batches:
        for name, part in _parts(batch):
            if run is None or place != name:
                if run is not None:
                    run.settle(totals, stream)
                own = range(len(plans)) if lanes == 1 else range(name[1], name[1] + 1)
                run = QueueRun(name[0], {number: plans[number] for number in own}, settings)
                place = name
            values = [part.column(_measure(number)).to_numpy() for number in range(len(settings.measured))]
            events = [event for event in events_of(part.column(EVENT)) if event is not None]
            run.feed(events, part.column(_SERIES).to_numpy(), values, numbered=numbered)
    if run is not None:
        run.settle(totals, stream)
    encoded = [msgspec.json.encode(found) for found in totals.values()]
    columns = [pa.array(list(totals), pa.int32()), pa.array(encoded, pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, names=["candidate", "account"])


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """A batch cut where another queue, or another lane, begins."""
    queues = batch.column(_QUEUE).dictionary_encode()
    names, numbers = queues.dictionary.to_pylist(), queues.indices.to_numpy()
    lanes = batch.column(_LANE).to_numpy()
    cuts = np.flatnonzero((np.diff(numbers) != 0) | (np.diff(lanes) != 0)) + 1
    starts = [0, *cuts.tolist()] if len(numbers) else []
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        yield (names[numbers[start]], int(lanes[start])), batch.slice(start, end - start)
