"""The cluster in the API, the metrics and $SYS, and `penstock cluster`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from typer.testing import CliRunner

from penstock.cli import terminal
from penstock.cli.app import app
from penstock.errors import ClusterError
from penstock.node.observe.sys_topics import SysTopics
from tests.kit.http_node import running
from tests.kit.metrics import samples
from tests.kit.status import CLUSTER

if TYPE_CHECKING:
    from penstock.node.cluster.status import ClusterStatus
    from penstock.node.observe.status import Observed


class Told:
    """Stands where the cluster of a node is."""

    def __init__(self, status: ClusterStatus) -> None:
        self._status = status
        self.orders: list[tuple[str, bool, int, bool]] = []

    def status(self) -> ClusterStatus:
        return self._status

    async def drain(self, node: str, *, undo: bool, rate: int, leave: bool) -> tuple[str, int]:
        if node == "n9":
            raise ClusterError("there is no node named 'n9' in this cluster; there are: n1, n2, n3")
        self.orders.append((node, undo, rate, leave))
        return node or "n1", 7


def give(observed: Observed, status: ClusterStatus = CLUSTER) -> Told:
    """Let a node belong to a cluster."""
    observed.cluster = told = Told(status)
    return told


async def test_the_cluster_is_in_the_api_the_metrics_and_sys() -> None:
    async with running() as node_:
        give(node_.observed)
        found = await node_.get("/cluster")
        assert found == {"enabled": True, "status": json.loads(msgspec.json.encode(CLUSTER))}
        assert "cluster: node n3 is away" in (await node_.get("/status"))["faults"][0]
        figures = samples((await node_.ask("GET", "/metrics"))[1])
        assert figures["penstock_cluster_nodes"] == [({}, 2.0)]
        assert ({"fate": "handed"}, 4.0) in figures["penstock_cluster_events_total"]
        assert ({"node": "n2"}, 0.0015) in figures["penstock_cluster_link_round_trip_seconds"]
        assert figures["penstock_cluster_link_up"] == [({"node": "n2"}, 1.0), ({"node": "n3"}, 0.0)]
        topics = SysTopics(node_.observed.status, node_.broker.publish).figures(node_.observed.status())
        assert (topics["cluster/nodes"], topics["cluster/away"], topics["cluster/handed"]) == ("2", "1", "4")


async def test_a_node_on_its_own_says_so() -> None:
    async with running() as node_:
        assert await node_.get("/cluster") == {"enabled": False, "status": None}
        assert "penstock_cluster" not in (await node_.ask("GET", "/metrics"))[1]
        for command in ("status", "members"):
            said = await asyncio.to_thread(CliRunner().invoke, app, ["cluster", command, "--node", node_.url])
            assert said.exit_code != 0
            line = ["cluster", command, "--node", node_.url, "--json"]
            said = await asyncio.to_thread(CliRunner().invoke, app, line)
            assert json.loads(said.output) == {"enabled": False, "status": None}


async def test_an_order_to_drain_is_passed_on_and_a_wrong_one_refused() -> None:
    async with running() as node_:
        assert (await node_.post("/cluster/drain", {}))[0] == 409
        told = give(node_.observed)
        assert await node_.post("/cluster/drain", {"node": "n2", "rate": 5}) == (
            200,
            {"node": "n2", "clients": 7},
        )
        assert told.orders == [("n2", False, 5, False)]
        for wrong, status in (
            ({"node": "n9"}, 409),
            ({"rate": 0}, 422),
            ({"rate": "x"}, 422),
            ({"nod": 1}, 422),
        ):
            assert (await node_.post("/cluster/drain", wrong))[0] == status
        assert len(told.orders) == 1


async def test_a_node_that_sends_its_clients_away_is_not_ready() -> None:
    async with running() as node_:
        give(node_.observed, msgspec.structs.replace(CLUSTER, members=()))
        assert (await node_.ask("GET", "/readyz"))[0] == 200
        give(node_.observed, msgspec.structs.replace(CLUSTER, members=(), draining=True))
        status, body, _ = await node_.ask("GET", "/readyz")
        assert status == 503
        assert "draining" in str(body)


@pytest.mark.parametrize("command", ["status", "members"])
async def test_the_commands_show_what_the_node_says(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.out, "_width", 160)
    async with running() as node_:
        give(
            node_.observed,
            msgspec.structs.replace(
                CLUSTER,
                balanced=False,
                problem="no node can be joined",
                draining=True,
                sent_away=3,
                refused=2,
                repaired=3,
            ),
        )
        line = ["cluster", command, "--node", node_.url]
        said = await asyncio.to_thread(CliRunner().invoke, app, line)
        assert said.exit_code == 0, said.output
        assert "ward" in said.output
        assert "away" in said.output
        if command == "status":
            monkeypatch.setattr(terminal.out, "_width", 80)
            piped = await asyncio.to_thread(CliRunner().invoke, app, line)
            (account,) = (one for one in piped.output.splitlines() if one.startswith("all nodes:"))
            assert account.endswith("does not add up")
            assert "10 accepted for other nodes = 4 handed + 1 digested + 2 queued" in said.output
            assert "does not add up" in said.output
            assert "no node can be joined" in said.output
            assert "takes no clients, and has sent 3 clients away" in said.output
            assert "2 connections of others did not become a node" in said.output
            assert "1.5 ms" in said.output
            assert "n4 → n5" in said.output
            assert "6 frames passed on for other nodes; 3 links sent to directly" in said.output
        else:
            assert "2 of 3 nodes here" in said.output
            assert "draining" in said.output
            assert "mqtt://10.0.0.2:1883" in said.output
        said = await asyncio.to_thread(CliRunner().invoke, app, [*line, "--json"])
        assert json.loads(said.output)["status"]["node"] == "n1"
