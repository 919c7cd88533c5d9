"""A running node changes its polling, its reservations and a receiver's policy when a pipeline publishes."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.client import Client
from penstock.pipeline.project.catalogue import CONTROL, TABLES
from penstock.pipeline.project.create import create
from penstock.pipeline.project.runs import rows_in
from penstock.pipeline.tables.control_tables import newest_version, write_version
from penstock_lab.rigs.local_node import local_node
from tests.kit.channels import html
from tests.kit.commands_in_one_process import commands
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e


class WatchedNode:
    """A running node as its HTTP API shows it, a bed that publishes to it, and a page that it polls."""

    def __init__(self, web: aiohttp.ClientSession, bed: Client, url: str) -> None:
        self._web, self.bed, self._url = web, bed, url

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        method = "GET" if body is None else "POST"
        async with self._web.request(method, path, json=body) as found:
            said = await found.json(content_type=None)
            assert found.status == 200, said
            return said

    async def in_force(self) -> tuple[int, list[int], str]:
        """Interval of the page, periods that a table gives the flow bed-0 ward/0, policy of dash-1."""
        channel = await self.ask(f"channels/one?url={self._url}")
        await self.bed.publish("ward/0", pulse(0))  # a flow takes its period when it sends
        flows = (await self.ask("flows?search=ward/0"))["flows"]
        (client,) = (await self.ask("clients?search=dash-1"))["clients"]
        seen = await self.ask(f"clients/{client['client_id']}")
        return (
            channel["channel"]["interval_us"],
            [one["period_us"] for one in flows if one["told"] == "table"],
            seen["subscriptions"][0]["policy"],
        )

    async def follows(self, *, interval_us: int, period_us: int, policy: str) -> None:
        """Wait until all three are in force."""
        await until(self.in_force, (interval_us, [period_us], policy))

    async def versions(self) -> dict[str, int]:
        return {one["table"]: one["version"] for one in (await self.ask("tables"))["tables"]}


async def until(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Wait until a look gives what is wanted; what it gave at last is in the error."""
    found: object = None
    try:
        async with asyncio.timeout(300):
            while (found := await look()) != wanted:
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{found}, expected {wanted}") from None


@asynccontextmanager
async def watched(url: str, control: Path, **more: Any) -> AsyncIterator[WatchedNode]:
    """A node that follows the control tables in a folder and polls a page; dash-1 gets what the bed sends."""
    config = {
        "listeners": [{"kind": "tcp", "port": 0, "slots": True}],
        "channels": {
            "enabled": True,
            "log": "data" in more,
            "table": str(control / "allocation"),
            "interval_s": 1,
            "polling": {
                "networks": ["127.0.0.0/8"],
                "least_s": "100ms",
                "host_polls": 1_000_000,
                "robots": "off",
            },
        },
        "slots": {"reservations": str(control / "reservations"), "detect": False},
        "policy_table": str(control / "policies"),
        **more,
    }
    with local_node(config) as node:
        async with (
            aiohttp.ClientSession(f"{node.http}api/v1/") as web,
            Client(node.url, client_id="dash-1") as dash,
            Client(node.url, client_id="bed-0") as bed,
        ):
            await dash.subscribe("ward/#")
            yield WatchedNode(web, bed, url)


# -- tables written by hand ----------------------------------------------------------------------------------

KINDS = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
POLICY = "name: {}\nlevels:\n  - keep: {{latest_by: $topic}}\n"


def publish(folder: Path, table: str, **row: object) -> None:
    """The next version of a control table, with the columns that the pipeline gives it."""
    fields = [(one.name, KINDS[one.dataType.simpleString()]) for one in TABLES[table].schema]
    write_version(pa.Table.from_pylist([row], pa.schema(fields)), folder / table, name=table)


def publish_all(folder: Path, url: str, *, interval_us: int, period_us: int, policy: str) -> None:
    publish(folder, "allocation", url=url, interval_us=interval_us, host="127.0.0.1", price=1.0)
    publish(folder, "reservations", client="bed-0", topic="ward/0", period_us=period_us, jitter_us=1_000)
    publish(folder, "policies", name=policy, client="dash-*", filter="ward/#", policy=POLICY.format(policy))


async def test_all_three_tables_reach_a_running_node(tmp_path: Path) -> None:
    async with WebServer() as server:
        url = server.put("/page", html("page"))
        first: dict[str, Any] = {"interval_us": 600 * 10**6, "period_us": 200_000, "policy": "first"}
        second: dict[str, Any] = {"interval_us": 60 * 10**6, "period_us": 400_000, "policy": "second"}
        publish_all(tmp_path, url, **first)
        async with watched(url, tmp_path) as node:
            await node.ask("channels/add", {"url": url})
            await node.follows(**first)
            publish_all(tmp_path, url, **second)
            await node.follows(**second)
            assert await node.versions() == dict.fromkeys(CONTROL, 2)


