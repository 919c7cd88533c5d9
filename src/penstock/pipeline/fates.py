"""Every event's fate: which step of a policy takes it, computed without removing a row.

Each row gets its place in its queue and a fate. A step decides about the events still alive, the next one
about what it left; rows are put together only at the end (`digests`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import Column, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError, PolicyError
from penstock.pipeline import predicates, sequential, windows
from penstock.pipeline.sources import Attributes, Sources, attach, sortable
from penstock.pipeline.verdicts import (
    COMPILERS,
    DIGEST_ROW,
    FATE,
    INTERNAL,
    LEVEL,
    PLACE,
    SENDER,
    SEQ,
    TS,
    VERDICT,
    Ground,
    column,
)
from penstock.policy import filters
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from penstock.pipeline.readings import Reading
    from penstock.policy.nodes import Placed, Policy

_FILTERS = (predicates, windows, sequential)
"""Modules that put their filters into COMPILERS."""

Now: TypeAlias = int | datetime | Column | None
"""Packing time: microseconds, an instant, a column of microseconds, or the time of the query."""


@dataclass(frozen=True, slots=True)
class Fated:
    """A frame whose events have met their fates."""

    frame: DataFrame
    sources: Sources
    readings: dict[str, Reading]
    steps: tuple[Placed, ...]
    """In order; a fate is a place in here."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a frame: the arguments of the transforms."""

    policy: Policy
    key: tuple[str, ...]
    order: tuple[str, ...]
    level: int | str | Column
    now: Now
    attributes: Attributes

    def __post_init__(self) -> None:
        if not self.key or not self.order:
            raise PolicyError("a queue needs columns that name it (key) and columns that order it (order)")
        if isinstance(self.level, int) and not 0 <= self.level <= self.policy.highest:
            raise PolicyError(
                f"level {self.level}; the policy has levels 0 … {self.policy.highest}", path="level"
            )

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

    def now_us(self) -> Column:
        """Packing time in microseconds."""
        if isinstance(self.now, Column):
            return self.now.cast("bigint")
        if isinstance(self.now, datetime):
            return sf.unix_micros(sf.lit(self.now))
        return sf.unix_micros(sf.current_timestamp()) if self.now is None else sf.lit(self.now)

    def read(self) -> Iterator[str]:
        """The attributes that steps and digesters look at."""
        return read_by(self.policy, self.steps())


def read_by(policy: Policy, steps: Iterable[Placed] | None = None) -> Iterator[str]:
    """The attributes that some steps of a policy, or all, and its digesters look at."""
    for placed in policy.steps(policy.highest) if steps is None else steps:
        step = placed.step
        by = getattr(step.filter, "by", None)
        if by is not None:
            yield by
        elif step.filter.reads:
            yield policy.path_of(step).text
    yield from policy.asked()


def decided(frame: DataFrame, question: Question) -> Fated:
    """The frame with place, fate and readings."""
    policy = question.policy
    sources = Sources(frame.schema, question.attributes, policy.payload)
    _check(question, sources)
    frame_columns = sources.schema.names
    frame = _in_queues(frame, question, sources)
    wanted = list(dict.fromkeys(question.read()))
    frame, readings, columns = attach(frame, sources, [*frame_columns, *INTERNAL], wanted)
    now_us, comparable = question.now_us(), sortable(sources.schema)
    for number, placed in enumerate(question.steps()):
        ground = Ground(policy, placed.step, question.key, readings, now_us, columns, comparable)
        frame, verdict = COMPILERS[type(placed.step.filter)](placed.step.filter, ground, frame)
        drop = _unwanted(ground, verdict)
        if not isinstance(question.level, int):
            drop &= sf.col(LEVEL) >= placed.cause.level
        frame = _taken(frame, drop, number)
    return Fated(frame, sources, readings, question.steps())


def _check(question: Question, sources: Sources) -> None:
    names = sources.schema.names
    for name in (*question.key, *question.order):
        if sources.find(name) is None:
            there = ", ".join(names)
            raise InputError(f"there is no column '{name}' to make queues by; the columns are: {there}")
    reserved = [name for name in names if name.startswith("__") or name in ("place", "kind")]
    if reserved:
        raise InputError(f"column '{reserved[0]}': this name is used by the packed frame; rename the column")
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


def _in_queues(frame: DataFrame, question: Question, sources: Sources) -> DataFrame:
    """Each row with its place, its time, its number and its sender; digests are not alive.

    Rows that `order` does not tell apart are ordered by their other columns, ascending, in the order of the
    frame: the same rows have the same places, however they were distributed.
    """
    digest = sources.digest()
    is_digest = sf.lit(False) if digest is None else digest.isNotNull()
    others = [name for name in sources.schema.names if name not in (*question.key, *question.order)]
    ties = [_comparable(column(name), sources.schema[name].dataType) for name in others]
    window = Window.partitionBy(*map(column, question.key)).orderBy(*map(column, question.order), *ties)
    said = sf.raise_error(sf.lit("an event has no time: its column `ts` is null")).cast("bigint")
    ts = sf.coalesce(sources.ts(), sf.when(~is_digest, said))
    return frame.select(
        "*",
        sf.row_number().over(window).alias(PLACE),
        sf.when(is_digest, sf.lit(DIGEST_ROW)).alias(FATE),
        question.level_column().alias(LEVEL),
        ts.alias(TS),
        sources.seq().alias(SEQ),
        sources.sender().alias(SENDER),
    )


def _comparable(found: Column, kind: st.DataType) -> Column:
    """A column that can be sorted by; maps and variants by their text."""
    if sortable(kind):
        return found
    return sf.to_json(sf.struct(found.alias("it")))


def _unwanted(ground: Ground, verdict: Column) -> Column:
    """Whether the step drops an event; never null."""
    unwanted = verdict if ground.step.verb is Verb.DROP else ~verdict
    return sf.coalesce(unwanted, sf.lit(ground.policy.missing_of(ground.step) is Missing.DROP))


def _taken(frame: DataFrame, drop: Column, number: int) -> DataFrame:
    """The frame after a step; what the step needed for itself is left behind."""
    fate = sf.coalesce(sf.col(FATE), sf.when(drop, sf.lit(number)))
    return frame.withColumn(FATE, fate).drop(VERDICT)
