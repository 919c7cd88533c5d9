"""Figure 11 through the pipeline's own tables: `events`, `traces`, `filter_effect` and `health`.

The generated hours and the packs of their queues are written as a node's recordings. A project of four tables
reads them; levels and times between packs are then in `health`, the effect of each filter in `filter_effect`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.model.instant import SECOND_US
from penstock.pipeline.project.catalogue import recorded_schema
from penstock.pipeline.project.create import create
from penstock.pipeline.project.plain import DEFINITIONS, run_plain
from penstock.policy.text.forms import to_yaml
from penstock_lab.experiments.pack.campus import CAPACITY, POLICY, Filtered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLES: Final = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from penstock.pipeline.project import bronze, gold, silver
from penstock.pipeline.project.settings import open_project

spark = SparkSession.active()
project = open_project(__file__)


@dp.table
def events():
    return bronze.recorded(spark, project, "events")


@dp.table
def traces():
    return bronze.recorded(spark, project, "traces")


@dp.materialized_view
def filter_effect():
    return spark.read.table("events").transform(silver.filter_effect(project))


@dp.materialized_view
def health():
    return gold.receivers(spark.read.table("traces"))
"""
"""Definitions of the project: the lines of every project, for four of its tables."""


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Figures that the tables of the pipeline have."""

    levels: dict[str, dict[int, float]]
    """By ladder: packs that asked for each level, in all hours."""
    median_s: dict[str, float]
    """By ladder: median time between packs."""
    mean_s: dict[str, float]
    """By ladder: mean time between packs."""
    filters: tuple[Filtered, ...]
    """Effect of each filter on full queues."""


def through_tables(spark: SparkSession, messages: DataFrame, trace: DataFrame) -> TableFigures:
    """Write messages and packs as recordings, run the pipeline on them, and read its tables."""
    before = spark.catalog.currentDatabase()
    with TemporaryDirectory(prefix="penstock-fig11-") as name:
        folder = Path(name)
        _events(messages).write.parquet(str(folder / "data" / "recorded"))
        _packs(trace).write.parquet(str(folder / "data" / "traces"))
        policy = folder / "locator.yaml"
        policy.write_text(to_yaml(POLICY))
        project = create(folder / "project", data=[folder / "data"], key=["sender"], policy=policy)
        (project.folder / DEFINITIONS / "tables.py").write_text(_TABLES)
        run_plain(spark, project, done=lambda *_: None)
        try:
            return _read(spark)
        finally:
            used = spark.catalog.currentDatabase()
            spark.catalog.setCurrentDatabase(before)
            spark.sql(f"DROP DATABASE `{used}` CASCADE")


def _events(messages: DataFrame) -> DataFrame:
    """Messages as a node records events; each hundred, a full queue, has a sender of its own."""
    queue = sf.concat_ws("/", "run", sf.floor(sf.col("seq") / CAPACITY))
    said = sf.struct("message_type", "action", "ap", "host", "ip")
    found = messages.select(
        "topic",
        "ts",
        "seq",
        queue.alias("sender"),
        sf.to_json(said).cast("binary").alias("payload"),
        sf.create_map().cast("map<string,string>").alias("properties"),
        sf.lit("application/json").alias("content_type"),
    )
    return found.select(*recorded_schema("events").names)


def _packs(trace: DataFrame) -> DataFrame:
    """Packs as a node samples its queues: a sample right behind each pack; of the rest nothing is known."""
    own = Window.partitionBy("run", "ladder").orderBy("at_us", "time_us")
    packs = trace.where("what = 'pack'").withColumn("packs", sf.row_number().over(own))
    known = {
        "ts": sf.col("at_us"),
        "client": sf.concat(sf.lit("locator-"), sf.col("run")),
        "filter": sf.concat(sf.lit("campus/#"), sf.lit(" "), sf.col("ladder")),
        "policy": sf.col("ladder"),
        "level": sf.col("level"),
        "packs": sf.col("packs"),
    }
    schema = recorded_schema("traces")
    return packs.select(
        *(known.get(one.name, sf.lit(0)).cast(one.dataType).alias(one.name) for one in schema)
    )


def _read(spark: SparkSession) -> TableFigures:
    health = spark.read.table("health").collect()
    levels: dict[str, dict[int, float]] = {}
    for row in health:
        if row["measure"] == "level":
            ladder, _, level = row["name"].partition(": level ")
            levels.setdefault(ladder, {})[int(level)] = row["value"]
    effects = spark.read.table("filter_effect").orderBy("level", "position").collect()
    return TableFigures(
        levels=levels,
        median_s={
            row["name"]: row["value"] / SECOND_US
            for row in health
            if row["measure"] == "between_packs_median"
        },
        mean_s={row["name"]: row["value"] / SECOND_US for row in health if row["measure"] == "between_packs"},
        filters=tuple(Filtered(row["level"], row["filter"], row["seen"], row["dropped"]) for row in effects),
    )
