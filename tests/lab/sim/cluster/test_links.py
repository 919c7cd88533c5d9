"""A cluster under random faults: no rule is broken, a run is its seed, and a broken link is noticed."""

from __future__ import annotations

import json
from functools import cache

import pytest
from tests.kit.effort import seeds
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.core.cluster import backlog
from penstock.core.cluster.link import LinkSender
from penstock.core.cluster.peer import PeerLink
from penstock.core.cluster.private import PrivateQueue, Summed
from penstock.core.cluster.stamps import Stamps
from penstock.errors import ClusterError
from penstock_lab.sim.cluster.links import run

clean = cache(run)
"""A run is its seed: those without a planted fault are made once for all tests."""


@pytest.mark.parametrize("seed", seeds(1, 160))
def test_no_rule_is_broken(seed: int) -> None:
    assert clean(seed).problems == ()


@pytest.mark.parametrize("seed", range(1, 9))
def test_no_rule_is_broken_with_trees(seed: int) -> None:
    assert clean(seed, trees=True).problems == ()


def test_nodes_pass_on_and_what_they_do_not_is_sent_again() -> None:
    found = [clean(seed, trees=True) for seed in range(1, 5)]
    assert all(one.forwarded for one in found)
    assert sum(one.repaired for one in found) > 0
    assert run(1, trees=True) == found[0]


def test_a_tree_that_is_not_repaired_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwarders lose everything, and nothing is sent again: events stay on their way."""
    monkeypatch.setattr(LinkSender, "_again", lambda *_: [])
    assert any("not at rest" in said for seed in (1, 2, 3) for said in run(seed, trees=True).problems)


def test_faults_happen_and_links_overflow() -> None:
    found = [clean(seed) for seed in range(1, 11)]
    assert all(one.published and one.received for one in found)
    assert sum(one.faults for one in found) > 20
    assert sum(one.digested for one in found) > 0
    assert sum(one.abandoned for one in found) > 0


def test_a_run_is_its_seed() -> None:
    assert run(7) == clean(7)


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


def test_policies_pack_links_and_copies_for_a_wrong_class_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sum(run(seed).packed for seed in (1, 3, 5, 7)) > 0
    monkeypatch.setattr(PrivateQueue, "number", 1)
    assert any("for class 1" in said for seed in (1, 3, 5, 7) for said in run(seed).problems)


def test_policies_whose_digests_are_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    add = backlog._add
    monkeypatch.setattr(backlog, "_add", lambda taken, one: 0 if isinstance(one, Summed) else add(taken, one))
    assert any("class" in said for seed in (1, 3, 5, 7) for said in run(seed).problems)


def test_two_kills_in_a_row_leave_the_same_retained_messages() -> None:
    assert run(1044).problems == ()


def test_nodes_that_do_not_spread_what_a_dead_node_wrote_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stamps, "left_by", lambda *_: [])
    assert any("retained messages differ" in said for seed in (3, 24, 52) for said in run(seed).problems)


def test_the_command_reports_runs_and_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    said = CliRunner().invoke(app, ["sim", "cluster", "--runs", "2", "--seed", "3", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["ok"], found["runs"], found["failures"]) == (True, 2, [])
    monkeypatch.setattr(Stamps, "left_by", lambda *_: [])
    said = CliRunner().invoke(app, ["sim", "cluster", "--runs", "1", "--seed", "3"])
    assert said.exit_code == 1
    assert "penstock sim cluster --runs 1 --seed 3" in said.output
