"""How often channels change, as columns: the estimator of `core/channels/change_rate.py` in Spark SQL.

Intervals of polls that found a change are counted in the same bins as a node counts them, and Newton's method
runs as a fold over each channel's few bins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.core.channels.change_rate import BINS_PER_DOUBLING, PRIOR
from penstock.model.instant import LONGEST_US

if TYPE_CHECKING:
    from pyspark.sql import Column

STEPS: Final = 24
"""Of Newton's method. It begins at the answer for intervals of one length, and at least doubles what is less;
bins of one channel that differ by a factor of a million need some twenty."""


def bin_of(interval_us: Column) -> Column:
    """Where intervals of this length are counted."""
    return sf.floor(sf.log2(interval_us) * BINS_PER_DOUBLING)


def update_interval_us(bins: Column, *, unchanged_us: Column, mean_us: Column) -> Column:
    """Mean time between two changes, in whole microseconds; null where `mean_us` is.

    `bins` is an array of structs (count, total_us) of polls that found a change, `mean_us` the mean interval
    between all polls.
    """
    quiet_us = unchanged_us + sf.lit(PRIOR) * mean_us
    count = _summed(bins, "count")
    busy_us = _summed(bins, "total_us")
    start = sf.log1p(busy_us / quiet_us) * count / busy_us
    rate = sf.aggregate(
        sf.sequence(sf.lit(1), sf.lit(STEPS)), start, lambda rate, _: rate + _step(bins, quiet_us, rate)
    )
    per_us = sf.when(sf.size(bins) > 0, rate).otherwise(sf.lit(PRIOR) / quiet_us)
    bounded = sf.round(sf.least(1 / per_us, sf.lit(float(LONGEST_US)))).cast("bigint")
    return sf.when(mean_us.isNotNull(), bounded)


def _summed(bins: Column, field: str) -> Column:
    return sf.aggregate(bins, sf.lit(0.0), lambda total, one: total + one.getField(field))


def _step(bins: Column, quiet_us: Column, rate: Column) -> Column:
    """One step of Newton's method: −score/slope, 0 at the end."""

    def add(sums: Column, one: Column) -> Column:
        total_us = one.getField("total_us")
        each_us = total_us / one.getField("count")
        rest = sf.expm1(sf.least(rate * each_us, sf.lit(500.0)))
        return sf.struct(
            (sums.getField("score") + total_us / rest).alias("score"),
            (sums.getField("slope") + total_us * each_us * (rest + 1) / (rest * rest)).alias("slope"),
        )

    start = sf.struct((-quiet_us).alias("score"), sf.lit(0.0).alias("slope"))
    return sf.aggregate(
        bins,
        start,
        add,
        lambda sums: sf.when(
            sums.getField("slope") > 0,
            sf.greatest(sums.getField("score"), sf.lit(0.0)) / sums.getField("slope"),
        ).otherwise(0.0),
    )
