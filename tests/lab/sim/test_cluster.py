"""A cluster under random faults: no rule is broken, a run is its seed, and a broken link is noticed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.core.cluster.peer import PeerLink
from penstock.core.cluster.stamps import Stamps
from penstock.errors import ClusterError
from penstock_lab.sim.cluster import run


@pytest.mark.parametrize("seed", range(1, 21))
def test_no_rule_is_broken(seed: int) -> None:
    assert run(seed).problems == ()


def test_faults_happen_and_links_overflow() -> None:
    found = [run(seed) for seed in range(1, 11)]
    assert all(one.published and one.received for one in found)
    assert sum(one.faults for one in found) > 20
    assert sum(one.digested for one in found) > 0
    assert sum(one.abandoned for one in found) > 0


def test_a_run_is_its_seed() -> None:
    assert run(7) == run(7)


def test_a_receiver_that_takes_frames_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = PeerLink.received

    def received(self: PeerLink, frame: bytes, *, now_us: int) -> object:
        if frame[:1] == b"\x01":
            self._receiver.upto = int.from_bytes(frame[1:9], "big") - 1
        return before(self, frame, now_us=now_us)

    monkeypatch.setattr(PeerLink, "received", received)
    assert any(_fails(seed) for seed in range(1, 11))


def _fails(seed: int) -> bool:
    try:
        return bool(run(seed).problems)
    except ClusterError:  # interest that comes twice is refused
        return True


def test_nodes_that_do_not_spread_what_a_dead_node_wrote_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stamps, "written_by", lambda *_: [])
    assert any("retained messages differ" in said for seed in (32, 112, 119) for said in run(seed).problems)


def test_the_command_reports_runs_and_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    said = CliRunner().invoke(app, ["sim", "cluster", "--runs", "2", "--seed", "3", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["ok"], found["runs"], found["failures"]) == (True, 2, [])
    monkeypatch.setattr(Stamps, "written_by", lambda *_: [])
    said = CliRunner().invoke(app, ["sim", "cluster", "--runs", "1", "--seed", "32"])
    assert said.exit_code == 1
    assert "penstock sim cluster --runs 1 --seed 32" in said.output
