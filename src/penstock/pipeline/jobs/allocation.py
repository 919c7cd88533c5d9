"""`allocation`: poll intervals of millions of channels, as a transform of the table of their factors.

Channels of similar weight and cost form a bin: a row with their number, cost and pace. The driver solves for
the prices from these rows. Their sums are exact, so the width of a bin matters only where a bound cuts
through it. Hosts that reach their limit get bins of their own; they are found in rounds, because each limited
host leaves more to the others. The interval for a price is a column, within 0.1 % of that of the solver that
sees every channel. `read_factors` reads files of channels from other programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from penstock.core.channels.allocation import Scheme
from penstock.core.channels.allocation.factors import GOALS, LOG_LEAST_S, log_seconds
from penstock.core.channels.allocation.intervals import allowance, bounds
from penstock.core.channels.allocation.solver import Problem, Solution, within_budget, within_target
from penstock.errors import ChannelError, InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.tables.channels import FACTORS, by_domain, host_of, need
from penstock.pipeline.tables.files import format_of
from penstock.pipeline.tables.recorded import CORRUPT, checked, load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

BIN: Final = 0.02
"""Width of a bin, in logarithms: 2 %."""

ROUNDS: Final = 50
"""Rounds to find the hosts at their limit: each adds those that the round before pushed over theirs."""


@dataclass(frozen=True, slots=True)
class AllocationTerms:
    """Arguments of an allocation, as in `core.channels.allocation.allocate`."""

    tau_us: int
    least_us: int
    most_us: int
    scheme: Scheme = Scheme.LITE
    budget: float | None = None
    target_us: int | None = None
    host_limit: float = inf
    """Limit of every host."""
    host_limits: Mapping[str, float] = field(default_factory=dict)
    """Limits of single hosts."""
    by_cost: bool = False
    """Whether a poll costs its channel's cost; otherwise 1."""

    @property
    def has_limits(self) -> bool:
        """Whether any host has a limit."""
        return self.host_limit < inf or bool(self.host_limits)


def _limit(terms: AllocationTerms) -> Column:
    """Limit of the column `host`."""
    general = sf.lit(float(terms.host_limit))
    if not terms.host_limits:
        return general
    pairs = [sf.lit(part) for host, limit in terms.host_limits.items() for part in (host, float(limit))]
    return sf.coalesce(sf.try_element_at(sf.create_map(*pairs), sf.col("host")), general)


@dataclass(frozen=True, slots=True)
class Prices:
    """Result of the solver."""

    price: float
    """μ, for all channels."""
    beyond: dict[str, float]
    """ν of each host at its limit."""
    bound: float
    """The budget, or the target for the delay."""


def prices(weighed: DataFrame, terms: AllocationTerms) -> Prices:
    """Prices for a frame of channels with the columns host, subscribers q, cost s and weight w."""
    _check_terms(terms)
    bins = _binned(weighed, terms).persist()
    try:
        return _solved(bins, terms)
    finally:
        bins.unpersist()


def _binned(weighed: DataFrame, terms: AllocationTerms) -> DataFrame:
    host = sf.col("host") if terms.has_limits else sf.lit("").alias("host")
    weight = sf.when(sf.col("w") > 0, sf.floor(sf.log("w") / BIN)).alias("w")
    return weighed.groupBy(host, weight, sf.floor(sf.log("s") / BIN).alias("s")).agg(
        sf.count(sf.lit(1)).cast("double").alias("count"),
        sf.sum("s").alias("cost"),
        sf.sum(sf.sqrt(sf.col("w") * sf.col("s"))).alias("pace"),
        sf.sum(sf.col("q") * sf.col("s")).alias("alone"),
    )


def _solved(bins: DataFrame, terms: AllocationTerms) -> Prices:
    limited: list[str] = []
    solve = within_target if terms.scheme.has_target else within_budget
    for _ in range(ROUNDS):
        rows = _rows(bins, limited)
        bound = allowance(
            float(rows["alone"].sum()), scheme=terms.scheme, budget=terms.budget, target_us=terms.target_us
        )
        solved = solve(_problem(rows, limited, terms), bound)
        more = _over(bins, limited, solved, terms) if terms.has_limits else []
        if not more:
            held = zip(
                limited, solved.host_prices.tolist(), strict=False
            )  # the last entry stands for all other hosts
            return Prices(solved.price, {host: price for host, price in held if price > 0}, bound)
        limited += more
    raise ChannelError(f"more hosts reach their limits after {ROUNDS} rounds; raise the limits")


def _check_terms(terms: AllocationTerms) -> None:
    bounds(1, terms.tau_us, terms.least_us, terms.most_us)
    for host, limit in {"every host": terms.host_limit, **terms.host_limits}.items():
        if not limit > 0:
            raise ChannelError(f"the limit of {host} is {limit:g}; it should be above 0")


def _rows(bins: DataFrame, limited: list[str]) -> dict[str, np.ndarray]:
    """Sums of the bins as columns; all hosts without an active limit are one."""
    sums = [sf.sum(name).alias(name) for name in ("count", "cost", "pace", "alone")]
    if limited:
        known = bins.sparkSession.createDataFrame(
            [(host, host) for host in limited], "host string, own string"
        )
        merged = bins.join(sf.broadcast(known), "host", "left").groupBy("own", "w", "s").agg(*sums)
    else:
        merged = bins.groupBy(sf.lit(None).cast("string").alias("own"), "w", "s").agg(*sums)
    table = merged.select("own", "count", "cost", "pace", "alone").toArrow()
    return {name: table[name].to_numpy() for name in table.column_names}


