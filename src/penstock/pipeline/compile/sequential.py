"""Filters that depend on the events kept before, compiled to a fold over each queue's events in order.

A queue's events are gathered into one array, folded by Spark's `aggregate` into the places of those kept, and
exploded again, each row with the place of the last one kept. Nothing is written for a dropped event, so a
fold is cheapest where a filter drops most. Spark copies the whole state of a fold with every step: so rows
are folded block by block, and within a block only its own places are in the state. n rows that are all kept
cost the copying of n · BLOCK + n² / BLOCK places instead of n².

Spark interprets lambdas, and a projection or a generator around them too: rows are made into structs before
the fold, and taken apart after it, in separate steps, which Spark compiles. The fold sees places and values
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.model.instant import to_us
from penstock.pipeline.compile.typed_columns import nothing
from penstock.pipeline.compile.verdicts import COMPILERS, PLACE, RUN, VERDICT, alive, quoted
from penstock.pipeline.compile.windows import delta_since_event
from penstock.policy import filters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.compile.verdicts import Ground

BLOCK: Final = 256
"""Rows of a block: copying blocks costs as much as the work inside them only at 65,536 blocks."""

_PLACES: Final = "array<int>"
VALUE: Final = "__value"
_TS: Final = "__ts"
_STAYS: Final = "__stays"
"""Whether an event without a value is alive and is kept."""


def folds(node: filters.Filter) -> bool:
    """Whether a filter is a fold: rows have their PLACE after it."""
    return isinstance(node, filters.Swing) or (isinstance(node, filters.Delta) and node.since != "event")


def _folded(
    frame: DataFrame, ground: Ground, fold: Callable[[Column], Column], *, timed: bool
) -> tuple[DataFrame, Column]:
    """The frame with places, and verdicts about the events the step can read, null about the others.

    `fold` turns an array of structs, whose `__value` is null where unreadable, into the places of those kept;
    if `timed`, they have their time as `__ts`. A run is named by the place of its kept row, 0 before the
    first.
    """
    made = {VALUE: sf.when(alive(), ground.reading().number())}
    if timed:
        made[_TS] = ground.queue.origin.ts
    if ground.lists_unread:
        made[_STAYS] = alive()
    key = [quoted(name) for name in ground.queue.key]
    every = dict.fromkeys((*ground.queue.order, *ground.columns))
    names = [name for name in every if name not in ground.queue.key]
    row = sf.struct(*map(quoted, names), *(found.alias(name) for name, found in made.items()))
    rows = frame.select(*key, row.alias("__row")).groupBy(*key).agg(_in_order(ground).alias("__rows"))
    # Pairs, because an array beside each row would be copied for each row where Spark does not compile.
    pairs = sf.arrays_zip(sf.col("__rows"), sf.col("__runs"))
    spread = _with_runs(rows, key, fold, list(made)).select(
        *key, sf.posexplode(pairs).alias("__at", "__pair")
    )
    place, pair = sf.col("__at") + 1, sf.col("__pair")
    back, run = pair.getField("__rows"), pair.getField("__runs")
    return spread.select(
        *key,
        place.alias(PLACE),
        *(back.getField(name).alias(name) for name in names if name != PLACE),
        *([run.alias(RUN)] if ground.closes else []),
        sf.when(back.getField(VALUE).isNotNull(), run != place).alias(VERDICT),
    ), sf.col(VERDICT)


def _in_order(ground: Ground) -> Column:
    """Rows of a queue sorted by its order columns, which are the first fields."""
    rows = sf.collect_list("__row")
    if ground.sortable:
        return sf.sort_array(rows)
    return sf.array_sort(rows, lambda a, b: (a.getField(PLACE) - b.getField(PLACE)).cast("int"))


def _with_runs(
    queues: DataFrame, key: list[str], fold: Callable[[Column], Column], wanted: list[str]
) -> DataFrame:
    """Gathered queues with `__runs`: for each row the place of the last one kept."""
    rows, slim = sf.col("__rows"), sf.col("__slim")
    places = sf.sequence(sf.lit(1), sf.size(rows)).alias(PLACE)
    parts = [rows.getField(name).alias(name) for name in wanted]
    slimmed = queues.select(*key, "__rows", sf.arrays_zip(places, *parts).alias("__slim"))
    runs = _let(fold(slim), lambda stayed: _last_stayed(stayed, sf.size(slim)))
    return slimmed.select(*key, "__rows", runs.alias("__runs"))


def _last_stayed(stayed: Column, size: Column) -> Column:
    """For each place 1 … size the last of some ascending places up to it; 0 if none."""
    until = sf.concat(sf.slice(stayed, sf.lit(2), sf.size(stayed)), sf.array(size + 1))
    runs = sf.zip_with(
        stayed,
        sf.when(sf.size(stayed) > 0, until).otherwise(sf.array().cast(_PLACES)),
        lambda here, there: sf.array_repeat(here, there - here),
    )
    return sf.concat(sf.array_repeat(sf.lit(0), sf.coalesce(sf.get(stayed, 0) - 1, size)), sf.flatten(runs))


def _in_blocks(
    rows: Column,
    zero: Mapping[str, Column],
    walk: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column],
) -> Column:
    """Return what `finish` makes of the state behind all rows: the fields of `zero`, and `blocks` of places.

    For `walk` a state has the fields of `zero` and the `places` of its block.
    """
    begins = sf.sequence(sf.lit(1), sf.greatest(sf.size(rows), sf.lit(1)), sf.lit(BLOCK))

    def block(done: Column, begin: Column) -> Column:
        fresh = sf.struct(*_same(done, zero), sf.array().cast(_PLACES).alias("places"))
        folded = sf.aggregate(sf.slice(rows, begin, sf.lit(BLOCK)), fresh, walk)
        return _let(folded, lambda state: _joined(done, state))

    def _joined(done: Column, state: Column) -> Column:
        blocks = sf.concat(done.getField("blocks"), sf.array(state.getField("places")))
        return sf.struct(*_same(state, zero), blocks.alias("blocks"))

    fields = (found.alias(name) for name, found in zero.items())
    nothing_yet = sf.array().cast(f"array<{_PLACES}>").alias("blocks")
    return sf.aggregate(begins, sf.struct(*fields, nothing_yet), block, finish)


def _same(state: Column, names: Iterable[str]) -> list[Column]:
    return [state.getField(name).alias(name) for name in names]


def _append(state: Column, place: Column) -> Column:
    return sf.concat(state.getField("places"), sf.array(place)).alias("places")


def _all(state: Column) -> Column:
    return sf.flatten(state.getField("blocks"))


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of a value that is computed once."""
    return sf.get(sf.transform(sf.array(value), body), 0)


