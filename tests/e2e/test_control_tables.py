"""A running node changes its polling, its reservations and a receiver's policy when a pipeline publishes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pyarrow as pa
import pytest

from penstock.client import Client
from penstock.pipeline.project.catalogue import TABLES
from penstock.pipeline.tables.control_tables import write_version
from penstock_lab.rigs.local_node import local_node
from tests.kit.channels import html
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

pytestmark = pytest.mark.e2e

KINDS = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
POLICY = "name: {}\nlevels:\n  - keep: {{latest_by: $topic}}\n"


def publish(folder: Path, table: str, **row: object) -> None:
    """The next version of a control table, with the columns that the pipeline gives it."""
    fields = [(one.name, KINDS[one.dataType.simpleString()]) for one in TABLES[table].schema]
    write_version(pa.Table.from_pylist([row], pa.schema(fields)), folder / table, name=table)


def publish_all(folder: Path, url: str, *, interval_s: int, period_us: int, policy: str) -> None:
    publish(folder, "allocation", url=url, interval_us=interval_s * 10**6, host="127.0.0.1", price=1.0)
    publish(folder, "reservations", client="bed-0", topic="ward/0", period_us=period_us, jitter_us=1_000)
    publish(folder, "policies", name=policy, client="dash-*", filter="ward/#", policy=POLICY.format(policy))


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(300):
        while not await found():
            await asyncio.sleep(0.1)


async def test_all_three_tables_reach_a_running_node(tmp_path: Path) -> None:
    config = {
        "listeners": [{"kind": "tcp", "port": 0, "slots": True}],
        "channels": {
            "enabled": True,
            "table": str(tmp_path / "allocation"),
            "interval_s": 3_600,
            "polling": {
                "networks": ["127.0.0.0/8"],
                "least_s": "100ms",
                "host_polls": 1_000_000,
                "robots": "off",
            },
        },
        "slots": {"reservations": str(tmp_path / "reservations"), "detect": False},
        "policy_table": str(tmp_path / "policies"),
    }
    async with WebServer() as server:
        url = server.put("/page", html("page"))
        publish_all(tmp_path, url, interval_s=600, period_us=200_000, policy="first")
        with local_node(config) as node:
            async with (
                aiohttp.ClientSession(f"{node.http}api/v1/") as web,
                Client(node.url, client_id="dash-1") as dash,
                Client(node.url, client_id="bed-0") as bed,
            ):

                async def ask(path: str, body: dict[str, Any] | None = None) -> Any:
                    method = "GET" if body is None else "POST"
                    async with web.request(method, path, json=body) as answer:
                        found = await answer.json(content_type=None)
                        assert answer.status == 200, found
                        return found

                async def followed(interval_s: int, period_us: int, policy: str) -> bool:
                    await bed.publish("ward/0", json.dumps({"pulse": 70}))
                    (client,) = (await ask("clients?search=dash-1"))["clients"]
                    seen = await ask(f"clients/{client['client_id']}")
                    flows = (await ask("flows?search=bed-0"))["flows"]
                    channel = await ask(f"channels/one?url={url}")
                    return (
                        seen["subscriptions"][0]["policy"] == policy
                        and [one["period_us"] for one in flows] == [period_us]
                        and channel["channel"]["interval_us"] == interval_s * 10**6
                    )

                await dash.subscribe("ward/#")
                await ask("channels/add", {"url": url})
                await until(lambda: followed(600, 200_000, "first"))
                publish_all(tmp_path, url, interval_s=60, period_us=400_000, policy="second")
                await until(lambda: followed(60, 400_000, "second"))
                tables = (await ask("tables"))["tables"]
                assert {one["table"]: one["version"] for one in tables} == dict.fromkeys(
                    ("allocation", "reservations", "policies"), 2
                )
