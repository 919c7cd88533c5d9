"""Profiles a recorded stream in one Spark job, as input for choosing filters.

The stream is split by time, queue by queue: the first part for learning, the rest for checking. Both parts
are cut into blocks of `capacity` events, because that is what a queue holds when it packs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.core.backtest.settings import as_written
from penstock.errors import InputError
from penstock.pipeline.compile.attach import attach
from penstock.pipeline.compile.events import known
from penstock.pipeline.compile.sources import ENVELOPE, Sources
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.jobs.backtest.replay import unpacked, written
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, WindowSpec

    from penstock.core.queues import Drain
    from penstock.model.values import Scalar
    from penstock.policy.predicates import Predicate

LEARNED: Final = 0.7
"""Share of each queue's events for learning."""
RANKS: Final = (*(rank / 20 for rank in range(1, 20)), 0.975, 0.99)
"""Ranks of the quantiles."""
COMMON: Final = 16
"""Most frequent values that are considered."""
_NEARLY: Final = 11
"""log2 of the registers of the sketch that counts distinct values: a standard error of 2 %, exact for small
counts.
"""
BLOCK: Final = "penstock_block"
LEARN: Final = "penstock_learn"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRequest:
    """Arguments of `advise`: what matters, and how much may be kept."""

    attributes: tuple[str, ...]
    budget: float
    """Share of the events that may be kept."""
    capacity: int
    """Events a queue holds when it packs."""
    key: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    """Columns that identify sources within a queue; default: sender and topic, if there are such columns."""
    columns: Mapping[str, str]
    """Columns by attribute, as for `pack`."""
    matters: tuple[Predicate, ...] = ()
    """Predicates that matter to the receiver; none: what lies outside the normal range."""
    drain: Drain | None = None
    """How fast a queue empties; None: so fast that the budget is needed."""

    def __post_init__(self) -> None:
        if not 0 < self.budget < 1:
            raise InputError(f"budget {self.budget:g}; a share between 0 and 1, as 0.3")
        if not self.attributes:
            raise InputError("no attribute given")

    def sources(self, frame: DataFrame) -> Sources:
        """Columns of the attributes."""
        return Sources(frame.schema, self.columns, PayloadFormat.AUTO)

    @property
    def queue(self) -> list[str]:
        """Columns that identify a block of a queue."""
        return [*self.key, BLOCK]


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of one attribute."""

    name: str
    numeric: bool
    values: tuple[float, ...]
    """Quantiles of the numbers at RANKS."""
    changes: tuple[float, ...]
    """Quantiles at RANKS of the distance from the previous value of the same source."""
    repeats: float
    """Share of events with the previous value of the same source."""
    common: tuple[tuple[Scalar, float], ...]
    """The most frequent values with their shares, descending; none for numbers."""
    doubt: str = ""
    """Why it may be a number after all."""


@dataclass(frozen=True, slots=True)
class StreamShape:
    """Figures of the stream as a whole."""

    events: int
    block: float
    """Mean number of events in a block."""
    sources: float
    """Mean number of sources in a queue."""
    by: dict[str, float]
    """Mean number of different values in a block, of columns that may identify sources."""
    queue: float
    """Mean number of events of a queue."""
    rate: float
    """Mean events per second of a queue."""
    queues: int
    begin_us: int
    end_us: int


def split(frame: DataFrame, asked: AdviceRequest) -> DataFrame:
    """The frame with parts and blocks, and a column of numbers for each attribute."""
    sources = asked.sources(frame)
    names = [*sources.schema.names]
    for name in (*asked.key, *asked.series):
        if sources.find(name) is None:
            there = ", ".join(names)
            raise InputError(f"there is no column '{name}' to make queues by; the columns are: {there}")
    reserved = next((name for name in names if name.startswith(("__", "penstock_"))), None)
    if reserved is not None:
        raise InputError(f"column '{reserved}': this prefix is reserved; rename the column")
    unpacked(sources)
    known(sources, [*asked.attributes, *(one.attribute for one in asked.matters)])
    queue = Window.partitionBy(*map(column, asked.key))
    order = [sources.ts(), sources.seq()]
    placed = frame.select(
        "*",
        (sf.row_number().over(queue.orderBy(*order)) - 1).alias("penstock_place"),
        sf.floor(LEARNED * sf.count(sf.lit(1)).over(queue)).alias("penstock_learned"),
    )
    learn = sf.col("penstock_place") < sf.col("penstock_learned")
    place = sf.when(learn, sf.col("penstock_place")).otherwise(
        sf.col("penstock_place") - sf.col("penstock_learned")
    )
    cut = placed.select(
        *map(column, names), learn.alias(LEARN), sf.floor(place / asked.capacity).cast("int").alias(BLOCK)
    )
    read, readings, _ = attach(cut, sources, [*names, LEARN, BLOCK], list(asked.attributes))
    values: list[Column] = []
    for number, name in enumerate(asked.attributes):
        found = readings[name]
        flag = sf.lit(None).cast("string") if found.flag is None else found.flag.cast("string")
        values += [
            found.number().alias(numbers(number)),
            sf.coalesce(found.texts(), flag).alias(words(number)),
            sf.lit(found.flag is not None and found.text is None).alias(f"penstock_flag{number}"),
        ]
    return read.select(*map(column, names), LEARN, BLOCK, *values)


def numbers(place: int) -> str:
    """The column of an attribute's numbers."""
    return f"penstock_number{place}"


