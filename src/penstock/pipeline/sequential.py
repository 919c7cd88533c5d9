"""Filters that depend on what was kept before: a fold over each queue's events in order.

A queue's events are gathered into one array, folded by Spark's `aggregate` into the places of those that
stay, and spread out again with their verdicts. Nothing is written for an event that goes, so a fold costs
least where a filter is of most use. Appending to one array would copy it for each event that stays; the fold
fills chunks instead, so that n of them cost n · CHUNK and not n².
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.model.instant import to_us
from penstock.pipeline.readings import nothing
from penstock.pipeline.verdicts import COMPILERS, PLACE, VERDICT, alive, quoted
from penstock.pipeline.windows import delta_since_event
from penstock.policy import filters

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.verdicts import Ground

CHUNK: Final = 256
"""Places in one chunk: 65,536 events that stay append as often to the list of chunks as to a chunk."""

_PLACES: Final = "array<int>"
VALUE: Final = "__value"
_TS: Final = "__ts"


def _folded(
    frame: DataFrame, ground: Ground, fold: Callable[[Column], Column], *, timed: bool
) -> tuple[DataFrame, Column]:
    """The frame with a column of verdicts about the events the step can read, null about the others.

    `fold` makes an array of rows, whose `__value` is null where the step cannot read it, into the places of
    those that stay; if `timed`, it finds their time as `__ts`.
    """
    rest = [name for name in ground.columns if name not in ground.queue.key]
    value = sf.when(alive(), ground.reading().number())
    row = sf.struct(
        PLACE,
        *map(quoted, rest),
        value.alias(VALUE),
        *([ground.queue.origin.ts.alias(_TS)] if timed else []),
    )
    key = [quoted(name) for name in ground.queue.key]
    queues = frame.groupBy(*key).agg(_in_order(row, ground).alias("__rows"))
    verdicts = _let(fold(sf.col("__rows")), lambda places: _absent(places, sf.size("__rows")))
    pairs = sf.arrays_zip(sf.col("__rows"), verdicts.alias(VERDICT))
    spread = queues.select(*key, sf.explode(pairs).alias("__pair"))
    back = sf.col("__pair").getField("__rows")
    return spread.select(
        *key,
        *(back.getField(name).alias(name) for name in (PLACE, *rest)),
        sf.when(back.getField(VALUE).isNotNull(), sf.col("__pair").getField(VERDICT)).alias(VERDICT),
    ), sf.col(VERDICT)


def _absent(places: Column, size: Column) -> Column:
    """For each of the places 1 … size whether it is not among the given ones, which ascend."""
    before = sf.array_repeat(sf.lit(True), sf.coalesce(sf.get(places, 0) - 1, size))
    following = sf.concat(sf.slice(places, sf.lit(2), sf.size(places)), sf.array(size + 1))
    gaps = sf.zip_with(
        sf.slice(places, sf.lit(1), sf.size(places)),
        sf.when(sf.size(places) > 0, following).otherwise(sf.array().cast(_PLACES)),
        lambda here, there: sf.concat(
            sf.array(sf.lit(False)), sf.array_repeat(sf.lit(True), there - here - 1)
        ),
    )
    return sf.concat(before, sf.flatten(gaps))


def _in_order(row: Column, ground: Ground) -> Column:
    """The rows of a group by place, which stands first in them."""
    rows = sf.collect_list(row)
    if ground.sortable:
        return sf.sort_array(rows)
    return sf.array_sort(rows, lambda a, b: (a.getField(PLACE) - b.getField(PLACE)).cast("int"))


def _nothing_yet() -> list[Column]:
    return [
        sf.array().cast(_PLACES).alias("chunk"),
        sf.array().cast(f"array<{_PLACES}>").alias("chunks"),
    ]


def _append(state: Column, place: Column) -> list[Column]:
    chunk, chunks = state.getField("chunk"), state.getField("chunks")
    full = sf.size(chunk) >= CHUNK
    return [
        sf.when(full, sf.array(place)).otherwise(sf.concat(chunk, sf.array(place))).alias("chunk"),
        sf.when(full, sf.concat(chunks, sf.array(chunk))).otherwise(chunks).alias("chunks"),
    ]


def _all(state: Column) -> Column:
    return sf.flatten(sf.concat(state.getField("chunks"), sf.array(state.getField("chunk"))))


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of a value that is computed once."""
    return sf.get(sf.transform(sf.array(value), body), 0)


def _delta(node: filters.Delta, ground: Ground, frame: DataFrame) -> tuple[DataFrame, Column]:
    if node.since == "event":
        return frame, delta_since_event(node, ground)
    return _folded(frame, ground, lambda rows: dead_band(rows, node), timed=node.max_silence is not None)


