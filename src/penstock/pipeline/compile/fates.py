"""Computes for each event the step of a policy that drops it, without removing rows.

A step decides about the events still alive, the next step about the rest. Urgent events are sorted ahead of
the others and have a fate of their own, so that no step looks at them. Rows are put together only at the end
(`transforms`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError, PolicyError
from penstock.pipeline.compile import predicates, sequential, windows
from penstock.pipeline.compile.attach import attach
from penstock.pipeline.compile.queue_columns import TIE, QueueColumns, sortable, with_columns
from penstock.pipeline.compile.sources import Attributes, Sources
from penstock.pipeline.compile.typed_columns import either
from penstock.pipeline.compile.verdicts import (
    AHEAD,
    COMPILERS,
    DIGEST_ROW,
    FATE,
    LEVEL,
    PLACE,
    URGENT_ROW,
    Ground,
    Origin,
    Standing,
    column,
    quoted,
)
from penstock.pipeline.tables.schemas import SOUND
from penstock.policy import filters
from penstock.policy.columns.plan import reads_numbers
from penstock.policy.digesters import NUMERIC
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat, read_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from penstock.pipeline.compile.typed_columns import TypedColumns
    from penstock.policy.nodes import Placed, Policy

_FILTERS = (predicates, windows, sequential)
"""Modules that register their filters in COMPILERS."""

_SORTING = (filters.Guniq, filters.LatestBy, filters.Throttle, filters.Top)
"""Filters that always sort or group rows by something other than queue order; `_sorts` adds further cases."""

Now: TypeAlias = int | datetime | Column | None
"""Packing time: microseconds, an instant, a column of microseconds, or None for the time of the query."""


@dataclass(frozen=True, slots=True)
class Fated:
    """A frame whose events have their fates."""

    frame: DataFrame
    sources: Sources
    readings: dict[str, TypedColumns]
    steps: tuple[Placed, ...]
    """Steps in order; a fate is an index into these."""
    queue: Standing
    runs: bool
    """Whether rows already have their RUN."""


@dataclass(frozen=True, slots=True)
class TransformArguments:
    """Arguments of the transforms."""

    policy: Policy
    columns: QueueColumns
    level: int | str | Column
    now: Now
    sources: Sources
    parted: bool = False
    """Whether the rows of a queue are in one partition already."""

    def __post_init__(self) -> None:
        if isinstance(self.level, int) and not 0 <= self.level <= self.policy.highest:
            raise PolicyError(
                f"level {self.level}; the policy has levels 0 … {self.policy.highest}", path="level"
            )
        _check(self, self.sources)

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that name a queue."""
        return self.columns.key

    def steps(self) -> tuple[Placed, ...]:
        """The steps that may apply."""
        level = self.level if isinstance(self.level, int) else self.policy.highest
        return tuple(self.policy.steps(level))

    def level_column(self) -> Column:
        """The level of each row."""
        if isinstance(self.level, int):
            return sf.lit(self.level)
        found = column(self.level) if isinstance(self.level, str) else self.level
        return sf.coalesce(found.cast("int"), sf.lit(0))

    def uneven(self, one: Column, other: Column) -> Column:
        """Expression that raises an error because a queue has two levels."""
        name = f"column '{self.level}'" if isinstance(self.level, str) else "level"
        return sf.raise_error(
            sf.format_string(
                f"{name}: the rows of queue %s have the levels %d and %d; a queue has one",
                self.shown(),
                one,
                other,
            )
        )

    def shown(self) -> Column:
        """Key of a row, for messages."""
        return sf.to_json(sf.struct(*map(column, self.key)))

    def now_us(self) -> Column:
        """Packing time in microseconds."""
        if isinstance(self.now, Column):
            return self.now.cast("bigint")
        if isinstance(self.now, datetime):
            return sf.unix_micros(sf.lit(self.now))
        return sf.unix_micros(sf.current_timestamp()) if self.now is None else sf.lit(self.now)

    def read(self) -> Iterator[str]:
        """Attributes that steps and digesters read."""
        return read_by(self.policy, self.steps())

    def numbers(self) -> set[str]:
        """Those of them that are read as numbers only."""
        others: set[str] = set()
        for placed in self.steps():
            node = placed.step.filter
            by = getattr(node, "by", None)
            if not reads_numbers(node):
                others |= {by} if by else {self.policy.path_of(placed.step).text} if node.reads else set()
        asked = self.policy.asked()
        others |= {one for one, names in asked.items() if not {*names} <= {*NUMERIC, "count"}}
        return {*self.read()} - others