def words(place: int) -> str:
    """The column of an attribute's texts and truth values."""
    return f"penstock_word{place}"


def look(parts: DataFrame, asked: AdviceRequest) -> tuple[StreamShape, StreamShape, list[Profile]]:
    """Shapes of both parts, and the profiles of the attributes in the part learned from."""
    by = _by(parts, asked)
    told = [_by_block(parts, asked, by), _by_queue(parts, asked), _by_event(parts, asked)]
    found: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), told)
    for row in together.collect():
        found[row[LEARN]] |= {name: value for name, value in row.asDict().items() if value is not None}
    if not all("events" in one for one in found.values()):
        raise InputError("too few events to learn from and to check against")
    learn = parts.where(sf.col(LEARN))
    profiles = [_profile(learn, found[True], name, place) for place, name in enumerate(asked.attributes)]
    return _shape(found[True], by), _shape(found[False], by), profiles


def _shape(found: Mapping[str, Any], by: Mapping[str, str]) -> StreamShape:
    return StreamShape(
        events=found["events"],
        block=found["block"],
        sources=found["sources"],
        by={name: found.get(f"by{place}", 0.0) for place, name in enumerate(by)},
        queue=found["queue"],
        rate=found.get("rate") or 1.0,
        queues=found["queues"],
        begin_us=found["begin_us"],
        end_us=found["end_us"],
    )


def _by_block(parts: DataFrame, asked: AdviceRequest, by: Mapping[str, str]) -> DataFrame:
    blocks = parts.groupBy(LEARN, *map(column, asked.queue)).agg(
        sf.count(sf.lit(1)).alias("events"),
        *(_different(column(name)).alias(f"by{place}") for place, (_, name) in enumerate(by.items())),
    )
    return blocks.groupBy(LEARN).agg(
        sf.sum("events").alias("events"),
        sf.avg("events").alias("block"),
        *(sf.avg(f"by{place}").alias(f"by{place}") for place in range(len(by))),
    )


def _different(found: Column) -> Column:
    """Approximate number of different values: for an exact count Spark copies the rows for each column."""
    sketch = sf.hll_sketch_agg(sf.when(found.isNotNull(), sf.xxhash64(found)), _NEARLY)
    return sf.coalesce(sf.hll_sketch_estimate(sketch), sf.lit(0))


def _by_queue(parts: DataFrame, asked: AdviceRequest) -> DataFrame:
    sources = asked.sources(parts)
    at = sources.ts()
    queues = parts.groupBy(LEARN, *map(column, asked.key)).agg(
        _different(_source(sources, asked)).alias("sources"),
        sf.count(sf.lit(1)).alias("queue"),
        sf.min(at).alias("begin_us"),
        sf.max(at).alias("end_us"),
    )
    rate = sf.try_divide(sf.col("queue") * sf.lit(1e6), sf.col("end_us") - sf.col("begin_us"))
    return queues.groupBy(LEARN).agg(
        sf.avg("sources").alias("sources"),
        sf.avg("queue").alias("queue"),
        sf.avg(rate).alias("rate"),
        sf.count(sf.lit(1)).alias("queues"),
        sf.min("begin_us").alias("begin_us"),
        sf.max("end_us").alias("end_us"),
    )


