"""Gold tables that are queries: allocation, reservations, health, the daily report.

The other gold tables need many queries and a verdict: `decisions.py`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.model.instant import to_us
from penstock.pipeline.compile.queue_columns import with_columns
from penstock.pipeline.jobs.allocation import AllocationTerms
from penstock.pipeline.jobs.allocation import allocation as solved_allocation
from penstock.pipeline.jobs.flows import reservations as to_reserve
from penstock.pipeline.project.catalogue import RECORDED, TABLES
from penstock.pipeline.project.settings import scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.project.settings import Project


def allocation(project: Project) -> Callable[[DataFrame], DataFrame]:
    """How often each channel is polled, from `channel_factors`, as the control table that nodes follow."""
    own = project.settings.allocation
    scheme, target_us = scheme_of(own)
    limited = target_us is None and own.polls_per_s
    solve = solved_allocation(
        AllocationTerms(
            tau_us=to_us(own.interval_s),
            least_us=to_us(own.least_s),
            most_us=to_us(own.most_s),
            scheme=scheme,
            budget=own.polls_per_s * own.interval_s if limited else None,
            target_us=target_us,
        )
    )

    def transform(factors: DataFrame) -> DataFrame:
        # As on a node: a channel without a known subscriber counts as one.
        least = {"subscribers": sf.greatest("subscribers", sf.lit(1))}
        known = with_columns(factors.where("url <> ''"), least, instead=True)
        return known.transform(solve).select(*TABLES["allocation"].names)

    return transform


def reservations(flows: DataFrame) -> DataFrame:
    """Flows of constant rate, as the control table that nodes follow."""
    return flows.transform(to_reserve()).where("client <> '' AND topic <> '' AND period_us > 0")


def report(packed: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """One row per day, from `events` and what the policy made of them."""

    def transform(events: DataFrame) -> DataFrame:
        kept = packed.where("kind = 'event'").groupBy("day").agg(sf.count(sf.lit(1)).alias("kept"))
        daily = events.groupBy("day").agg(
            sf.count(sf.lit(1)).alias("events"),
            sf.countDistinct("sender").alias("senders"),
            sf.countDistinct("topic").alias("topics"),
            sf.coalesce(sf.sum(sf.octet_length("payload")), sf.lit(0)).cast("bigint").alias("bytes"),
        )
        none = {"kept": sf.coalesce("kept", sf.lit(0))}
        both = with_columns(daily.join(kept, "day", "left"), none, instead=True)
        share = sf.try_divide(sf.col("kept"), sf.col("events")).alias("kept_share")
        return both.select("day", "events", "senders", "topics", "bytes", "kept", share)

    return transform


def health(spark: SparkSession) -> DataFrame:
    """Figures about the receivers (from `traces`) and about the tables themselves."""
    parts = [_about(spark.read.table(kind), kind) for kind in RECORDED]
    parts.append(_quarantined(spark.read.table("quarantine")))
    parts.append(receivers(spark.read.table("traces")))
    found = reduce(lambda left, right: left.unionByName(right), parts)
    return found.select(*TABLES["health"].names)


def _figures(measure: str, name: Column, value: Column, unit: str = "") -> list[Column]:
    return [
        sf.lit(measure).alias("measure"),
        name.alias("name"),
        value.cast("double").alias("value"),
        sf.lit(unit).alias("unit"),
    ]


def _about(rows: DataFrame, table: str) -> DataFrame:
    """Rows of a table, its newest time, and expectations that were not met."""
    name = sf.lit(table)
    totals = rows.agg(sf.count(sf.lit(1)).alias("rows"), sf.max("ts").alias("newest"))
    broken = rows.select(sf.explode("broken").alias("expectation")).groupBy("expectation").count()
    return (
        totals.select(*_figures("rows", name, sf.col("rows")))
        .unionByName(totals.select(*_figures("newest", name, sf.col("newest"), "µs since 1970")))
        .unionByName(
            broken.select(
                *_figures("broken", sf.concat(name, sf.lit(": "), "expectation"), sf.col("count"), "rows")
            )
        )
    )


def _quarantined(rows: DataFrame) -> DataFrame:
    what = sf.when(sf.col("row").isNull(), "files").otherwise("rows")
    found = rows.groupBy(sf.col("table"), what.alias("what")).count()
    name = sf.concat_ws(": ", "table", "what")
    return found.select(*_figures("quarantined", name, sf.col("count")))


def receivers(traces: DataFrame) -> DataFrame:
    """Latency, loss, levels and time between packs, by policy (the PACK paper's Figure 11), from `traces`."""
    own = Window.partitionBy("client", "filter").orderBy("ts")
    grown = [
        # A figure that fell is of a new session: it counts from 0.
        (sf.col(name) - sf.when(before <= sf.col(name), before).otherwise(0)).alias(name)
        for name in ("accepted", "delivered", "packs")
        for before in [sf.coalesce(sf.lag(name).over(own), sf.lit(0))]
    ]
    steps = traces.select(
        sf.coalesce(sf.nullif("policy", sf.lit("")), sf.lit("none")).alias("policy"),
        "level",
        "latency_p99_us",
        *grown,
        (sf.col("ts") - sf.lag("ts").over(own)).alias("span_us"),
    )
    policy = sf.col("policy")
    of_policy = steps.groupBy("policy").agg(
        sf.expr("percentile_approx(latency_p99_us, 0.5, 1000)").alias("latency"),
        (1 - sf.try_divide(sf.sum("delivered"), sf.sum("accepted"))).alias("loss"),
        sf.sum("packs").alias("packs"),
        sf.try_divide(
            sf.sum(sf.when(sf.col("span_us").isNotNull(), sf.col("span_us"))), sf.sum("packs")
        ).alias("between"),
        # Packs of one sample are taken to be equally far apart.
        sf.expr(
            "percentile(span_us / packs, 0.5, packs) FILTER (WHERE packs > 0 AND span_us IS NOT NULL)"
        ).alias("median"),
    )
    levels = steps.where("packs > 0").groupBy("policy", "level").agg(sf.sum("packs").alias("packs"))
    name = sf.concat(policy, sf.lit(": level "), sf.col("level").cast("string"))
    between = of_policy.where("between IS NOT NULL")
    parts = [
        of_policy.select(*_figures("latency_p99", policy, sf.col("latency"), "µs")),
        of_policy.where("loss IS NOT NULL").select(
            *_figures("not_delivered", policy, sf.col("loss"), "share")
        ),
        of_policy.select(*_figures("packs", policy, sf.col("packs"), "packs")),
        between.select(*_figures("between_packs", policy, sf.col("between"), "µs")),
        of_policy.where("median IS NOT NULL").select(
            *_figures("between_packs_median", policy, sf.col("median"), "µs")
        ),
        levels.select(*_figures("level", name, sf.col("packs"), "packs")),
    ]
    return reduce(lambda left, right: left.unionByName(right), parts).select(*TABLES["health"].names)
