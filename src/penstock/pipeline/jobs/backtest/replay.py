"""`backtest`: replays every queue of a recorded stream under each candidate, queues in parallel.

    frame ──by queue, in order of time──► tasks: the queue cores, one per candidate ──► accounts, added up

A task processes its queues one after the other and reads Arrow batches as they come. It holds the waiting
events of one queue (at most `capacity` for each candidate) and some integers for each event of it: 8 bytes ×
(2 + attributes measured + 2 × candidates). Only accounts travel back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import force_setattr
from pyspark.sql import functions as sf

from penstock import limits
from penstock.core.queues import (
    BoundedQueue,
    Drain,
    DropNewestQueue,
    DropOldestQueue,
    Ladder,
    PackingQueue,
    Predictive,
    QueueOptions,
    Replay,
)
from penstock.errors import InputError, PolicyError
from penstock.pipeline import session
from penstock.pipeline.compile.events import EVENT, as_events, events_of, known
from penstock.pipeline.compile.fates import read_by
from penstock.pipeline.compile.sources import Sources, attach
from penstock.pipeline.compile.typed_columns import either
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.jobs.backtest.account import Account, account, from_json
from penstock.policy import filters
from penstock.policy.columns import Plan
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from penstock.core.queues import Controller
    from penstock.pipeline.compile.typed_columns import TypedColumns
    from penstock.policy.nodes import Policy


class Controllers(Enum):
    """Which controller chooses the level of a pack."""

    LADDER = "ladder"
    PREDICTIVE = "predictive"

    def make(self) -> Controller:
        """A new controller for one queue."""
        return Ladder() if self is Controllers.LADDER else Predictive()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run the queues."""

    name: str
    policy: Policy | None = None
    drops: type[BoundedQueue] | None = None
    """A queue without a policy; like a plain broker it sends no digests."""

    def plan(self) -> Plan | None:
        """The compiled policy, for all queues."""
        return None if self.drops else Plan(self.policy)

    def queue(self, plan: Plan | None, settings: Settings) -> BoundedQueue:
        """An empty queue."""
        options = QueueOptions(capacity_events=settings.capacity, capacity_bytes=settings.capacity_bytes)
        if self.drops is not None:
            return self.drops(options)
        return PackingQueue(plan, options, settings.controller.make())


BASELINES: Final = (
    Candidate("drop-newest", drops=DropNewestQueue),
    Candidate("drop-oldest", drops=DropOldestQueue),
)
"""The two behaviours of brokers: drop arriving events when full (drop-tail), or the oldest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a replay."""

    candidates: tuple[Candidate, ...]
    capacity: int
    """Items a queue may hold."""
    drain: Drain
    key: tuple[str, ...] = ()
    """Columns that identify a queue; none: all events are one queue."""
    series: tuple[str, ...] = ()
    """Columns that identify a source of values within a queue; default: sender and topic."""
    measured: tuple[str, ...] = ()
    """Attributes whose error is measured."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Columns by attribute, as for `pack`."""
    controller: Controllers = Controllers.LADDER
    capacity_bytes: int = limits.QUEUE_BYTES

    def __post_init__(self) -> None:
        QueueOptions(capacity_events=self.capacity, capacity_bytes=self.capacity_bytes)  # raises QueueError
        if not self.candidates:
            raise InputError("nothing to compare; give a policy")
        names = [candidate.name for candidate in self.candidates]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"duplicate candidate name '{twice[0]}'; give the policies different names")

    @property
    def payload(self) -> PayloadFormat:
        """Payload format on which the policies agree."""
        formats = {one.policy.payload for one in self.candidates if one.policy is not None}
        if len(formats) > 1:
            names = ", ".join(sorted(found.value for found in formats))
            raise PolicyError(
                f"the policies read payloads differently: {names}; run them apart", path="payload"
            )
        return formats.pop() if formats else PayloadFormat.AUTO

    def wanted(self) -> list[str]:
        """Attributes that policies read."""
        policies = [one.policy for one in self.candidates if one.policy is not None]
        return list(dict.fromkeys(name for policy in policies for name in read_by(policy)))

    def counted(self) -> dict[str, str]:
        """Attributes that must be numbers, each with a filter that needs it."""
        return {
            policy.path_of(placed.step).text: placed.step.filter.name
            for policy in (one.policy for one in self.candidates)
            if policy is not None
            for placed in policy.steps(policy.highest)
            if _counts(placed.step.filter)
        }


def _counts(node: filters.Filter) -> bool:
    """Whether a filter reads numbers only."""
    if isinstance(node, filters.Within):
        return not isinstance(node.low, str)
    return isinstance(node, filters.Delta | filters.Swing)


@dataclass(frozen=True, slots=True)
class RecordedStream:
    """Figures of a recorded stream."""

    events: int
    queues: int
    begin_us: int
    end_us: int

    @property
    def span_s(self) -> float:
        """From the first event to the last."""
        return (self.end_us - self.begin_us) / 1e6