def _by(part: DataFrame, asked: AdviceRequest) -> dict[str, str]:
    """Columns that may identify sources, by the attribute under which a policy finds them."""
    names = {field.name: field.dataType for field in part.schema}
    found: dict[str, str] = {f"${name}": name for name in ("topic", "sender") if name in names}
    found |= {name: name for name in asked.series if name not in found.values()}
    taken = {*ENVELOPE, *asked.key, *asked.attributes, *asked.columns.values()}
    for name, kind in names.items():
        plain = isinstance(kind, st.StringType) and not name.startswith("penstock_")
        if plain and name not in taken and name.isidentifier():
            found[name] = name
    return found


def _source(sources: Sources, asked: AdviceRequest) -> Column:
    found = [column(name) for name in asked.series]
    if not found:
        there = [sources.envelope(name) for name in ("$sender", "$topic")]
        found = [one.column for one in there if one is not None]
    return sf.struct(*found) if found else sf.lit(0)


def _by_event(parts: DataFrame, asked: AdviceRequest) -> DataFrame:
    """Attributes of the part learned from."""
    sources = asked.sources(parts)
    before = (
        Window.partitionBy(*map(column, asked.key), _source(sources, asked))
        .orderBy(sources.ts(), sources.seq())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    changes: list[Column] = []
    sums: list[Column] = []
    for place in range(len(asked.attributes)):
        changes += _changes(place, before)
        sums += _sums(place)
    learn = parts.where(sf.col(LEARN)).select(*changes).agg(*sums)
    return learn.select(sf.lit(True).alias(LEARN), "*")


def _told(place: int) -> Column:
    return sf.coalesce(sf.col(numbers(place)).cast("string"), sf.col(words(place)))


def _changes(place: int, before: WindowSpec) -> list[Column]:
    """An attribute with its previous value; events without the attribute are skipped."""
    number, told = sf.col(numbers(place)), _told(place)
    own = sf.struct(number.alias("number"), told.alias("told"))
    last = sf.last(sf.when(told.isNotNull(), own), ignorenulls=True).over(before)
    repeat = sf.coalesce((told == last.getField("told")).cast("int"), sf.lit(0))
    return [
        number.alias(f"number{place}"),
        sf.abs(number - last.getField("number")).alias(f"change{place}"),
        sf.when(told.isNotNull(), repeat).alias(f"repeat{place}"),
        sf.col(f"penstock_flag{place}").alias(f"flag{place}"),
        sf.col(words(place)).alias(f"word{place}"),
    ]


def _sums(place: int) -> list[Column]:
    ranks = sf.array(*map(sf.lit, RANKS))
    as_number, other = written(sf.col(f"word{place}"))
    return [
        as_number.alias(f"written{place}"),
        other.alias(f"other{place}"),
        sf.count(f"repeat{place}").alias(f"n{place}"),
        sf.count(f"number{place}").alias(f"numbers{place}"),
        sf.avg(f"repeat{place}").alias(f"repeats{place}"),
        sf.percentile_approx(f"number{place}", ranks, 1_000).alias(f"values{place}"),
        sf.percentile_approx(f"change{place}", ranks, 1_000).alias(f"changes{place}"),
        sf.bool_or(f"flag{place}").alias(f"flag{place}"),
    ]


def _profile(part: DataFrame, found: Mapping[str, Any], name: str, place: int) -> Profile:
    n = found.get(f"n{place}")
    if not n:
        raise InputError(f"attribute '{name}': no event has it")
    numeric = found[f"numbers{place}"] * 2 > n
    common = [] if numeric else _common(part, sf.col(words(place)), flag=found[f"flag{place}"])
    return Profile(
        name,
        numeric,
        tuple(found.get(f"values{place}", ())),
        tuple(found.get(f"changes{place}", ())),
        found[f"repeats{place}"],
        tuple((value, count / n) for value, count in common),
        "" if numeric else as_written(found[f"written{place}"], found.get(f"other{place}")),
    )


def _common(part: DataFrame, word: Column, *, flag: bool) -> list[tuple[Scalar, int]]:
    counted = part.groupBy(word.alias("word")).count().where("word is not null")
    rows = counted.orderBy(sf.desc("count"), "word").limit(COMMON).collect()
    return [(row["word"] == "true" if flag else row["word"], row["count"]) for row in rows]
