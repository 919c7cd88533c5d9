"""Filters that need other events of the queue, compiled to window functions over the events still alive.

Dropped events stay in the frame, so a window counts only rows that are `alive()`. Windows in queue order
share one sort, however many steps use them; windows by rank or by group need another sort, as do windows by
event time if that is not the order of the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.model.instant import to_us
from penstock.pipeline.compile.verdicts import PLACE, Ground, alive, by_columns
from penstock.policy import filters

if TYPE_CHECKING:
    from pyspark.sql import Column, WindowSpec


def _count(condition: Column, window: WindowSpec) -> Column:
    return sf.sum(condition.cast("bigint")).over(window)


def _edge(node: filters.First | filters.Last, ground: Ground, *, last: bool) -> Column:
    """True for the event at one end of those in scope; events out of scope are kept."""
    reading = ground.reading()
    key = reading.identity()
    scope = key.isNotNull() if node.values is None else reading.one_of(node.values)
    so_far = _count(alive() & scope, ground.queue.up_to_here())
    end = _count(alive() & scope, ground.queue.whole()) if last else sf.lit(1)
    inside = sf.when(scope, so_far == end).otherwise(ground.stays)
    return sf.when(key.isNotNull(), inside)


@by_columns(filters.First)
def first_verdict(node: filters.First, ground: Ground) -> Column:
    return _edge(node, ground, last=False)


@by_columns(filters.Last)
def last_verdict(node: filters.Last, ground: Ground) -> Column:
    return _edge(node, ground, last=True)


def previous(ground: Ground, value: Column, readable: Column) -> Column:
    """Value of the readable event before this one."""
    return sf.last(sf.when(alive() & readable, value), ignorenulls=True).over(ground.queue.before())


@by_columns(filters.Uniq)
def uniq_verdict(_: filters.Uniq, ground: Ground) -> Column:
    key = ground.reading().identity()
    same = sf.coalesce(key == previous(ground, key, key.isNotNull()), sf.lit(False))
    return sf.when(key.isNotNull(), same)


@by_columns(filters.Guniq)
def guniq_verdict(_: filters.Guniq, ground: Ground) -> Column:
    key = ground.reading().identity()
    earliest = sf.min(sf.when(alive(), sf.col(PLACE))).over(ground.queue.partition(key))
    return sf.when(key.isNotNull(), sf.coalesce(earliest < sf.col(PLACE), sf.lit(False)))


@by_columns(filters.Latest)
def latest_verdict(node: filters.Latest, ground: Ground) -> Column:
    """Counted from the newest: with a suffix window Spark would count the rest for each event."""
    if not ground.queue.by_time:
        return _count(alive(), ground.queue.from_newest()) <= node.n
    behind = _count(alive(), ground.queue.whole()) - _count(alive(), ground.queue.up_to_here())
    return behind < node.n


@by_columns(filters.LatestBy)
def latest_by_verdict(node: filters.LatestBy, ground: Ground) -> Column:
    key = ground.reading(node.by).identity()
    return sf.when(key.isNotNull(), _count(alive(), ground.queue.from_newest(key)) <= node.n)


@by_columns(filters.Every)
def every_verdict(node: filters.Every, ground: Ground) -> Column:
    return sf.pmod(_count(alive(), ground.queue.up_to_here()), sf.lit(node.n)) == 0


@by_columns(filters.Throttle)
def throttle_verdict(node: filters.Throttle, ground: Ground) -> Column:
    """Intervals begin at multiples of their length, also before 1970."""
    ts = ground.queue.origin.ts
    begin = ts - sf.pmod(ts, sf.lit(max(to_us(node.seconds), 1)))
    age = sf.struct(ts.alias("ts"), PLACE)
    if node.by is None:
        return age < sf.max(sf.when(alive(), age)).over(ground.queue.partition(begin))
    key = ground.reading(node.by).identity()
    newest = sf.max(sf.when(alive(), age)).over(ground.queue.partition(key, begin))
    return sf.when(key.isNotNull(), age < newest)


@by_columns(filters.Top)
def top_verdict(node: filters.Top, ground: Ground) -> Column:
    rank = ground.reading(node.by).number()
    best = rank.desc_nulls_last() if node.order == "largest" else rank.asc_nulls_last()
    window = ground.queue.partition().orderBy(best, sf.col(PLACE))
    better = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return sf.when(rank.isNotNull(), _count(alive() & rank.isNotNull(), better) <= node.n)


def delta_since_event(node: filters.Delta, ground: Ground) -> Column:
    """Change since the previous readable event: no state, so a window suffices."""
    value = ground.reading().number()
    readable = value.isNotNull()
    quiet = sf.abs(value - previous(ground, value, readable)) < float(node.change)
    if node.max_silence is not None:
        ts = ground.queue.origin.ts
        quiet &= ts - previous(ground, ts, readable) < to_us(node.max_silence)
    return sf.when(readable, sf.coalesce(quiet, sf.lit(False)))
