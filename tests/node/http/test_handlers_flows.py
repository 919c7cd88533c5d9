"""Flows in the API: the list, the metrics, and `penstock flows`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.core.slots.flows import key_of
from penstock.node.config.schema import Listener
from penstock.node.config.slots import SlotSettings
from penstock.node.slots.flows import COLUMNS, Flows, Topic
from penstock.node.store.control_table import TableFollower
from tests.kit.http_node import Running, running

SLOTS: dict[str, Any] = {
    "listeners": (Listener(port=0, slots=True),),
    # The flow of `beat` ends at once; it is not silent however slow the machine is.
    "slots": SlotSettings(capacity=10, silent_least_s=3_600),
}


def beat(node: Running, count: int = 6) -> None:
    """A told flow, and one that is refused."""
    flows = node.observed.flows
    assert isinstance(flows, Flows)
    now_us = node.broker.clock()
    topic = Topic(key_of("sensor", "beat"), "beat")
    assert not flows.control.tell("sensor", "beat", 50_000, now_us=now_us)
    for number in range(count):
        flows.take("sensor", topic, 1, now_us=now_us + 50_000 * number)
    flows.control.tell("other", "slow", 600_000_000, now_us=now_us)


async def test_flows_are_listed_searched_and_counted() -> None:
    async with running(**SLOTS) as node:
        beat(node)
        found = await node.get("/flows")
        assert found["enabled"]
        assert found["total"] == 2
        refused, row = found["flows"]
        assert (refused["client_id"], refused["state"]) == ("other", "refused")
        assert refused["reason"].startswith("period beyond the window: 10 min")
        assert (row["client_id"], row["topic"], row["state"], row["told"]) == (
            "sensor",
            "beat",
            "served",
            "client",
        )
        assert row["period_us"] == 50_000
        assert row["on_time"] == 5
        assert found["status"]["refused"] == {"period beyond the window": 1}
        assert (await node.get("/flows?search=BEA&state=served"))["total"] == 1
        assert (await node.get("/flows?state=silent"))["total"] == 0
        assert (await node.get("/flows?limit=1&offset=2"))["flows"] == []
        text = (await node.ask("GET", "/metrics"))[1]
        assert "penstock_flows_served 1.0" in text
        assert 'penstock_flow_messages_total{lane="reserved"} 5.0' in text
        assert 'penstock_flows_refused_total{reason="period beyond the window"} 1.0' in text


async def test_a_node_without_slots_says_so() -> None:
    async with running() as node:
        assert await node.get("/flows") == {
            "enabled": False,
            "total": 0,
            "offset": 0,
            "flows": [],
            "status": None,
        }
        assert "penstock_flows" not in (await node.ask("GET", "/metrics"))[1]


@pytest.mark.parametrize("options", [(), ("--json",), ("--state", "served", "--watch")])
async def test_the_command_lists_what_the_node_says(options: tuple[str, ...]) -> None:
    async with running(**SLOTS) as node:
        beat(node)
        url = node.url
        flows = node.observed.flows
        assert isinstance(flows, Flows)
        flows.follower = TableFollower(Path("none"), "reservations", COLUMNS, keys=2, taken=flows._take_table)
        flows.follower.fault = "v=0002 is broken"
        said = await asyncio.to_thread(CliRunner().invoke, app, ["flows", "--node", url, *options])
        assert said.exit_code == 0, said.output
        if "--json" in options:
            assert [one["topic"] for one in json.loads(said.output)["flows"]] == ["slow", "beat"]
        else:
            assert "sensor" in said.output
            assert "control table not taken: v=0002 is broken" in said.output
            assert "50 ms" in said.output
