"""`allocation`: poll intervals of millions of channels, as a transform of the table of their factors.

    channels ──► bins by weight and cost ──► prices, solved from the bins ──► channels with their intervals

Channels of similar weight and cost form a bin: a row with their number, cost and pace. The prices are solved
from these rows, by one task (`allocation`) or on the driver (`allocated`, which also returns the figures).
Sums of bins are exact, so their width matters only where a bound cuts through it. Hosts that could reach
their limit have bins of their own; which of them do is found in rounds, because each limited host leaves more
to the others. The interval for a price is a column, within 0.1 % of that of the solver that sees every
channel. `read_factors` reads files of channels from other programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, MapType, StringType, StructField, StructType

from penstock.core.channels.allocation import Scheme
from penstock.core.channels.allocation.factors import GOALS, LOG_LEAST_S, log_seconds
from penstock.core.channels.allocation.intervals import allowance, bounds
from penstock.core.channels.allocation.solver import Problem, Solution, within_budget, within_target
from penstock.errors import ChannelError, InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.compile.queue_columns import told, with_columns
from penstock.pipeline.session import translated
from penstock.pipeline.tables.channels import FACTORS, by_domain, host_of, need
from penstock.pipeline.tables.files import format_of
from penstock.pipeline.tables.recorded import CORRUPT, checked, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


def _binned(weighed: DataFrame, terms: AllocationTerms) -> DataFrame:
    """Bins of channels; those of a host that cannot reach its limit are no host's."""
    host = sf.lit("")
    if terms.has_limits:
        most = sf.sum("s").over(Window.partitionBy("host")) * sf.lit(terms.tau_us / terms.least_us)
        host = sf.when(most > _limit(terms), sf.col("host")).otherwise(host)
    weight = sf.when(sf.col("w") > 0, sf.floor(sf.log("w") / BIN)).alias("w")
    marked = weighed.select(host.alias("host"), weight, "s", "q", sf.col("w").alias("each"))
    return (
        marked.groupBy("host", "w", sf.floor(sf.log("s") / BIN).alias("s"))
        .agg(
            sf.count(sf.lit(1)).cast("double").alias("count"),
            sf.sum("s").alias("cost"),
            sf.sum(sf.sqrt(sf.col("each") * sf.col("s"))).alias("pace"),
            sf.sum(sf.col("q") * sf.col("s")).alias("alone"),
        )
        .select(*(name for name in _BINS.names))
    )


_BINS: Final = StructType(
    [
        StructField("host", StringType()),
        *(StructField(name, DoubleType()) for name in ("count", "cost", "pace", "alone")),
    ]
)
_PRICES: Final = StructType(
    [
        StructField("price", DoubleType()),
        StructField("bound", DoubleType()),
        StructField("beyond", MapType(StringType(), DoubleType())),
    ]
)


def solved(bins: pa.Table, terms: AllocationTerms) -> Prices:
    """Prices for bins of channels, of which each active limit of a host has one of its own."""
    rows = {name: bins[name].to_numpy() for name in _BINS.names[1:]}
    alone = float(rows["alone"].sum())
    bound = allowance(alone, scheme=terms.scheme, budget=terms.budget, target_us=terms.target_us)
    if not bins.num_rows:
        return Prices(0.0, {}, bound)
    hosts, codes = np.unique(bins["host"].to_numpy(), return_inverse=True)
    limits = np.array([terms.host_limits.get(host, terms.host_limit) if host else inf for host in hosts])
    limited: list[int] = []
    solve = within_target if terms.scheme.has_target else within_budget
    for _ in range(ROUNDS):
        group = np.full(len(hosts), len(limited), np.intp)
        group[limited] = np.arange(len(limited))
        found = solve(_problem(rows, group[codes], limits[limited], terms), bound)
        loads = np.bincount(codes, _load(rows, found, terms), len(hosts))
        more = [int(one) for one in np.flatnonzero(loads > limits) if one not in limited]
        if not more:
            held = zip(limited, found.host_prices.tolist(), strict=False)  # the last stands for all others
            return Prices(found.price, {str(hosts[one]): price for one, price in held if price > 0}, bound)
        limited += more
    raise ChannelError(f"more hosts reach their limits after {ROUNDS} rounds; raise the limits")


def _check_terms(terms: AllocationTerms) -> None:
    bounds(1, terms.tau_us, terms.least_us, terms.most_us)
    allowance(1.0, scheme=terms.scheme, budget=terms.budget, target_us=terms.target_us)
    for host, limit in {"every host": terms.host_limit, **terms.host_limits}.items():
        if not limit > 0:
            raise ChannelError(f"the limit of {host} is {limit:g}; it should be above 0")