@dataclass(frozen=True, slots=True)
class Backtest:
    """Result of a backtest."""

    stream: RecordedStream
    accounts: dict[str, Account]
    """By candidate, in their order."""
    silent: frozenset[str] = frozenset()
    """Candidates that send no digests of dropped events."""


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
_RESULT: Final = "candidate int, account binary"


def _check(sources: Sources, settings: Settings) -> None:
    there = ", ".join(sources.schema.names)
    for name in (*settings.key, *settings.series):
        if sources.find(name) is None:
            near = get_close_matches(name, sources.schema.names, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise InputError(f"there is no column '{name}' to make queues by{hint}; the columns are: {there}")
    unpacked(sources)
    reserved = [name for name in sources.schema.names if name.startswith("__")]
    if reserved:
        raise InputError(f"column '{reserved[0]}': names with two underscores are reserved; rename it")


def unpacked(sources: Sources) -> None:
    """Refuse a stream that contains digests of any form."""
    found = sources.envelope("$digest")
    if found is not None:
        raise InputError(
            f"column '{found.name}': a stream with digests in it is packed already; take the original"
        )


def _stream(frame: DataFrame, sources: Sources, settings: Settings) -> RecordedStream:
    """Figures of the stream; refuses an attribute that no event has, which is a mistake."""
    wanted = list(dict.fromkeys((*settings.wanted(), *settings.measured)))
    known(sources, wanted)
    timed = frame.select("*", sources.ts().alias(_TS), _queue(settings).alias(_QUEUE))
    read, readings, _ = attach(timed, sources, [_TS, _QUEUE], wanted)
    parts = [either(part.isNotNull() for part in readings[name].parts().values()) for name in wanted]
    counted = settings.counted()
    found = read.agg(
        sf.count(sf.lit(1)).alias("events"),
        sf.approx_count_distinct(_QUEUE, 0.02).alias("queues"),
        sf.min(_TS).alias("begin_us"),
        sf.max(_TS).alias("end_us"),
        *(sf.count_if(part).alias(f"__some{place}") for place, part in enumerate(parts)),
        *(sf.count(readings[name].number()).alias(f"__numbers{place}") for place, name in enumerate(counted)),
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
    return RecordedStream(found["events"], found["queues"], found["begin_us"], found["end_us"])


def _written(read: DataFrame, reading: TypedColumns) -> str:
    """Why a column of numbers is one of texts."""
    found = read.agg(*written(reading.texts())).first()
    said = "" if found is None else as_written(found[0], found[1])
    return said and f"; {said}"


def written(text: Column) -> tuple[Column, Column]:
    """Number of texts that are numbers, and one that is not: one word in a CSV file makes the column text."""
    number = text.try_cast("double")
    return sf.count(number), sf.min(sf.when(number.isNull(), text))


def as_written(numbers: int, other: str | None) -> str:
    """Sentence about texts that are numbers; empty if there are none."""
    but = "" if other is None else f", but not {other[:80]!r}"
    return f"{numbers:,} of the values are numbers written as texts{but}" if numbers else ""


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
    run: _Run | None = None
    for batch in batches:
        for name, part in _parts(batch):
            if run is None or run.name != name:
                if run is not None:
                    run.settle(totals, stream)
                own = range(len(plans)) if lanes == 1 else range(name[1], name[1] + 1)
                run = _Run(name, {number: plans[number] for number in own}, settings)
            run.feed(part, numbered=numbered)
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


class _Run:
    """One queue under some of the candidates."""

    def __init__(self, name: tuple[str, int], plans: Mapping[int, Plan | None], settings: Settings) -> None:
        self.name = name
        self._settings = settings
        self._replays: dict[int, Replay] = {}
        for number, plan in plans.items():
            candidate = settings.candidates[number]
            queue = candidate.queue(plan, settings)
            self._replays[number] = Replay(queue, settings.drain, digests_on_wire=candidate.drops is None)
        self._events = 0
        self._series: list[Any] = []
        self._values: list[list[Any]] = [[] for _ in settings.measured]

    def feed(self, part: pa.RecordBatch, *, numbered: bool) -> None:
        """Offer the next events; events without sequence numbers are numbered as they come."""
        events = [event for event in events_of(part.column(EVENT)) if event is not None]
        if not numbered:
            for place, event in enumerate(events, start=self._events):
                force_setattr(event, "seq", place)
        self._events += len(events)
        self._series.append(part.column(_SERIES).to_numpy())
        for place, found in enumerate(self._values):
            found.append(part.column(_measure(place)).to_numpy())
        for replay in self._replays.values():
            offer = replay.offer
            for event in events:
                offer(event)

    def settle(self, totals: dict[int, Account], stream: RecordedStream) -> None:
        """The queue is complete: add it to the accounts."""
        series = np.concatenate(self._series)
        values = {
            name: np.concatenate(found)
            for name, found in zip(self._settings.measured, self._values, strict=True)
        }
        for number, replay in self._replays.items():
            found = account(
                replay.finish(),
                queue=self.name[0],
                values=values,
                series=series,
                begin_us=stream.begin_us,
                end_us=stream.end_us,
            )
            totals[number] = totals[number].merge(found) if number in totals else found
