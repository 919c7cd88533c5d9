"""`pack` and `effect`: a policy as a transform of a frame of queues.

`pack` returns the packed queues, `effect` counts what each filter does, in one pass.

Spark groups by a hash table only if the aggregates have a fixed width; otherwise it sorts all rows. A kept
event is a group of its own, so its columns can be grouping keys of any width. But grouping alters some values
(−0.0 becomes 0.0, maps are sorted), and variants cannot be grouped by: fractional numbers are aggregated
instead, structs taken apart. Maps, variants and arrays of fractions cost the sort.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.pipeline.compile import digests
from penstock.pipeline.compile.fates import TransformArguments, arguments, decided
from penstock.pipeline.compile.queue_columns import queue_columns, with_columns
from penstock.pipeline.compile.sources import is_plain_text
from penstock.pipeline.compile.verdicts import (
    DIGEST_ROW,
    FATE,
    LEVEL,
    PLACE,
    RUN,
    URGENT_ROW,
    alive,
    column,
    literal,
    quoted,
)
from penstock.pipeline.tables.schemas import EFFECT, EVENTS
from penstock.policy.lint import unpaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.compile.fates import Fated, Now
    from penstock.pipeline.compile.queue_columns import Columns
    from penstock.pipeline.compile.sources import Attributes
    from penstock.policy.nodes import Placed, Policy

_INSTEAD: Final = "`pack_stream` with a `drain` keeps the time, `backtest` shows what it does"
_EXACT: Final = (
    st.IntegralType,
    st.DecimalType,
    st.BooleanType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)
"""Types whose values a grouping does not alter."""


@dataclass(slots=True)
class Carried:
    """Passes columns through the grouping and restores them behind it."""

    kept: str
    """Column that is true for kept events."""
    restored: Callable[[str, Column], Column]
    """Gives a column the form in which it came."""
    keys: list[Column] = field(default_factory=list)
    """Grouping keys besides those that make a kept event a group of its own."""
    aggregates: list[Column] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    """Restored columns; null where the group is not a kept event."""

    def add(self, names: Sequence[str], schema: st.StructType) -> None:
        """Pass these columns of a frame through the grouping."""
        for name in names:
            made = self._carry(quoted(name), schema[name].dataType)
            self.columns.append(self.restored(name, sf.expr(made)).alias(name))

    def _carry(self, found: str, kind: st.DataType) -> str:
        """Pass an SQL expression through the grouping; returns the SQL that restores it."""
        if is_exact(kind):
            return self._named(sf.expr(f"if({self.kept}, {found}, null)"), self.keys)
        if isinstance(kind, st.StructType):
            there = self._named(sf.expr(f"if({self.kept}, {found} is not null, null)"), self.keys)
            parts = [
                f"{literal(part.name)}, {self._carry(f'{found}.{quoted(part.name)}', part.dataType)}"
                for part in kind
            ]
            return f"if({there}, named_struct({', '.join(parts)}), null)"
        return self._named(sf.expr(f"first(if({self.kept}, {found}, null))"), self.aggregates)

    def _named(self, made: Column, to: list[Column]) -> str:
        name = f"__c{len(self.keys) + len(self.aggregates)}"
        to.append(made.alias(name))
        return name


def is_exact(kind: st.DataType) -> bool:
    """Whether Spark can group by values of a type without altering them."""
    if isinstance(kind, st.StructType):
        return all(is_exact(part.dataType) for part in kind)
    if isinstance(kind, st.ArrayType):
        return is_exact(kind.elementType)
    return isinstance(kind, _EXACT) or is_plain_text(kind)


def pack(
    policy: Policy,
    *,
    key: Columns,
    order: Columns,
    level: int | str | Column,
    schema: st.StructType = EVENTS,
    now: Now = None,
    attributes: Attributes | None = None,
    parted: bool = False,
) -> Callable[[DataFrame], DataFrame]:
    """Make a transform that packs every queue of a frame at a level.

        packed = events.transform(pack(policy, key="topic", order=["ts", "seq"], level=2))
        packed = frame.transform(pack(policy, key="patient", order="ts", level=2, schema=frame.schema))

    A queue is the rows with equal values in the columns `key`, in the order of the columns `order`: names,
    columns, or lists of them. Rows equal in these are ordered by a hash of all their columns. `schema` is
    that of the frame, unless it has events as nodes record them: the transform asks the frame for nothing, so
    it can be used inside a declarative pipeline. `level` may be a column (or its name) that is equal in all
    rows of a queue. Rows whose `digest` is set are digests, and are merged where they are. Urgent events
    come first, whatever the level, and no filter sees them.

    The result has one row per kept event or digest: the key, `place` (ascending in queue order), `kind`
    ('event' or 'digest'), the columns of the event (null in a digest), and `digest` (null in an event).

    Nothing waits in a frame, so the policy's `fresh` has no effect; a warning says so.

    `now` is the time of the pack, for filters that look at an event's age; `attributes` says in which columns
    attributes are that are not in the column of their name. Raises InputError if a column is missing.

    `parted` says that the rows of a queue are in one partition already, as after `repartition` by the key or
    by some of its columns, or in a bucketed table: they are sorted, and not shuffled again. Where Spark does
    not know of it, it shuffles them all the same.
    """
    columns = queue_columns(key, order, schema)
    question = arguments(policy, columns, level=level, now=now, attributes=attributes, parted=parted)
    idle = unpaced(policy, reason="`pack` packs at the level it is given", instead=_INSTEAD)
    if idle is not None:
        warnings.warn(idle, stacklevel=2)
    return lambda frame: _packed(frame, question)


def _packed(frame: DataFrame, question: TransformArguments) -> DataFrame:
    """Each kept event is a group of its own, and so is each run of dropped events."""
    fated = decided(frame, question, together=True)
    name = question.sources.attributes.get("$digest", "digest")
    events = [found for found in fated.sources.schema.names if found not in (*question.key, name)]
    asked = question.policy.asked()
    given = fated.sources.digest()
    carried = Carried("__alone", question.columns.restored)
    carried.add(events, fated.sources.schema)
    event = None if given is None else ~sf.col(FATE).eqNullSafe(DIGEST_ROW)
    parts = [
        sf.min(_checked_place(question)).alias("place"),
        *carried.aggregates,
        *digests.aggregates(fated.steps, asked, fated.readings, fated.queue.origin, event=event),
    ]
    if given is not None:
        parts.append(sf.collect_list(given).alias("__given"))
    key = map(quoted, fated.queue.key)
    grouped = _in_runs(fated, question).groupBy(*key, RUN, "__alone", *carried.keys).agg(*parts)
    summed = grouped.select("*", _digest(fated, asked, merges=given is not None).alias("__digest"))
    kind = sf.when(sf.col("__digest").isNull(), sf.lit("event")).otherwise(sf.lit("digest"))
    return summed.select(
        *map(quoted, question.key),
        "place",
        kind.alias("kind"),
        *carried.columns,
        sf.col("__digest").alias("digest"),
    )


def _in_runs(fated: Fated, question: TransformArguments) -> DataFrame:
    """Each row with its place and the number of its run: a kept row and the dropped ones behind it."""
    alone = alive() if isinstance(question.level, int) and question.level else alive() | (sf.col(LEVEL) <= 0)
    urgent = sf.col(FATE).eqNullSafe(URGENT_ROW) if question.policy.urgent else None
    if urgent is not None:
        alone |= urgent
    flagged = fated.frame.select("*", alone.alias("__alone"))
    if fated.runs:  # named by the kept rows that a fold has seen: it sees no urgent ones
        if urgent is None:
            return flagged
        run = sf.when(urgent, -sf.col(PLACE)).otherwise(sf.col(RUN))
        return with_columns(flagged, {RUN: run}, instead=True)
    run = sf.sum(sf.col("__alone").cast("int")).over(fated.queue.up_to_here())
    more = [] if fated.queue.placed else [fated.queue.place().alias(PLACE)]
    if not isinstance(question.level, int):
        more.append(sf.lag(LEVEL).over(fated.queue.in_order()).alias("__level_before"))
    return flagged.select("*", run.alias(RUN), *more)


def _checked_place(question: TransformArguments) -> Column:
    """Place of a row, or an error if its level differs from that of the row before."""
    if isinstance(question.level, int):
        return sf.col(PLACE)
    before, own = sf.col("__level_before"), sf.col(LEVEL)
    return sf.when(before != own, question.uneven(before, own).cast("int")).otherwise(sf.col(PLACE))


def _digest(fated: Fated, asked: dict[str, tuple[str, ...]], *, merges: bool) -> Column:
    """Digest of a group, made from events and given digests; null for a kept event."""
    made = sf.when(~sf.col("__alone") & (sf.col("__count") > 0), digests.run_digest(fated.steps, asked))
    if not merges:
        return made
    return digests.merged(sf.concat(sf.col("__given"), sf.array_compact(sf.array(made))))


def effect(
    policy: Policy,
    *,
    key: Columns,
    order: Columns,
    level: int | str | Column | None = None,
    schema: st.StructType = EVENTS,
    now: Now = None,
    attributes: Attributes | None = None,
    by: str | Sequence[str] = (),
) -> Callable[[DataFrame], DataFrame]:
    """Make a transform that counts, for each level and filter, the events it sees and drops.

        events.transform(effect(policy, key="topic", order="ts")).show()

    The arguments are those of `pack`; `level` is the highest if omitted. The counts, columns of EFFECT, are
    over all queues, or for each value of the key columns named in `by`.
    """
    highest = policy.highest if level is None else level
    columns = queue_columns(key, order, schema)
    question = arguments(policy, columns, level=highest, now=now, attributes=attributes)
    groups = (by,) if isinstance(by, str) else tuple(by)
    return lambda frame: _effects(frame, question, groups)


def _effects(frame: DataFrame, question: TransformArguments, by: tuple[str, ...]) -> DataFrame:
    fated = decided(frame, question, together=False)
    counts: list[Column] = []
    for number, placed in enumerate(fated.steps):
        reached = sf.col(FATE).isNull() | (sf.col(FATE) >= number)
        applies = sf.col(LEVEL) >= placed.cause.level
        counts.append(sf.count_if(reached & applies).alias(f"__seen{number}"))
        counts.append(
            sf.count_if(sf.coalesce(sf.col(FATE) == number, sf.lit(False))).alias(f"__dropped{number}")
        )
    groups = [column(name) for name in by]
    counted = _in_all(fated.frame, question, groups, counts)
    rows = sf.array(*(_row(number, placed) for number, placed in enumerate(fated.steps)))
    return counted.select(*groups, sf.inline(rows)).select(*groups, *(sf.col(field.name) for field in EFFECT))


def _in_all(
    frame: DataFrame, question: TransformArguments, groups: list[Column], counts: list[Column]
) -> DataFrame:
    """Counts over all queues.

    If levels are a column, by queue first, to check that each queue has one level.
    """
    if isinstance(question.level, int):
        return frame.groupBy(*groups).agg(*counts)
    least, most = sf.min(LEVEL).alias("__least"), sf.max(LEVEL).alias("__most")
    queues = frame.groupBy(*map(column, question.key)).agg(*counts, least, most)
    uneven = question.uneven(sf.col("__least"), sf.col("__most")).cast("bigint")

    def summed(name: str) -> Column:
        one = sf.when(sf.col("__least") != sf.col("__most"), uneven).otherwise(sf.col(name))
        return sf.coalesce(sf.sum(one), sf.lit(0)).alias(name)

    numbers = range(len(question.steps()))
    names = [f"__{kind}{number}" for number in numbers for kind in ("seen", "dropped")]
    return queues.groupBy(*groups).agg(*map(summed, names))


def _row(number: int, placed: Placed) -> Column:
    seen, dropped = sf.col(f"__seen{number}"), sf.col(f"__dropped{number}")
    return sf.struct(
        sf.lit(placed.cause.level).alias("level"),
        sf.lit(placed.cause.position).alias("position"),
        sf.lit(placed.cause.filter).alias("filter"),
        seen.alias("seen"),
        dropped.alias("dropped"),
        sf.try_divide(dropped.cast("double"), seen.cast("double")).alias("ratio"),
    )