def _problem(
    rows: dict[str, np.ndarray], group: np.ndarray, limits: np.ndarray, terms: AllocationTerms
) -> Problem:
    cost = rows["cost"] / rows["count"]
    pace = rows["pace"] / rows["cost"]  # mean of √(w/s) weighted by cost: the bin's load is exact
    return Problem(
        weight=pace * pace * cost,
        cost=cost,
        low=np.full(len(cost), terms.tau_us / terms.most_us),
        high=np.full(len(cost), terms.tau_us / terms.least_us),
        count=rows["count"],
        group=group,
        limits=np.append(limits, inf),
        tau_us=terms.tau_us,
    )


def _load(rows: dict[str, np.ndarray], found: Solution, terms: AllocationTerms) -> np.ndarray:
    """Load of each bin at the common price."""
    low, high = terms.tau_us / terms.most_us, terms.tau_us / terms.least_us
    pace = rows["pace"] / rows["cost"] * (terms.tau_us / 2) ** 0.5
    if found.price > 0:
        polls = np.clip(pace * found.price**-0.5, low, high)
    else:
        polls = np.where(pace > 0, high, low)
    loads: np.ndarray = rows["cost"] * polls
    return loads


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


def allocation(terms: AllocationTerms) -> Callable[[DataFrame], DataFrame]:
    """Make a transform from channels, columns of FACTORS, to their intervals, columns of ALLOCATION.

    Nothing is asked while it is made: one task of the query solves for the prices. An invalid row fails the
    query, and is named. `allocated` does the same for a command, with the figures.
    """
    _check_terms(terms)

    def solve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        whole = pa.Table.from_batches(parts) if parts else to_arrow_schema(_BINS).empty_table()
        found = solved(whole, terms)
        row = {"price": found.price, "bound": found.bound, "beyond": list(found.beyond.items())}
        yield pa.RecordBatch.from_pylist([row], to_arrow_schema(_PRICES))

    def given(factors: DataFrame) -> DataFrame:
        weighed = _weighed(factors, terms)
        bins = told(_binned(weighed, terms).repartition(1), _BINS)
        priced = weighed.crossJoin(sf.broadcast(bins.mapInArrow(solve, _PRICES)))
        beyond = sf.coalesce(sf.try_element_at("beyond", sf.col("host")), sf.lit(0.0))
        return _with_intervals(
            with_columns(priced, {"price": sf.col("price") + beyond}, instead=True), terms
        ).select(*ALLOCATION.names)

    return given


def allocated(factors: DataFrame, terms: AllocationTerms) -> Allocated:
    """Intervals for a frame of FACTORS, and what they cost."""
    need(factors, StructType(FACTORS.fields[:5]), "channel_factors")
    _check_terms(terms)
    weighed = _weighed(factors, terms)
    with translated():
        found = solved(_binned(weighed, terms).toArrow(), terms)
        return _accounted(_given(weighed, found, terms), found, terms)


def _weighed(factors: DataFrame, terms: AllocationTerms) -> DataFrame:
    """Channels with host, subscribers q, cost s, update interval u and weight w."""
    found = factors.select(
        "url",
        "host",
        _checked("subscribers").alias("q"),
        (sf.col("cost").cast("double") if terms.by_cost else sf.lit(1.0)).alias("s"),
        sf.col("update_interval_us").cast("double").alias("u"),
    )
    return with_columns(found, {"w": _weight(terms)})


def _checked(name: str) -> Column:
    """A number that everything depends on; an invalid row fails the query there, and is named."""
    wrong = {
        "url": sf.col("url").isNull(),
        "host": sf.col("host").isNull(),
        "subscribers": _outside("subscribers", or_zero=True),
        "cost": _outside("cost"),
        "update_interval_us": _outside("update_interval_us"),
    }
    found = sf.when(sf.lit(False), sf.lit(0.0))
    for own, bad in wrong.items():
        shown = (sf.coalesce(sf.col(one).cast("string"), sf.lit("null")) for one in ("url", own))
        said = sf.format_string(f"{own} of channel %s is %s: it should be {_WANTED[own]}", *shown)
        found = found.when(bad, sf.raise_error(said).cast("double"))
    return found.otherwise(sf.col(name).cast("double"))


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
    return _with_intervals(with_columns(weighed, {"price": price}), terms)


def _with_intervals(weighed: DataFrame, terms: AllocationTerms) -> DataFrame:
    wanted = sf.sqrt(sf.lit(2.0 * terms.tau_us) * sf.col("s") * sf.col("price") / sf.col("w"))
    bounded = sf.least(sf.greatest(wanted, sf.lit(float(terms.least_us))), sf.lit(float(terms.most_us)))
    slowest = sf.lit(float(terms.most_us))
    interval = sf.ceil(sf.when(sf.col("w") > 0, bounded).otherwise(slowest)).cast("bigint")
    return with_columns(weighed, {"interval_us": interval})


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
    return factors if given or not terms.has_limits else factors.transform(by_domain())


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
