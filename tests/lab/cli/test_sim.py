"""`penstock sim streams` tells what it ran, and how to repeat what failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.core.streams.subend import Subend
from penstock_lab.sim.streams import random_faults
from penstock_lab.sim.streams.random_faults import fault_run

if TYPE_CHECKING:
    import pytest


def test_clean_runs_are_counted() -> None:
    done = CliRunner().invoke(app, ["sim", "streams", "--runs", "2", "--seed", "3", "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["sim"], told["ok"], told["runs"], told["failures"]) == ("streams", True, 2, [])
    assert told["delivered"] == fault_run(3).delivered + fault_run(4).delivered


def test_a_failure_is_a_seed_and_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_faults, "MOST_US", 8_000_000)
    monkeypatch.setattr(Subend, "_ask", lambda *_: None)
    seed = next(seed for seed in range(20) if fault_run(seed).problems)
    done = CliRunner().invoke(app, ["sim", "streams", "--runs", "1", "--seed", str(seed)])
    assert done.exit_code == 1
    assert f"penstock sim streams --runs 1 --seed {seed}" in done.stderr
    assert "never got" in done.stderr
    told = json.loads(
        CliRunner().invoke(app, ["sim", "streams", "--runs", "1", "--seed", str(seed), "--json"]).stdout
    )
    assert told["ok"] is False
    assert told["failures"][0]["seed"] == seed
    assert told["failures"][0]["replay"] == f"penstock sim streams --runs 1 --seed {seed}"


def test_no_run_is_no_question() -> None:
    assert CliRunner().invoke(app, ["sim", "streams", "--runs", "0"]).exit_code == 2
