"""The whole loop: logs of a node, an allocation made of them on Spark, and back into the node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.core.channels.address import topic_of
from penstock.model.instant import SECOND_US
from penstock.node.channels.poll_log import POLLS, SUBSCRIPTIONS
from penstock.pipeline.jobs.allocation import AllocationTerms, allocation
from penstock.pipeline.tables.channels import channel_factors
from penstock.pipeline.tables.control_tables import publish
from tests.kit.channels import first_version, html, watching
from tests.kit.waiting import until
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_what_a_node_logs_becomes_its_schedule(spark: SparkSession, tmp_path: Path) -> None:
    async def log() -> tuple[str, str]:
        async with WebServer() as server, watching(str(tmp_path / "data"), log=True) as node:
            popular, lonely = (server.put(f"/{name}", html(name)) for name in ("popular", "lonely"))
            for number in range(4):
                await node.channels.subscribe(f"feed:{number}", popular)
            async with node.client("a", session_expiry_s=60) as client:
                await client.subscribe(topic_of(lonely))
                for url in (popular, lonely):
                    await first_version(node, url)
                server.put("/popular", html("news"))
                await until(lambda: node.told.heard)
                await until(lambda: node.channels.channel(lonely).counts.polls > 5)
            return popular, lonely

    popular, lonely = asyncio.run(log())
    tables = {
        kind.name: spark.read.parquet(str(tmp_path / "data" / kind.name)) for kind in (POLLS, SUBSCRIPTIONS)
    }
    factors = tables["polls"].transform(channel_factors(tables["subscriptions"]))
    found = {row.url: row for row in factors.collect()}
    assert found[popular].subscribers == 4
    assert found[popular].changes == 1
    assert found[lonely].polls > 5
    terms = AllocationTerms(tau_us=60 * SECOND_US, least_us=SECOND_US, most_us=3_600 * SECOND_US)
    publish(factors.transform(allocation(terms)), tmp_path / "allocation", name="allocation")

    async def load() -> None:
        async with watching(interval_s=60.0, table=str(tmp_path / "allocation")) as node:
            node.channels.add(popular)
            assert node.channels.status().table_version == 1
            assert "The control table gives it" in node.channels.why(popular)
            assert SECOND_US <= node.channels.channel(popular).interval_us < 60 * SECOND_US

    asyncio.run(load())
