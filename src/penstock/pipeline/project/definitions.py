"""The tables of this pipeline, one function each; Spark runs them in the order of their dependencies.

This file is yours: add tables, change expectations. `penstock pipeline run --engine plain` runs the functions
in the order in which they stand here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from penstock.pipeline.project import bronze, gold, silver
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.project.expectations import expect
from penstock.pipeline.project.settings import open_project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

spark = SparkSession.active()
project = open_project(__file__)

EXPECTED = {
    "events": [expect("has a time", "ts > 0", action="drop"), expect("has a topic", "topic <> ''")],
    "polls": [expect("has an address", "url <> ''", action="drop"), expect("has a size", "bytes >= 0")],
    "subscriptions": [expect("has an address", "url <> ''", action="drop")],
    "traces": [expect("every event is accounted for", "delivered + digested + counted <= accepted")],
}

# -- bronze: what nodes recorded -----------------------------------------------------------------------------


@dp.table(comment=TABLES["events"].about)
def events() -> DataFrame:
    return bronze.recorded(spark, project, "events", EXPECTED["events"])


@dp.table(comment=TABLES["polls"].about)
def polls() -> DataFrame:
    return bronze.recorded(spark, project, "polls", EXPECTED["polls"])


@dp.table(comment=TABLES["subscriptions"].about)
def subscriptions() -> DataFrame:
    return bronze.recorded(spark, project, "subscriptions", EXPECTED["subscriptions"])


@dp.table(comment=TABLES["traces"].about)
def traces() -> DataFrame:
    return bronze.recorded(spark, project, "traces", EXPECTED["traces"])


@dp.table(comment=TABLES["quarantine"].about)
def quarantine() -> DataFrame:
    return bronze.quarantine(spark, project, EXPECTED)


@dp.table(comment=TABLES["arrivals"].about)
def arrivals() -> DataFrame:
    return spark.readStream.table("events").transform(bronze.arrivals)


# -- silver --------------------------------------------------------------------------------------------------


# From the files, and made before Spark asks for it: it analyses what comes before a grouped map with state,
# which is not allowed inside a table's function.
_events = bronze.recorded(spark, project, "events", EXPECTED["events"])
_packed = _events.transform(silver.packed(project))


@dp.table(comment=TABLES["packed"].about)
def packed() -> DataFrame:
    return _packed


@dp.table(comment=TABLES["digests"].about)
def digests() -> DataFrame:
    return spark.readStream.table("packed").transform(silver.digests(project))


@dp.materialized_view(comment=TABLES["channel_factors"].about)
def channel_factors() -> DataFrame:
    subscribed = spark.read.table("subscriptions")
    return spark.read.table("polls").transform(silver.channel_factors(subscribed))


@dp.materialized_view(comment=TABLES["flows"].about)
def flows() -> DataFrame:
    return spark.read.table("arrivals").transform(silver.flows(project))


@dp.materialized_view(comment=TABLES["filter_effect"].about)
def filter_effect() -> DataFrame:
    return spark.read.table("events").transform(silver.filter_effect(project))


# -- gold ----------------------------------------------------------------------------------------------------


@dp.materialized_view(comment=TABLES["allocation"].about)
def allocation() -> DataFrame:
    return spark.read.table("channel_factors").transform(gold.allocation(project))


@dp.materialized_view(comment=TABLES["reservations"].about)
def reservations() -> DataFrame:
    return spark.read.table("flows").transform(gold.reservations)


@dp.materialized_view(comment=TABLES["report"].about)
def report() -> DataFrame:
    return spark.read.table("events").transform(gold.report(spark.read.table("packed")))


@dp.materialized_view(comment=TABLES["health"].about)
def health() -> DataFrame:
    return gold.health(spark)
