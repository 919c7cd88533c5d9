"""The prices for millions of channels: summed up in bins on Spark, solved here.

Channels of about one weight and cost are one bin: a row with their number, cost and pace. Those rows
hold what the solver has to know, and the sums in them are exact, so that a bin's width matters only where a
bound cuts through it. Hosts that reach their limit have bins of their own; which ones do is found in rounds,
since each limited host leaves more to the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import functions as sf

from penstock.core.channels.allocation import Scheme
from penstock.core.channels.allocation.allocate import allowance, bounds
from penstock.core.channels.allocation.continuous import Problem, Solution, within_budget, within_target
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

BIN: Final = 0.02
"""Width of a bin, in logarithms: 2 %."""

ROUNDS: Final = 50
"""In which hosts at their limit are found: each adds those that the one before has pushed over theirs."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for; see `core.channels.allocation.allocate`."""

    tau_us: int
    least_us: int
    most_us: int
    scheme: Scheme = Scheme.LITE
    budget: float | None = None
    target_us: int | None = None
    host_limit: float = inf
    """For every host."""
    host_limits: Mapping[str, float] = field(default_factory=dict)
    """For some."""
    by_cost: bool = False
    """Whether a poll counts as its channel's cost; else each counts as 1."""

    @property
    def has_limits(self) -> bool:
        """Whether hosts matter."""
        return self.host_limit < inf or bool(self.host_limits)


def _limit(terms: Terms) -> Column:
    """The limit of the column `host`."""
    general = sf.lit(float(terms.host_limit))
    if not terms.host_limits:
        return general
    pairs = [sf.lit(part) for host, limit in terms.host_limits.items() for part in (host, float(limit))]
    return sf.coalesce(sf.try_element_at(sf.create_map(*pairs), sf.col("host")), general)


@dataclass(frozen=True, slots=True)
class Prices:
    """What the solver says."""

    price: float
    """μ, for all."""
    beyond: dict[str, float]
    """ν, by host at its limit."""
    bound: float
    """The budget, or the target for the delay."""


def prices(weighed: DataFrame, terms: Terms) -> Prices:
    """The prices for a frame of channels with the columns host, subscribers q, cost s and weight w."""
    _check(terms)
    bins = _binned(weighed, terms).persist()
    try:
        return _solved(bins, terms)
    finally:
        bins.unpersist()


def _binned(weighed: DataFrame, terms: Terms) -> DataFrame:
    host = sf.col("host") if terms.has_limits else sf.lit("").alias("host")
    weight = sf.when(sf.col("w") > 0, sf.floor(sf.log("w") / BIN)).alias("w")
    return weighed.groupBy(host, weight, sf.floor(sf.log("s") / BIN).alias("s")).agg(
        sf.count(sf.lit(1)).cast("double").alias("count"),
        sf.sum("s").alias("cost"),
        sf.sum(sf.sqrt(sf.col("w") * sf.col("s"))).alias("pace"),
        sf.sum(sf.col("q") * sf.col("s")).alias("alone"),
    )


def _solved(bins: DataFrame, terms: Terms) -> Prices:
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
            held = zip(limited, solved.host_prices.tolist(), strict=False)  # the last are all other hosts
            return Prices(solved.price, {host: price for host, price in held if price > 0}, bound)
        limited += more
    raise ChannelError(f"after {ROUNDS} rounds there are still more hosts at their limits: raise the limits")


def _check(terms: Terms) -> None:
    bounds(1, terms.tau_us, terms.least_us, terms.most_us)
    for host, limit in {"every host": terms.host_limit, **terms.host_limits}.items():
        if not limit > 0:
            raise ChannelError(f"the limit of {host} is {limit:g}; it should be above 0")


def _rows(bins: DataFrame, limited: list[str]) -> dict[str, np.ndarray]:
    """Sums of the bins as columns; hosts without a limit to heed are one."""
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


def _problem(rows: dict[str, np.ndarray], limited: list[str], terms: Terms) -> Problem:
    hosts = {host: number for number, host in enumerate(limited)}
    cost = rows["cost"] / rows["count"]
    pace = rows["pace"] / rows["cost"]  # the mean of √(w/s), weighed by cost: the load of the bin is exact
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


def _over(bins: DataFrame, limited: list[str], solved: Solution, terms: Terms) -> list[str]:
    """Hosts that would be asked for more than they take, at the price for all."""
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
