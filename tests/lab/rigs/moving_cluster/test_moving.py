"""Clients that move between nodes under random faults: no rule is broken, and a broken one is noticed."""

from __future__ import annotations

import json
from functools import cache

import pytest
from tests.kit.effort import seeds
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.core.cluster import handover
from penstock.node.cluster.incoming import Incoming
from penstock.node.cluster.moves import Moves
from penstock_lab.rigs.moving_cluster.moving import run

FOUND = [
    *(169, 239, 298, 435, 482, 1021, 1169, 1304, 1430, 4413, 20729),
    *(50121, 50897, 60212, 70154, 71707, 80773, 81934, 91903, 101111),
    *(26, 176, 221, 530, 70541, 91247, 91837, 92370, 100320, 301182, 302255, 311541),
]
"""Runs that a fault has failed."""

clean = cache(run)
"""A run is its seed: those without a planted fault are made once for all tests."""


@pytest.mark.parametrize("seed", [*seeds(1, 160), *FOUND])
def test_no_rule_is_broken(seed: int) -> None:
    assert clean(seed).problems == ()


@pytest.mark.slow
def test_clients_move_faults_happen_and_events_are_given_up() -> None:
    found = [clean(seed) for seed in range(1, 21)]
    assert all(one.published and one.received for one in found)
    assert sum(one.moves for one in found) > 30
    assert sum(one.faults for one in found) > 10
    assert sum(one.abandoned for one in found) > 0


def test_a_run_is_its_seed() -> None:
    assert run(7) == clean(7)


@pytest.mark.slow
def test_events_that_are_delivered_at_both_nodes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Incoming, "_sieved", lambda _, receivers, *__: receivers)
    monkeypatch.setattr(handover, "below", lambda *_: False)
    assert any("once more" in said for seed in range(1, 21) for said in run(seed).problems)


@pytest.mark.slow
def test_events_that_are_lost_on_the_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(self: Moves, node: str) -> list[str]:
        return [self.name, node, *(peer.seen.name for peer in self._host.peers())]

    monkeypatch.setattr(Moves, "fences", none)
    monkeypatch.setattr(handover.Held, "above", lambda *_: iter(()))
    assert any("neither here nor counted" in said for seed in range(1, 21) for said in run(seed).problems)


def test_the_command_runs_moving_clients() -> None:
    said = CliRunner().invoke(app, ["sim", "cluster", "--moving", "--runs", "2", "--seed", "3", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["ok"], found["runs"], found["failures"]) == (True, 2, [])
    assert found["moves"] > 0
