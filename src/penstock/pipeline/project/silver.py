"""Silver tables: packed events, digests, factors of channels, flows, effects of filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.pipeline.compile.queue_columns import with_columns
from penstock.pipeline.compile.transforms import effect
from penstock.pipeline.jobs.flows import flows as find_flows
from penstock.pipeline.project.catalogue import TABLES, recorded_schema
from penstock.pipeline.stream.pack_stream import pack_stream
from penstock.pipeline.tables.channels import channel_factors as factors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from penstock.pipeline.project.settings import Project

ORDER: Final = ("ts", "sender", "seq")
"""Columns that order a queue of events."""

_BESIDE: Final = ("file", "broken")
"""Columns of bronze tables that are about a row, and not of it."""


def packed(project: Project) -> Callable[[DataFrame], DataFrame]:
    """Stream of events, packed queue by queue: those of one run that exceed the capacity."""
    own = project.settings
    wanted = [one for one in TABLES["events"].schema if one.name not in _BESIDE]
    rows = pack_stream(
        project.policy(),
        capacity=own.capacity,
        key=list(own.key),
        order=_order(project),
        schema=st.StructType(wanted),
        # Nothing is held for a next run, which may be hours away, and no clock decides: a run that is
        # repeated makes the same rows.
        hold_s=0,
        forget_s=0,
    )
    names, taken = TABLES["packed"].names, [one.name for one in wanted]
    return lambda events: events.select(*taken).transform(rows).select(*names)


def _order(project: Project) -> list[str]:
    return [name for name in ORDER if name not in project.settings.key]


def digests(project: Project) -> Callable[[DataFrame], DataFrame]:
    """For each digest of `packed`, how many events each filter dropped into it."""

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


# Without `drop` and `dropDuplicates`: a Connect server analyses their frame at once, which a pipeline's
# function must not ask for.


def recent(days: int, table: str) -> Callable[[DataFrame], DataFrame]:
    """Rows of a table of the last days, counted from the newest row."""
    names = TABLES[table].names

    def transform(frame: DataFrame) -> DataFrame:
        newest = frame.agg(sf.max("day").alias("__newest"))
        both = frame.crossJoin(sf.broadcast(newest))
        return both.where(sf.col("day") > sf.date_sub("__newest", days)).select(*names)

    return transform


def once(events: DataFrame) -> DataFrame:
    """Events as nodes recorded them, without those that are there twice: of two nodes, or a copied file."""
    same = Window.partitionBy("sender", "topic", "seq", "ts").orderBy("file")
    numbered = with_columns(events, {"__copy": sf.row_number().over(same)})
    return numbered.where("__copy = 1").select(*recorded_schema("events").names)


def flows(project: Project) -> Callable[[DataFrame], DataFrame]:
    """Flows of the last days, from `arrivals`."""
    found = find_flows(schema=TABLES["arrivals"].schema)
    days = recent(project.settings.days, "arrivals")
    return lambda arrivals: arrivals.transform(days).transform(found)


def filter_effect(project: Project) -> Callable[[DataFrame], DataFrame]:
    """For each filter, how many of the last days' events it would drop, from `events`."""
    own, policy = project.settings, project.policy()
    counted = effect(
        policy,
        key=list(own.key),
        order=_order(project),
        level=policy.highest,
        schema=recorded_schema("events"),
    )

    def transform(events: DataFrame) -> DataFrame:
        rows = events.transform(recent(own.days, "events")).transform(once)
        return rows.transform(counted).select(*TABLES["filter_effect"].names)

    return transform
