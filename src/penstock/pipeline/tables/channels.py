"""Tables of channels on Spark: from logs of polls and subscriptions to the factors of each channel.

The update interval is the estimate of `core/channels/change_rate.py` in Spark SQL: intervals of polls that
found a change are counted in the same bins as on a node, and Newton's method runs as a fold over each
channel's bins.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.core.channels.address import registrable
from penstock.core.channels.change_rate import BINS_PER_DOUBLING, PRIOR
from penstock.errors import InputError
from penstock.model.instant import LONGEST_US, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

STEPS: Final = 24
"""Steps of Newton's method. It starts at the answer for equal intervals, and at least doubles a smaller
value; bins of one channel that differ by a factor of a million need some twenty.
"""


def bin_of(interval_us: Column) -> Column:
    """Bin of an interval."""
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


POLLS: Final = StructType(
    [
        StructField("url", StringType()),
        StructField("ts", LongType()),
        StructField("status", IntegerType()),
        StructField("changed", BooleanType()),
        StructField("bytes", LongType()),
        StructField("duration_us", LongType()),
        StructField("error", StringType()),
    ]
)
"""A node's record of each poll; with an error it is unknown whether there was a change."""

SUBSCRIPTIONS: Final = StructType(
    [
        StructField("url", StringType()),
        StructField("who_kind", StringType()),
        StructField("ts", LongType()),
        StructField("change", IntegerType()),
        StructField("subscribers", IntegerType()),
    ]
)
"""A node's record of the begin or end of a subscription; `subscribers` is their number afterwards."""

FACTORS: Final = StructType(
    [
        StructField("url", StringType()),
        StructField("subscribers", IntegerType()),
        StructField("cost", DoubleType()),
        StructField("update_interval_us", LongType()),
        StructField("host", StringType()),
        StructField("polls", LongType()),
        StructField("changes", LongType()),
    ]
)
"""Input of an allocation; `polls` and `changes` show how well the update interval is known."""

USUAL_BYTES: Final = 20_000.0
"""Cost assumed for a channel that was never fetched, as on a node."""

LEAST_BYTES: Final = 500.0
"""Least cost of a poll: headers of request and response."""

USUAL_UPDATE_US: Final = 86_400 * SECOND_US
"""Update interval of a channel that was not polled twice yet."""


def channel_factors(subscriptions: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Transform from polls, with these subscriptions, to FACTORS: one row per channel of either table."""
    return lambda polls: _factors(_learned(polls), _waiting(subscriptions))


def need(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """Return the frame if it has the columns of a table, for jobs: it asks the frame."""
    missing = [field.name for field in schema if field.name not in frame.columns]
    if missing:
        there = ", ".join(frame.columns)
        raise InputError(f"the table {table} has no column '{missing[0]}'; there are: {there}")
    return frame


def _waiting(subscriptions: DataFrame) -> DataFrame:
    return subscriptions.groupBy("url").agg(sf.max_by("subscribers", "ts").alias("subscribers"))


def _learned(polls: DataFrame) -> DataFrame:
    """Results of each channel's polls, of those that determined whether there was a change."""
    told = polls.where(sf.coalesce(sf.length("error"), sf.lit(0)) == 0)
    before = sf.lag("ts").over(Window.partitionBy("url").orderBy("ts"))
    gaps = told.select("url", "changed", "bytes", (sf.col("ts") - before).alias("gap"))
    known = sf.col("gap") > 0
    found = known & sf.col("changed")
    binned = gaps.groupBy("url", sf.when(found, bin_of(sf.col("gap"))).alias("bin")).agg(
        sf.count(sf.lit(1)).alias("polls"),
        sf.count_if(known).alias("gaps"),
        sf.sum(sf.when(known, sf.col("gap"))).cast("double").alias("span_us"),
        sf.count_if(found).alias("changes"),
        sf.sum("bytes").alias("bytes"),
    )
    seen = sf.col("changes") > 0
    one = sf.struct(sf.col("changes").cast("double").alias("count"), sf.col("span_us").alias("total_us"))
    return binned.groupBy("url").agg(
        sf.sum("polls").alias("polls"),
        sf.sum("changes").alias("changes"),
        (sf.sum("bytes") / sf.sum("polls")).alias("bytes"),
        sf.collect_list(sf.when(seen, one)).alias("bins"),
        sf.coalesce(sf.sum(sf.when(~seen, sf.col("span_us"))), sf.lit(0.0)).alias("unchanged_us"),
        sf.try_divide(sf.sum("span_us"), sf.sum("gaps")).alias("mean_us"),
    )


def _factors(learned: DataFrame, waiting: DataFrame) -> DataFrame:
    interval = update_interval_us(
        sf.col("bins"), unchanged_us=sf.col("unchanged_us"), mean_us=sf.col("mean_us")
    )
    columns = {
        "url": sf.col("url"),
        "subscribers": sf.greatest(sf.coalesce("subscribers", sf.lit(0)), sf.lit(0)),
        "cost": sf.greatest(sf.coalesce("bytes", sf.lit(USUAL_BYTES)), sf.lit(LEAST_BYTES)),
        "update_interval_us": sf.greatest(sf.coalesce(interval, sf.lit(USUAL_UPDATE_US)), sf.lit(1)),
        "host": host_of(sf.col("url")),
        "polls": sf.coalesce("polls", sf.lit(0)),
        "changes": sf.coalesce("changes", sf.lit(0)),
    }
    joined = waiting.join(learned, "url", "full")
    return joined.select(*(columns[field.name].cast(field.dataType).alias(field.name) for field in FACTORS))


def host_of(url: Column) -> Column:
    """The host in a URL, in lower case; empty where there is none."""
    return sf.lower(sf.coalesce(sf.try_parse_url(url, sf.lit("HOST")), sf.lit("")))


def by_domain() -> Callable[[DataFrame], DataFrame]:
    """Make a transform that puts the registrable domain in the place of `host`: *.example.com is one service.

    The public suffix list is consulted in Spark's workers, which remember the hosts they have seen.
    """
    return lambda frame: frame.withColumn("host", sf.udf(_domain, StringType(), useArrow=False)("host"))


@lru_cache(maxsize=1 << 16)
def _domain(host: str | None) -> str | None:
    if host is None:
        return None
    try:
        return registrable(f"http://{host}/")
    except ValueError:  # not a valid host
        return host