def dead_band(rows: Column, node: filters.Delta) -> Column:
    """The places of rows whose value differs by `change` or more from that of the last one that stayed."""
    timed = node.max_silence is not None
    zero = sf.struct(
        nothing("double").alias("value"), *([nothing("bigint").alias("ts")] if timed else []), *_nothing_yet()
    )

    def walk(state: Column, row: Column) -> Column:
        value, ts = row.getField(VALUE), row.getField(_TS)
        quiet = sf.abs(value - state.getField("value")) < float(node.change)
        if node.max_silence is not None:
            quiet &= ts - state.getField("ts") < to_us(node.max_silence)
        stays = sf.struct(
            value.alias("value"), *([ts.alias("ts")] if timed else []), *_append(state, row.getField(PLACE))
        )
        return sf.when(value.isNull() | quiet, state).otherwise(stays)

    return sf.aggregate(rows, zero, walk, _all)


def _swing(node: filters.Swing, ground: Ground, frame: DataFrame) -> tuple[DataFrame, Column]:
    return _folded(frame, ground, lambda rows: swinging_door(rows, node), timed=True)


def swinging_door(rows: Column, node: filters.Swing) -> Column:
    """The places of rows that no line the door lets through stands for; `policy.evaluate` has the rule.

    Whether a point stays is known when the next one comes, so the fold remembers the `last`, and the very
    last one stays.
    """
    point = "struct<ts:bigint,value:double>"
    wide = [sf.lit(float("-inf")).alias("low"), sf.lit(float("inf")).alias("high")]
    zero = sf.struct(
        nothing(point).alias("pivot"),
        nothing(point).alias("held"),
        *wide,
        nothing("int").alias("last"),
        *_nothing_yet(),
    )
    deviation = float(node.deviation)

    def walk(state: Column, row: Column) -> Column:
        here = sf.struct(row.getField(_TS).alias("ts"), row.getField(VALUE).alias("value"))
        pivot, held = state.getField("pivot"), state.getField("held")
        below, above = _slope(pivot, held, -deviation), _slope(pivot, held, deviation)
        low, high = state.getField("low"), state.getField("high")
        door = sf.struct(
            here.alias("here"),
            row.getField(PLACE).alias("place"),
            sf.when((below > low) & ~sf.isnan(below), below).otherwise(low).alias("low"),
            sf.when(above < high, above).otherwise(high).alias("high"),
            _slope(pivot, here, 0.0).alias("slope"),
        )
        moved = _let(
            door, lambda found: sf.when(_fits(state, found), _on(state, found)).otherwise(_turn(state, found))
        )
        return sf.when(row.getField(VALUE).isNull(), state).otherwise(moved)

    def _fits(state: Column, door: Column) -> Column:
        slope = door.getField("slope")
        later = door.getField("here").getField("ts") > state.getField("held").getField("ts")
        passes = (slope >= door.getField("low")) & (slope <= door.getField("high"))
        return later & passes & (sf.abs(slope) < float("inf"))

    def _on(state: Column, door: Column) -> Column:
        """The line goes on: the last point lies on it."""
        return sf.struct(
            state.getField("pivot").alias("pivot"),
            door.getField("here").alias("held"),
            door.getField("low").alias("low"),
            door.getField("high").alias("high"),
            door.getField("place").alias("last"),
            state.getField("chunk").alias("chunk"),
            state.getField("chunks").alias("chunks"),
        )

    def _turn(state: Column, door: Column) -> Column:
        """A new line begins at the last point, which stays."""
        here, last = door.getField("here"), state.getField("last")
        pivot = sf.coalesce(state.getField("held"), state.getField("pivot"))
        fresh = sf.coalesce(here.getField("ts") <= pivot.getField("ts"), sf.lit(True))
        longer = [
            sf.when(last.isNull(), state.getField(name)).otherwise(made).alias(name)
            for name, made in zip(("chunk", "chunks"), _append(state, last), strict=True)
        ]
        return sf.struct(
            sf.when(fresh, here).otherwise(pivot).alias("pivot"),
            sf.when(~fresh, here).alias("held"),
            *wide,
            door.getField("place").alias("last"),
            *longer,
        )

    return sf.aggregate(
        rows,
        zero,
        walk,
        lambda state: sf.concat(_all(state), sf.array_compact(sf.array(state.getField("last")))),
    )


def _slope(a: Column, b: Column, offset: float) -> Column:
    """Slope of the line from `a` to a later point `b` moved up by `offset`; null where there is none."""
    span = b.getField("ts") - a.getField("ts")
    return (b.getField("value") + sf.lit(offset) - a.getField("value")) / sf.when(
        span > 0, span.cast("double")
    )


COMPILERS[filters.Delta] = _delta
COMPILERS[filters.Swing] = _swing
