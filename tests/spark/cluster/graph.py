"""Defines every transform as a table of a declarative pipeline, for Spark to check; see test_cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import pipelines as dp
from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

from penstock.core.backtest.settings import BASELINES, Candidate, Settings
from penstock.core.queues import drain
from penstock.pipeline import effect, pack, pack_stream, with_digests
from penstock.pipeline.jobs.allocation import AllocationTerms, allocation
from penstock.pipeline.jobs.backtest.replay import backtest
from penstock.pipeline.jobs.flows import flows, reservations
from penstock.pipeline.session import open_session
from penstock.pipeline.tables.channels import POLLS, SUBSCRIPTIONS, by_domain, channel_factors
from penstock.pipeline.tables.schemas import EVENTS
from tests.spark.cluster.job import POLICY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def found(kind: str, address: str, folder: Path) -> dict[str, list[str]]:
    """The tables of the graph, and what Spark says of it; an error ends the program."""
    assert kind == "remote"
    with open_session(app="penstock tests", remote=address) as spark:
        graph = create_dataflow_graph(spark, None, None, None)
        registry = SparkConnectGraphElementRegistry(spark, graph)
        with graph_element_registration_context(registry), block_session_mutations():
            tables = _define(spark)
        told = start_run(spark, graph, None, False, None, True, f"file://{folder}/storage")  # dry
        events = [one["pipeline_event_result"].event for one in told if "pipeline_event_result" in one]
    return {"tables": tables, "messages": [one.message for one in events]}


def _define(spark: SparkSession) -> list[str]:
    settings = Settings(
        candidates=(Candidate("ours", POLICY), *BASELINES),
        capacity=100,
        drain=drain("10/s"),
        key=("topic",),
        measured=("v",),
    )
    _source(spark, "events", EVENTS)
    _source(spark, "polls", POLLS)
    _source(spark, "subscriptions", SUBSCRIPTIONS)
    tables: dict[str, tuple[str, Callable[[], Callable[[DataFrame], DataFrame]]]] = {
        "packed": ("events", lambda: pack(POLICY, key="topic", order=["ts", "seq"], level=3)),
        "filter_effect": ("events", lambda: effect(POLICY, key="topic", order="ts")),
        "digests": ("events", with_digests),
        "tested": ("events", lambda: backtest(settings)),
        "flows": ("events", lambda: flows(client="sender", schema=EVENTS)),
        "reservations": ("flows", reservations),
        "factors": ("polls", lambda: channel_factors(spark.read.table("subscriptions"))),
        "services": ("factors", by_domain),
        "allocation": (
            "services",
            lambda: allocation(AllocationTerms(tau_us=10**6, least_us=1, most_us=10**9, host_limit=9)),
        ),
    }
    for name, (source, made) in tables.items():
        dp.materialized_view(name=name)(_flow(spark, source, made))
    # Not from a table of the graph: Spark 4.3 itself analyses what comes before a grouped map with state.
    arriving = spark.readStream.format("rate").load().selectExpr(*_nothing(EVENTS))
    packing = pack_stream(POLICY, capacity=100, key="topic", order="ts")
    dp.table(name="shed")(lambda: arriving.transform(packing))
    return [*tables, "shed"]


def _flow(spark: SparkSession, source: str, made: Callable[[], Any]) -> Callable[[], DataFrame]:
    return lambda: spark.read.table(source).transform(made())


def _source(spark: SparkSession, name: str, schema: StructType) -> None:
    dp.materialized_view(name=name)(lambda: spark.range(1).selectExpr(*_nothing(schema)))


def _nothing(schema: StructType) -> list[str]:
    return [f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in schema]