def arguments(
    policy: Policy,
    columns: QueueColumns,
    *,
    level: int | str | Column,
    now: Now,
    attributes: Attributes | None,
    parted: bool = False,
) -> TransformArguments:
    """Arguments of a transform, checked.

    User properties travel as an array: a map can be neither sorted nor grouped by, which costs a sort.
    """
    columns = columns.with_entries((attributes or {}).get("$properties", "properties"))
    sources = Sources(columns.schema, dict(attributes or {}), policy.payload)
    return TransformArguments(policy, columns, level, now, sources, parted)


def decided(frame: DataFrame, question: TransformArguments, *, together: bool) -> Fated:
    """The frame with fates and readings.

    `together`: shuffle and sort the rows of each queue first. Windows would do so too, but only after our own
    columns are made, which would then be shuffled and sorted with the rest.
    """
    policy, steps = question.policy, question.steps()
    together = together or any(sequential.folds(placed.step.filter) for placed in steps)
    sources = question.sources
    frame = _ahead(question.columns.of(frame), question)
    frame, queue, kept = _in_queues(frame, question, together=together)
    wanted = list(dict.fromkeys(question.read()))
    frame, readings, columns = attach(frame, sources, kept, wanted, numbers=question.numbers(), in_place=True)
    now_us, comparable, runs = question.now_us(), sortable(sources.schema), False
    for number, placed in enumerate(steps):
        folds = sequential.folds(placed.step.filter)
        if not comparable if folds else _sorts(placed.step.filter, queue):
            frame, queue = _numbered(frame, queue)
        closes = placed is steps[-1] and placed.step.verb is Verb.DROP and isinstance(question.level, int)
        ground = Ground(policy, placed.step, queue, readings, now_us, columns, comparable, closes)
        frame, verdict = COMPILERS[type(placed.step.filter)](placed.step.filter, ground, frame)
        if folds:
            queue, runs = replace(queue, order=(PLACE,)), closes
        drop = _unwanted(ground, verdict)
        if not isinstance(question.level, int):
            drop &= sf.col(LEVEL) >= placed.cause.level
        frame = _taken(frame, drop, number)
    return Fated(frame, sources, readings, steps, queue, runs)


def _sorts(node: filters.Filter, queue: Standing) -> bool:
    """Whether a filter leaves rows in another order than queue order."""
    if isinstance(node, filters.Latest):
        return not queue.by_time
    return isinstance(node, _SORTING)


def _numbered(frame: DataFrame, queue: Standing) -> tuple[DataFrame, Standing]:
    """The frame with places, by which queue order is restored."""
    if queue.placed:
        return frame, queue
    return frame.select("*", queue.place().alias(PLACE)), replace(queue, order=(PLACE,))


def _check(question: TransformArguments, sources: Sources) -> None:
    _check_level(question, sources)
    draws = any(isinstance(placed.step.filter, filters.Random) for placed in question.steps())
    if draws and sources.envelope("$seq") is None:
        raise sources.missing("$seq", "seq")
    binary = question.policy.payload in (PayloadFormat.MSGPACK, PayloadFormat.CBOR)
    payload = sources.envelope("$payload")
    if binary and payload is not None and isinstance(payload.kind, st.StringType | st.BinaryType):
        raise PolicyError(
            f"Spark cannot read {question.policy.payload.value} payloads; give their attributes as columns",
            path="payload",
        )


def _check_level(question: TransformArguments, sources: Sources) -> None:
    if not isinstance(question.level, str):
        return
    found = sources.find(question.level)
    if found is None:
        there = ", ".join(sources.schema.names)
        raise InputError(f"there is no column '{question.level}' of levels; the columns are: {there}")
    if not isinstance(found.kind, st.IntegralType):
        raise InputError(
            f"column '{found.name}' is {found.kind.simpleString()}, expected whole numbers: levels"
        )


