"""`allocation`: how often millions of channels are polled, as a transform of the table of their factors.

Prices come from sums (see `channels_prices`); the interval they mean is a column. Intervals are within 0.1 %
of those of the solver that sees every channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from penstock.core.channels.allocation.schemes import GOALS, LOG_LEAST_S, log_seconds
from penstock.errors import InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.channels import FACTORS, need
from penstock.pipeline.channels_prices import prices

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.channels_prices import Prices, Terms

ALLOCATION: Final = StructType(
    [
        StructField("url", StringType()),
        StructField("interval_us", LongType()),
        StructField("host", StringType()),
        StructField("price", DoubleType()),
    ]
)
"""The control table: how often each channel is polled, and the price (μ + ν) that led to it."""

TOLERANCE: Final = 1e-3
"""Share of a bound that the bins may cost."""


@dataclass(frozen=True, slots=True)
class Allocated:
    """An allocation and what comes of it; figures as in `core.channels.allocation.Allocation`."""

    frame: DataFrame
    """Columns of ALLOCATION."""
    channels: int
    price: float
    host_prices: dict[str, float]
    load: float
    polls: float
    mean_delay_us: float
    mean_delay_per_update_us: float
    budget: float | None
    target_us: int | None
    interval_us: tuple[int, ...]
    """Shortest, quartiles, longest."""
    met: bool

    @property
    def hosts_over(self) -> list[str]:
        """Hosts whose limit is too low even for the longest intervals."""
        return [host for host, price in self.host_prices.items() if price == inf]


def allocation(factors: DataFrame, terms: Terms) -> Allocated:
    """The intervals for a frame of FACTORS."""
    need(factors, StructType(FACTORS.fields[:5]), "channel_factors")
    _check(factors)
    weighed = factors.select(
        "url",
        "host",
        sf.col("subscribers").cast("double").alias("q"),
        (sf.col("cost").cast("double") if terms.by_cost else sf.lit(1.0)).alias("s"),
        sf.col("update_interval_us").cast("double").alias("u"),
    ).withColumn("w", _weight(terms))
    found = prices(weighed, terms)
    return _accounted(_given(weighed, found, terms), found, terms)


def _check(factors: DataFrame) -> None:
    """Refuse a table with a row that cannot be, naming it."""
    wrong = {
        "url": sf.col("url").isNull(),
        "host": sf.col("host").isNull(),
        "subscribers": _outside("subscribers", or_zero=True),
        "cost": _outside("cost"),
        "update_interval_us": _outside("update_interval_us"),
    }
    any_wrong = sf.lit(False)
    for one in wrong.values():
        any_wrong |= one
    bad = factors.where(any_wrong).select(*wrong, *(one.alias(f"__{name}") for name, one in wrong.items()))
    row = bad.head()
    if row is not None:
        name = next(name for name in wrong if row[f"__{name}"])
        raise InputError(f"{name} of channel {row['url']} is {row[name]}: it should be {_WANTED[name]}")


_WANTED: Final = {
    "url": "the channel's address",
    "host": "a host, or empty",
    "subscribers": "a number of at least 0",
    "cost": "a number above 0",
    "update_interval_us": "a number of microseconds above 0",
}


def _outside(name: str, *, or_zero: bool = False) -> Column:
    number = sf.col(name).cast("double")
    low = number < 0 if or_zero else number <= 0
    return number.isNull() | sf.isnan(number) | (number == inf) | low


def _weight(terms: Terms) -> Column:
    """The scheme's weights: q·(τ/u)^power, or of logarithms."""
    power = GOALS[terms.scheme].power
    if power is None:
        seconds = sf.greatest(sf.col("u") / SECOND_US, sf.lit(LOG_LEAST_S))
        return sf.col("q") * sf.lit(log_seconds(terms.tau_us)) / sf.log(seconds)
    return sf.col("q") * sf.pow(sf.lit(float(terms.tau_us)) / sf.col("u"), sf.lit(float(power)))


def _given(weighed: DataFrame, found: Prices, terms: Terms) -> DataFrame:
    """The frame with each channel's price and interval."""
    price = sf.lit(found.price)
    if found.beyond:
        known = weighed.sparkSession.createDataFrame(list(found.beyond.items()), "host string, beyond double")
        weighed = weighed.join(sf.broadcast(known), "host", "left")
        price += sf.coalesce("beyond", sf.lit(0.0))
    weighed = weighed.withColumn("price", price)
    wanted = sf.sqrt(sf.lit(2.0 * terms.tau_us) * sf.col("s") * sf.col("price") / sf.col("w"))
    bounded = sf.least(sf.greatest(wanted, sf.lit(float(terms.least_us))), sf.lit(float(terms.most_us)))
    slowest = sf.lit(float(terms.most_us))
    interval = sf.ceil(sf.when(sf.col("w") > 0, bounded).otherwise(slowest)).cast("bigint")
    return weighed.withColumn("interval_us", interval)


def _accounted(given: DataFrame, found: Prices, terms: Terms) -> Allocated:
    polls = sf.lit(float(terms.tau_us)) / sf.col("interval_us")
    quantiles = sf.percentile_approx("interval_us", [0.0, 0.25, 0.5, 0.75, 1.0], 1_000)
    updates = sf.col("q") / sf.col("u")
    sums: Any = given.agg(
        sf.count(sf.lit(1)).alias("channels"),
        sf.sum(polls * sf.col("s")).alias("load"),
        sf.sum(polls).alias("polls"),
        sf.try_divide(sf.sum(sf.col("q") * sf.col("interval_us")), 2 * sf.sum("q")).alias("delay"),
        sf.try_divide(sf.sum(updates * sf.col("interval_us")), 2 * sf.sum(updates)).alias("per_update"),
        quantiles.alias("interval_us"),
    ).head()
    if not sums["channels"]:
        raise InputError("there is no channel in it")
    load, delay = sums["load"], sums["delay"]
    target, allowed = terms.scheme.has_target, found.bound * (1 + TOLERANCE)
    kept = (delay or 0.0) <= allowed if target else load <= allowed
    return Allocated(
        frame=given.select(*(column.name for column in ALLOCATION)),
        channels=sums["channels"],
        price=found.price,
        host_prices=found.beyond,
        load=load,
        polls=sums["polls"],
        mean_delay_us=nan if delay is None else delay,
        mean_delay_per_update_us=nan if delay is None else sums["per_update"],
        budget=None if target else found.bound,
        target_us=terms.target_us,
        interval_us=tuple(sums["interval_us"]),
        met=kept and inf not in found.beyond.values(),
    )
