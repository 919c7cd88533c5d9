"""Silver tables: packed events, digests, factors of channels, flows, effects of filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from penstock.pipeline.compile.transforms import effect
from penstock.pipeline.jobs.flows import flows as find_flows
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.stream.pack_stream import pack_stream
from penstock.pipeline.tables.channels import channel_factors as factors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from penstock.pipeline.project.settings import Project

ORDER = ("ts", "sender", "seq")
"""Columns that order a queue of events."""


def packed(project: Project) -> Callable[[DataFrame], DataFrame]:
    """Stream of events, packed queue by queue: those of one run that exceed the capacity."""

    def transform(events: DataFrame) -> DataFrame:
        own = project.settings
        packing = pack_stream(
            project.policy(),
            capacity=own.capacity,
            key=list(own.key),
            order=[name for name in ORDER if name not in own.key],
            schema=_without("file", "broken"),
            # Nothing is held for a next run, which may be hours away, and no clock decides: a run that is
            # repeated makes the same rows.
            hold_s=0,
            forget_s=0,
        )
        return events.transform(packing).select(*TABLES["packed"].names)

    return transform


def _without(*names: str) -> StructType:
    """Columns of `events` but for some."""
    return StructType([field for field in TABLES["events"].schema if field.name not in names])


def digests(project: Project) -> Callable[[DataFrame], DataFrame]:
    """What each filter dropped into each digest of `packed`."""

    def transform(rows: DataFrame) -> DataFrame:
        queue = sf.concat_ws(" ", *project.settings.key)
        found = rows.where("kind = 'digest'")
        each = found.select(
            queue.alias("queue"), "digest.from_us", "digest.to_us", sf.explode("digest.causes").alias("cause")
        )
        return each.select("queue", "from_us", "to_us", "cause.*").select(*TABLES["digests"].names)

    return transform


def channel_factors(subscriptions: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Factors of each channel, from `polls` with these subscriptions."""
    return factors(subscriptions)


def recent(days: int) -> Callable[[DataFrame], DataFrame]:
    """Rows of the last days, counted from the newest row."""

    def transform(frame: DataFrame) -> DataFrame:
        newest = frame.agg(sf.max("day").alias("__newest"))
        both = frame.crossJoin(sf.broadcast(newest))
        return both.where(sf.col("day") > sf.date_sub("__newest", days)).drop("__newest")

    return transform


def once(events: DataFrame) -> DataFrame:
    """Events without those that were recorded twice, at two nodes or in a file that was copied."""
    return events.dropDuplicates(["sender", "topic", "seq", "ts"])


def flows(project: Project) -> Callable[[DataFrame], DataFrame]:
    """Flows of the last days, from `arrivals`."""
    found = find_flows(schema=TABLES["arrivals"].schema)
    return lambda arrivals: arrivals.transform(recent(project.settings.days)).transform(found)


def filter_effect(project: Project) -> Callable[[DataFrame], DataFrame]:
    """What each filter would drop of the last days' events, from `events`."""

    def transform(events: DataFrame) -> DataFrame:
        own, policy = project.settings, project.policy()
        rows = events.transform(recent(own.days)).transform(once)
        order = [name for name in ORDER if name not in own.key]
        schema = _without("day", "file", "broken")
        found = rows.transform(effect(policy, key=own.key, order=order, level=policy.highest, schema=schema))
        return found.select(*TABLES["filter_effect"].names)

    return transform
