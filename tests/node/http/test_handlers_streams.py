"""Streams in the API: the list, the metrics, $SYS, and `penstock streams`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from typer.testing import CliRunner

from penstock import limits
from penstock.cli import terminal
from penstock.cli.app import app
from penstock.node.observe import metrics, rows
from penstock.node.observe.status import NodeStatus
from penstock.node.observe.sys_topics import SysTopics
from penstock.node.streams.status import StreamsStatus
from tests.kit.http_node import running
from tests.kit.metrics import samples
from tests.kit.status import LINK, LOG, ORDERS, SOUTH, STREAMS, broker

if TYPE_CHECKING:
    from penstock.node.observe.status import Observed


class Told:
    """Stands where the streams of a node are."""

    def __init__(self, status: StreamsStatus) -> None:
        self._status = status

    def status(self) -> StreamsStatus:
        return self._status


def give(observed: Observed, status: StreamsStatus = STREAMS) -> None:
    """Let a node have these streams."""
    observed.streams = Told(status)


async def test_streams_are_listed_searched_and_counted() -> None:
    async with running() as node_:
        give(node_.observed)
        found = await node_.get("/streams")
        assert found["enabled"]
        assert found["node"] == "north"
        assert [row["name"] for row in found["streams"]] == ["readings", "orders"]  # the one behind first
        assert found["streams"][1] == json.loads(msgspec.json.encode(ORDERS))
        assert found["neighbours"] == [msgspec.to_builtins(LINK)]
        assert (await node_.get("/streams?search=SHOP"))["total"] == 1
        assert (await node_.get("/streams?search=north&limit=1&offset=1"))["streams"] == []
        figures = samples((await node_.ask("GET", "/metrics"))[1])
        assert figures["penstock_streams"] == [({}, 2.0)]
        assert figures["penstock_stream_log_bytes"] == [({"stream": "orders"}, 5_000.0)]
        assert figures["penstock_stream_rate"] == [({"stream": "orders"}, 12.5)]
        assert ({"stream": "orders", "state": "away"}, 1.0) in figures["penstock_stream_readers"]
        assert figures["penstock_stream_link_up"] == [({"neighbour": "south"}, 0.0)]
        assert figures["penstock_stream_log_commit_seconds_total"][0][1] == pytest.approx(0.006)


async def test_a_node_without_streams_says_so() -> None:
    async with running() as node_:
        found = await node_.get("/streams")
        assert not found["enabled"]
        assert found["streams"] == []
        assert "penstock_stream" not in (await node_.ask("GET", "/metrics"))[1]
        said = await asyncio.to_thread(CliRunner().invoke, app, ["streams", "--node", node_.url])
        assert said.exit_code != 0


def test_stopped_streams_come_first() -> None:
    fault = msgspec.structs.replace(LOG, fault="no space left")
    stopped = msgspec.structs.replace(ORDERS, name="a-stopped", state="stopped", log=fault)
    status = StreamsStatus(node="n", streams=(ORDERS, SOUTH, stopped), neighbours=())
    assert [row.name for row in rows.streams(status)] == ["a-stopped", "readings", "orders"]


def test_only_so_many_streams_have_series_of_their_own() -> None:
    many = tuple(msgspec.structs.replace(ORDERS, name=f"s{number}") for number in range(500))
    crowded = NodeStatus(broker(1), streams=StreamsStatus("n", many, ()))
    figures = samples(metrics.text(crowded)[0].decode())
    assert figures["penstock_streams"] == [({}, 500.0)]
    assert len(figures["penstock_stream_held"]) == limits.METRICS_STREAMS


async def test_totals_are_below_sys() -> None:
    async with running() as node_:
        give(node_.observed)
        found = SysTopics(node_.observed.status, node_.broker.publish).figures(node_.observed.status())
        assert found["streams/count"] == "2"
        assert found["streams/hosted"] == "1"
        assert found["streams/log/bytes"] == "5000"
        assert found["streams/readers/away"] == "2"
        assert found["streams/neighbours/up"] == "0"


@pytest.mark.parametrize("options", [(), ("--json",), ("--search", "orders", "--watch")])
async def test_the_command_shows_what_the_node_says(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal.out, "_width", 160)  # a narrow terminal breaks lines
    async with running() as node_:
        fault = "stream 'orders': no space left"
        give(node_.observed, msgspec.structs.replace(STREAMS, faults=(fault,)))
        said = await asyncio.to_thread(CliRunner().invoke, app, ["streams", "--node", node_.url, *options])
        assert said.exit_code == 0, said.output
        if "--json" in options:
            assert json.loads(said.output)["streams"][1]["name"] == "orders"
        else:
            assert "orders" in said.output
            assert "billing" in said.output
            assert "connection refused" in said.output
            assert fault in said.output
            assert ("readings" in said.output) == (not options)
