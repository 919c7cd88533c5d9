"""The cost of trees in a large cluster: few links at each node, and each message to everybody once."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from penstock.cli.app import app
from penstock_lab.sim.cluster.cost import KILLS, Large, cost


def test_no_node_sends_on_many_links_and_the_origin_sends_less_than_without_trees() -> None:
    found = cost(Large(nodes=120, zones=3, fan_out=4))
    for reach in (found.everybody, found.some, found.filter):
        assert reach.most_links <= 8
        assert reach.origin_bytes < reach.direct_bytes
        assert reach.acks == reach.origin_links
    assert found.everybody.to == found.filter.to == 119
    assert found.some.to == 11
    assert found.everybody.hops > 2


def test_few_nodes_are_one_hop() -> None:
    found = cost(Large(nodes=9, zones=1, fan_out=8))
    assert (found.everybody.hops, found.everybody.origin_links) == (1, 8)
    assert found.everybody.origin_bytes == found.everybody.direct_bytes
    assert [one.resent for one in found.repairs] == [0] * len(KILLS)


def test_what_is_sent_again_is_what_was_behind_the_killed() -> None:
    found = cost(Large(nodes=120, zones=1, fan_out=4))
    assert [one.killed for one in found.repairs] == [kills for kills, _ in KILLS]
    assert all(0 < one.missed <= one.resent < 119 for one in found.repairs)


def test_the_command_shows_the_cost() -> None:
    said = CliRunner().invoke(app, ["sim", "cluster", "--nodes", "30", "--zones", "2", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["shape"] == {"nodes": 30, "zones": 2, "fan_out": 8}
    assert found["everybody"]["to"] == 29
    said = CliRunner().invoke(app, ["sim", "cluster", "--nodes", "30", "--fan-out", "3"])
    assert "30 nodes in 1 zone, fan-out 3" in said.output