# -- tables of a pipeline ------------------------------------------------------------------------------------

ADVISE = """\
advise:
  - {name: dashboards, client: dash-*, filter: ward/#, attributes: [pulse], budget: 0.3}
"""
CAPACITY = 20
"""Events of a queue, on the node and in the pipeline: few events fill it, so few decide about a policy."""
BEDS = 4
PERIOD_S = 0.1
TRIES = 3
"""Runs in which the advice may hold: on a machine that stalls, the pulses of one may come too unevenly."""


def pulse(number: int) -> str:
    """A pulse that is ordinary, and every twentieth time one that matters."""
    return json.dumps({"pulse": 150 if number % 20 == 19 else 60 + 7 * number % 20})


async def send(bed: Client, count: int, *, first: int) -> None:
    """Publish each PERIOD_S, on topics from ward/`first`.

    Nothing is sent before the last messages are confirmed, and no time is made up for: a machine that stalls
    makes gaps, as lost packets do, and neither bursts nor another period.
    """
    loop = asyncio.get_running_loop()
    for start in range(0, count, BEDS):
        await asyncio.sleep(PERIOD_S - loop.time() % PERIOD_S)
        pulses = (bed.publish(f"ward/{first + place}", pulse(start + place), qos=1) for place in range(BEDS))
        await asyncio.gather(*pulses)


def recorded_after(folder: Path, at_us: int) -> int:
    """How many events a node has recorded after a moment."""
    recordings = ds.dataset([str(path) for path in folder.glob("*.parquet")], format="parquet")
    return int(recordings.count_rows(filter=ds.field("ts") > at_us))


@pytest.fixture
def command() -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs a command; the second one finds the JVM of the first."""
    with commands() as run:
        yield run


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
async def test_one_run_of_a_pipeline_changes_all_three(
    tmp_path: Path, command: Callable[..., dict[str, Any]]
) -> None:
    """The first run learns a policy; the second reads only what is new, and installs and reserves."""
    data = tmp_path / "data"
    project = create(tmp_path / "pipeline", data=[data])
    settings = project.folder / "settings.yml"
    text = settings.read_text().replace("advise: []\n", ADVISE)
    settings.write_text(text.replace("capacity: 1000", f"capacity: {CAPACITY}"))

    async def recorded(kind: str) -> int:
        return rows_in(map(str, (data / kind).glob("*.parquet")))

    async def polled() -> bool:
        return await recorded("polls") >= 3

    async def run(engine: str) -> dict[str, Any]:
        words = ("pipeline", "run", str(project.folder), "--engine", engine, "--master", "local[2]")
        return await asyncio.to_thread(command, *words)

    def only(table: str, **wanted: str) -> Any:
        """The row of a table with these values."""
        rows = ds.dataset(project.folder / "tables" / table, format="parquet").to_table().to_pylist()
        (found,) = [row for row in rows if wanted.items() <= row.items()]
        return found

    async with WebServer() as server:
        url = server.put("/page", html("page"))
        recorder = {"topics": ["ward/#"], "rotate_s": 1}
        queues = {"events": CAPACITY}
        async with watched(url, project.control, data=str(data), recorder=recorder, queues=queues) as node:
            await send(node.bed, 400, first=BEDS)  # topics of which nothing is expected later
            await until(partial(recorded, "recorded"), 400)
            first = await run("plain")
            assert first["tables"]["events"]["rows_read"] == 400
            assert only("policy_advice")["state"] == "shadow"
            assert (project.folder / ".hive").is_dir(), "Hive leaves a folder in /tmp otherwise, for each run"
            await node.ask("channels/add", {"url": url})
            interval_us, periods, policy = await node.in_force()  # the bed sends once
            assert (periods, policy) == ([], "")
            sent = 401
            published: dict[str, int] = {}
            for _ in range(TRIES):
                before = 400 if sent == 401 else sent
                await send(node.bed, 240, first=0)
                sent += 240
                await until(partial(recorded, "recorded"), sent)
                await until(polled, wanted=True)
                again = await run("spark")
                assert again["tables"]["events"]["rows_read"] == sent - before, "only what is new"
                published |= again["control"]
                advice = only("policy_advice")
                if advice["state"] == "held":
                    break
            assert advice["state"] == "held", advice["reason"]
            assert advice["shadow_events"] == recorded_after(data / "recorded", advice["learned_us"]) >= 240
            assert published.keys() == set(CONTROL)
            assert newest_version(project.control / "policies").rows == 1  # type: ignore[union-attr]
            allocated = only("allocation", url=url)["interval_us"]
            assert allocated != interval_us
            period_us = only("reservations", client="bed-0", topic="ward/0")["period_us"]
            await node.follows(interval_us=allocated, period_us=period_us, policy="dashboards")
            assert await node.versions() == published