def _ahead(frame: DataFrame, question: TransformArguments) -> DataFrame:
    """The frame with AHEAD, if the policy has urgent events: they are to be sorted by it.

    An event that a predicate cannot read is not urgent; nor is a digest.
    """
    policy, sources = question.policy, question.sources
    if not policy.urgent:
        return frame
    names = [*sources.schema.names, *(name for name in question.columns.order if name.startswith("__"))]
    wanted = list(dict.fromkeys(policy.path_of(step).text for step in policy.urgent))
    frame, readings, columns = attach(frame, sources, names, wanted)
    nobody = Standing(question.key, (), False, Origin(sources.ts(), sources.seq(), sources.sender()))
    tests = []
    for step in policy.urgent:
        ground = Ground(policy, step, nobody, readings, question.now_us(), columns, False, False)
        frame, verdict = COMPILERS[type(step.filter)](step.filter, ground, frame)
        tests.append(sf.coalesce(verdict, sf.lit(False)))
    digest = sources.digest()
    urgent = either(tests) if digest is None else digest.isNull() & either(tests)
    return frame.select(*map(column, names), sf.when(urgent, sf.lit(0)).otherwise(sf.lit(1)).alias(AHEAD))


def _in_queues(
    frame: DataFrame, question: TransformArguments, *, together: bool
) -> tuple[DataFrame, Standing, list[str]]:
    """Each row with tie, fate and level; how rows are sorted; and the columns to keep."""
    sources, columns = question.sources, question.columns
    digest = sources.digest()
    is_digest = sf.lit(False) if digest is None else digest.isNotNull()
    own = [name for name in columns.order if name.startswith("__")]
    order = (*columns.order, TIE)
    said = sf.raise_error(sf.lit(f"column '{sources.needed('$ts').name}': an event has no time, it is null"))
    ts = sf.coalesce(sources.ts(), sf.when(~is_digest, said.cast("bigint")))
    fate = sf.when(is_digest, sf.lit(DIGEST_ROW) if digest is None else _sound(digest, question, sources))
    ahead = (AHEAD,) if question.policy.urgent else ()
    if ahead:
        fate = fate.when(sf.col(AHEAD) == 0, sf.lit(URGENT_ROW))
    made = {FATE: fate, LEVEL: question.level_column()}
    by_time = columns.order[0] == sources.needed("$ts").name
    origin = Origin(ts, sources.seq(), sources.sender())
    queue = Standing(question.key, (*ahead, *order), by_time, origin)
    if together and not question.parted:
        frame = frame.repartition(*map(quoted, queue.key))
    frame = frame.select("*", columns.tie().alias(TIE))  # behind the shuffle, which need not carry it
    if together:
        frame = frame.sortWithinPartitions(*map(quoted, (*queue.key, *queue.order)))
    frame = frame.select("*", *(found.alias(name) for name, found in made.items()))
    return frame, queue, [*sources.schema.names, *own, *ahead, TIE, *made]


def _sound(digest: Column, question: TransformArguments, sources: Sources) -> Column:
    """Fate of a digest, or an error if it is damaged."""
    sound = (
        (digest.getField("count") >= 1)
        & (digest.getField("from_us") <= digest.getField("to_us"))
        & (digest.getField("seq_first") <= digest.getField("seq_last"))
        & digest.getField("causes").isNotNull()
        & digest.getField("attributes").isNotNull()
    )
    said = sf.concat(
        sf.lit(f"column '{sources.needed('$digest').name}': a damaged digest in queue "),
        question.shown(),
        sf.lit(f": {SOUND}"),
    )
    return sf.when(sound, sf.lit(DIGEST_ROW)).otherwise(sf.raise_error(said).cast("int"))


def _unwanted(ground: Ground, verdict: Column) -> Column:
    """Whether the step drops an event; never null."""
    unwanted = verdict if ground.step.verb is Verb.DROP else ~verdict
    return sf.coalesce(unwanted, sf.lit(ground.policy.missing_of(ground.step) is Missing.DROP))


def _taken(frame: DataFrame, drop: Column, number: int) -> DataFrame:
    """The frame after a step. A fold's verdict stays; dropping a column asks Connect for all of them."""
    fate = sf.coalesce(sf.col(FATE), sf.when(drop, sf.lit(number)))
    return with_columns(frame, {FATE: fate}, instead=True)