def _problem(rows: dict[str, np.ndarray], limited: list[str], terms: AllocationTerms) -> Problem:
    hosts = {host: number for number, host in enumerate(limited)}
    cost = rows["cost"] / rows["count"]
    pace = rows["pace"] / rows["cost"]  # mean of √(w/s) weighted by cost: the bin's load is exact
    group = np.array([hosts.get(host, len(hosts)) for host in rows["own"].tolist()], np.intp)
    limits = [terms.host_limits.get(host, terms.host_limit) for host in limited]
    return Problem(
        weight=pace * pace * cost,
        cost=cost,
        low=np.full(len(cost), terms.tau_us / terms.most_us),
        high=np.full(len(cost), terms.tau_us / terms.least_us),
        count=rows["count"],
        group=group,
        limits=np.array([*limits, inf]),
        tau_us=terms.tau_us,
    )


def _over(bins: DataFrame, limited: list[str], solved: Solution, terms: AllocationTerms) -> list[str]:
    """Hosts that would exceed their limit at the common price."""
    low, high = terms.tau_us / terms.most_us, terms.tau_us / terms.least_us
    pace = sf.col("pace") / sf.col("cost") * sf.lit((terms.tau_us / 2) ** 0.5)
    if solved.price > 0:
        polls = sf.least(sf.greatest(pace * sf.lit(solved.price**-0.5), sf.lit(low)), sf.lit(high))
    else:
        polls = sf.when(pace > 0, sf.lit(high)).otherwise(sf.lit(low))
    load = bins.groupBy("host").agg(sf.sum(sf.col("cost") * polls).alias("load"))
    over = load.where(sf.col("load") > _limit(terms)).select("host").collect()
    known = frozenset(limited)
    return [row["host"] for row in over if row["host"] not in known]


ALLOCATION: Final = StructType(
    [
        StructField("url", StringType()),
        StructField("interval_us", LongType()),
        StructField("host", StringType()),
        StructField("price", DoubleType()),
    ]
)
"""Control table: polling interval of each channel, and the price (μ + ν) behind it."""

TOLERANCE: Final = 1e-3
"""Relative error of a bound that the bins may cause."""


@dataclass(frozen=True, slots=True)
class Allocated:
    """An allocation and its figures, as in `core.channels.allocation.Allocation`."""

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
        """Hosts above their limit even with the longest intervals."""
        return [host for host, price in self.host_prices.items() if price == inf]


def allocation(factors: DataFrame, terms: AllocationTerms) -> Allocated:
    """Intervals for a frame of FACTORS."""
    need(factors, StructType(FACTORS.fields[:5]), "channel_factors")
    _check_factors(factors)
    weighed = factors.select(
        "url",
        "host",
        sf.col("subscribers").cast("double").alias("q"),
        (sf.col("cost").cast("double") if terms.by_cost else sf.lit(1.0)).alias("s"),
        sf.col("update_interval_us").cast("double").alias("u"),
    ).withColumn("w", _weight(terms))
    found = prices(weighed, terms)
    return _accounted(_given(weighed, found, terms), found, terms)


def _check_factors(factors: DataFrame) -> None:
    """Refuse a table with an invalid row, and name it."""
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


def _weight(terms: AllocationTerms) -> Column:
    """Weights of the scheme: q·(τ/u)^power, or of logarithms."""
    power = GOALS[terms.scheme].power
    if power is None:
        seconds = sf.greatest(sf.col("u") / SECOND_US, sf.lit(LOG_LEAST_S))
        return sf.col("q") * sf.lit(log_seconds(terms.tau_us)) / sf.log(seconds)
    return sf.col("q") * sf.pow(sf.lit(float(terms.tau_us)) / sf.col("u"), sf.lit(float(power)))


def _given(weighed: DataFrame, found: Prices, terms: AllocationTerms) -> DataFrame:
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


def _accounted(given: DataFrame, found: Prices, terms: AllocationTerms) -> Allocated:
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


def read_factors(spark: SparkSession, path: str, terms: AllocationTerms) -> DataFrame:
    """Channels at a path; columns that the terms do not need may be missing."""
    frame = load(spark, path, format_of(path))
    _check_file(frame, path, terms)
    frame = checked(frame, path)
    twice = frame.groupBy("url").count().where("count > 1").head()
    if twice is not None:
        raise InputError(f"duplicate channel {twice['url']}: {twice['count']} times", path=path)
    given = "host" in frame.columns
    absent = {"cost": sf.lit(1.0), "update_interval_us": sf.lit(1), "host": host_of(sf.col("url"))}
    columns: list[Column] = []
    for column in FACTORS.fields[:5]:
        found = sf.col(column.name) if column.name in frame.columns else absent[column.name]
        columns.append(found.alias(column.name))
    factors = frame.select(*columns)
    return factors if given or not terms.has_limits else factors.transform(by_domain)


def _check_file(frame: DataFrame, path: str, terms: AllocationTerms) -> None:
    if frame.columns == [CORRUPT]:
        raise InputError("no line is a JSON object", path=path)
    needed = ["url", "subscribers"]
    needed += ["cost"] if terms.by_cost else []
    needed += ["update_interval_us"] if terms.scheme.value.startswith("fair") else []
    kinds = {field.name: field.dataType for field in frame.schema}
    for name in needed:
        if name not in kinds:
            there = ", ".join(kinds) or "none"
            raise InputError(f"there is no column '{name}'; there are: {there}", path=path)
    if not isinstance(kinds["url"], st.StringType):
        raise InputError(f"the column 'url' holds {kinds['url'].simpleString()}, not texts", path=path)
    for name in ("subscribers", "cost", "update_interval_us"):
        kind = kinds.get(name)
        if kind is not None and not isinstance(kind, st.NumericType):
            raise InputError(f"the column '{name}' holds {kind.simpleString()}, not numbers", path=path)