def _delta(node: filters.Delta, ground: Ground, frame: DataFrame) -> tuple[DataFrame, Column]:
    if not folds(node):
        return frame, delta_since_event(node, ground)
    timed = node.max_silence is not None
    return _folded(frame, ground, lambda rows: dead_band(rows, node, unread=ground.lists_unread), timed=timed)


def dead_band(rows: Column, node: filters.Delta, *, unread: bool = False) -> Column:
    """Places of rows whose value differs by `change` or more from that of the last one kept.

    `unread`: also of rows without a value whose `__stays` is set.
    """
    timed = node.max_silence is not None
    zero = {"value": nothing("double")} | ({"ts": nothing("bigint")} if timed else {})

    def walk(state: Column, row: Column) -> Column:
        value, ts = row.getField(VALUE), row.getField(_TS)
        quiet = sf.abs(value - state.getField("value")) < float(node.change)
        if node.max_silence is not None:
            quiet &= ts - state.getField("ts") < to_us(node.max_silence)
        stays = sf.struct(
            value.alias("value"), *([ts.alias("ts")] if timed else []), _append(state, row.getField(PLACE))
        )
        if not unread:
            return sf.when(value.isNull() | quiet, state).otherwise(stays)
        listed = sf.struct(*_same(state, zero), _append(state, row.getField(PLACE)))
        return (
            sf.when(quiet | (value.isNull() & ~row.getField(_STAYS)), state)
            .when(value.isNull(), listed)
            .otherwise(stays)
        )

    return _in_blocks(rows, zero, walk, _all)


def _swing(node: filters.Swing, ground: Ground, frame: DataFrame) -> tuple[DataFrame, Column]:
    return _folded(
        frame, ground, lambda rows: swinging_door(rows, node, unread=ground.lists_unread), timed=True
    )


def swinging_door(rows: Column, node: filters.Swing, *, unread: bool) -> Column:
    """Places of rows kept by the swinging door, as `policy.verdicts` defines it.

    Whether a point is kept is known when the next one comes, so the fold remembers the `last`, and the very
    last one is kept. `unread` as in `dead_band`.
    """
    point = "struct<ts:bigint,value:double>"
    wide = {"low": sf.lit(float("-inf")), "high": sf.lit(float("inf"))}
    zero = {"pivot": nothing(point), "held": nothing(point), **wide, "last": nothing("int")}
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
        if not unread:
            return sf.when(row.getField(VALUE).isNull(), state).otherwise(moved)
        listed = sf.struct(*_same(state, zero), _append(state, row.getField(PLACE)))
        return (
            sf.when(row.getField(VALUE).isNotNull(), moved)
            .when(row.getField(_STAYS), listed)
            .otherwise(state)
        )

    def _fits(state: Column, door: Column) -> Column:
        slope = door.getField("slope")
        later = door.getField("here").getField("ts") > state.getField("held").getField("ts")
        passes = (slope >= door.getField("low")) & (slope <= door.getField("high"))
        return later & passes & (sf.abs(slope) < float("inf"))

    def _on(state: Column, door: Column) -> Column:
        """The line continues: the last point lies on it."""
        return sf.struct(
            state.getField("pivot").alias("pivot"),
            door.getField("here").alias("held"),
            door.getField("low").alias("low"),
            door.getField("high").alias("high"),
            door.getField("place").alias("last"),
            state.getField("places").alias("places"),
        )

    def _turn(state: Column, door: Column) -> Column:
        """A new line begins at the last point, which is kept."""
        here, last = door.getField("here"), state.getField("last")
        pivot = sf.coalesce(state.getField("held"), state.getField("pivot"))
        fresh = sf.coalesce(here.getField("ts") <= pivot.getField("ts"), sf.lit(True))
        longer = sf.when(last.isNull(), state.getField("places")).otherwise(_append(state, last))
        return sf.struct(
            sf.when(fresh, here).otherwise(pivot).alias("pivot"),
            sf.when(~fresh, here).alias("held"),
            *(found.alias(name) for name, found in wide.items()),
            door.getField("place").alias("last"),
            longer.alias("places"),
        )

    def places(state: Column) -> Column:
        found = sf.concat(_all(state), sf.array_compact(sf.array(state.getField("last"))))
        return sf.sort_array(found) if unread else found  # an unreadable event is listed before the `last`

    return _in_blocks(rows, zero, walk, places)


def _slope(a: Column, b: Column, offset: float) -> Column:
    """Slope of the line from `a` to a later point `b` moved up by `offset`; null if undefined."""
    span = b.getField("ts") - a.getField("ts")
    return (b.getField("value") + sf.lit(offset) - a.getField("value")) / sf.when(
        span > 0, span.cast("double")
    )


COMPILERS[filters.Delta] = _delta
COMPILERS[filters.Swing] = _swing
