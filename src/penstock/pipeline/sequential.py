"""Filters that depend on what was kept before: a fold over each queue's events in order.

The events that a filter can read are gathered into one array per queue, folded by Spark's `aggregate` into
an array of verdicts, and spread out again. Appending to one array would copy it for each event; the fold
fills chunks instead, so that a queue of n events costs n · CHUNK and not n².
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.model.instant import to_us
from penstock.pipeline.readings import nothing
from penstock.pipeline.verdicts import COMPILERS, PLACE, TS, VERDICT, alive, column
from penstock.pipeline.windows import delta_since_event
from penstock.policy import filters

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.verdicts import Ground

CHUNK: Final = 256
"""Verdicts in one chunk: a queue of 65,536 events appends as often to the list of chunks as to a chunk."""

_VERDICTS: Final = "array<boolean>"
_VALUE: Final = "__value"


def _folded(frame: DataFrame, ground: Ground, fold: Callable[[Column], Column]) -> tuple[DataFrame, Column]:
    """The frame with a column of verdicts about the events the step can read, null about the others."""
    rest = [name for name in ground.columns if name not in ground.queue.key]
    value = ground.reading().number()
    member = alive() & value.isNotNull()
    row = sf.struct(PLACE, *map(column, rest), value.alias(_VALUE))
    key = [column(name) for name in ground.queue.key]
    queues = frame.groupBy(*key, member.alias("__member")).agg(_in_order(row, ground).alias("__rows"))
    others = sf.array_repeat(nothing("boolean"), sf.size("__rows"))
    verdicts = sf.when(sf.col("__member"), fold(sf.col("__rows"))).otherwise(others)
    pairs = sf.arrays_zip(sf.col("__rows"), verdicts.alias(VERDICT))
    spread = queues.select(*key, sf.explode(pairs).alias("__pair"))
    back = sf.col("__pair").getField("__rows")
    return spread.select(
        *key,
        *(back.getField(name).alias(name) for name in (PLACE, *rest)),
        sf.col("__pair").getField(VERDICT).alias(VERDICT),
    ), sf.col(VERDICT)


def _in_order(row: Column, ground: Ground) -> Column:
    """The rows of a group by place, which stands first in them."""
    rows = sf.collect_list(row)
    if ground.sortable:
        return sf.sort_array(rows)
    return sf.array_sort(rows, lambda a, b: (a.getField(PLACE) - b.getField(PLACE)).cast("int"))


def _nothing_yet() -> list[Column]:
    return [
        sf.array().cast(_VERDICTS).alias("chunk"),
        sf.array().cast(f"array<{_VERDICTS}>").alias("chunks"),
    ]


def _append(state: Column, verdict: Column) -> list[Column]:
    chunk, chunks = state.getField("chunk"), state.getField("chunks")
    full = sf.size(chunk) >= CHUNK
    return [
        sf.when(full, sf.array(verdict)).otherwise(sf.concat(chunk, sf.array(verdict))).alias("chunk"),
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
    return _folded(frame, ground, lambda rows: dead_band(rows, node))


def dead_band(rows: Column, node: filters.Delta) -> Column:
    """For each row whether its value changed by less than `change` since the last one that did not."""
    zero = sf.struct(nothing("double").alias("value"), nothing("bigint").alias("ts"), *_nothing_yet())

    def walk(state: Column, row: Column) -> Column:
        quiet = sf.abs(row.getField(_VALUE) - state.getField("value")) < float(node.change)
        if node.max_silence is not None:
            quiet &= row.getField(TS) - state.getField("ts") < to_us(node.max_silence)
        return _let(sf.coalesce(quiet, sf.lit(False)), lambda still: _after(state, row, still))

    def _after(state: Column, row: Column, still: Column) -> Column:
        return sf.struct(
            sf.when(still, state.getField("value")).otherwise(row.getField(_VALUE)).alias("value"),
            sf.when(still, state.getField("ts")).otherwise(row.getField(TS)).alias("ts"),
            *_append(state, still),
        )

    return sf.aggregate(rows, zero, walk, _all)


def _swing(node: filters.Swing, ground: Ground, frame: DataFrame) -> tuple[DataFrame, Column]:
    return _folded(frame, ground, lambda rows: swinging_door(rows, node))


def swinging_door(rows: Column, node: filters.Swing) -> Column:
    """For each row whether it lies on a line that the door lets through; `policy.evaluate` has the rule.

    A point's verdict is known when the next point comes. So the fold's verdicts begin with one about nobody,
    and the last point stays.
    """
    point = "struct<ts:bigint,value:double>"
    wide = [sf.lit(float("-inf")).alias("low"), sf.lit(float("inf")).alias("high")]
    zero = sf.struct(nothing(point).alias("pivot"), nothing(point).alias("held"), *wide, *_nothing_yet())
    deviation = float(node.deviation)

    def walk(state: Column, row: Column) -> Column:
        here = sf.struct(row.getField(TS).alias("ts"), row.getField(_VALUE).alias("value"))
        pivot, held = state.getField("pivot"), state.getField("held")
        below, above = _slope(pivot, held, -deviation), _slope(pivot, held, deviation)
        low, high = state.getField("low"), state.getField("high")
        door = sf.struct(
            here.alias("here"),
            sf.when((below > low) & ~sf.isnan(below), below).otherwise(low).alias("low"),
            sf.when(above < high, above).otherwise(high).alias("high"),
            _slope(pivot, here, 0.0).alias("slope"),
        )
        return _let(door, lambda found: _let(_fits(state, found), lambda fits: _turn(state, found, fits)))

    def _fits(state: Column, door: Column) -> Column:
        slope = door.getField("slope")
        later = door.getField("here").getField("ts") > state.getField("held").getField("ts")
        passes = (slope >= door.getField("low")) & (slope <= door.getField("high"))
        return sf.coalesce(later & passes & (sf.abs(slope) < float("inf")), sf.lit(False))

    def _turn(state: Column, door: Column, fits: Column) -> Column:
        here = door.getField("here")
        pivot = sf.coalesce(state.getField("held"), state.getField("pivot"))
        fresh = sf.coalesce(here.getField("ts") <= pivot.getField("ts"), sf.lit(True))
        return sf.struct(
            sf.when(fits, state.getField("pivot")).when(fresh, here).otherwise(pivot).alias("pivot"),
            sf.when(fits | ~fresh, here).alias("held"),
            sf.when(fits, door.getField("low")).otherwise(wide[0]).alias("low"),
            sf.when(fits, door.getField("high")).otherwise(wide[1]).alias("high"),
            *_append(state, fits),
        )

    shifted = sf.aggregate(rows, zero, walk, _all)
    return sf.concat(sf.slice(shifted, sf.lit(2), sf.size(rows)), sf.array(sf.lit(False)))


def _slope(a: Column, b: Column, offset: float) -> Column:
    """Slope of the line from `a` to a later point `b` moved up by `offset`; null where there is none."""
    span = b.getField("ts") - a.getField("ts")
    return (b.getField("value") + sf.lit(offset) - a.getField("value")) / sf.when(
        span > 0, span.cast("double")
    )


COMPILERS[filters.Delta] = _delta
COMPILERS[filters.Swing] = _swing
