"""`penstock bench cli`: every command has its rival, and a failing command is noticed."""

from __future__ import annotations

import shutil
import sys

import pytest

from penstock.errors import MissingTool, NodeError
from penstock_lab.bench import start_time

pytestmark = pytest.mark.e2e


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed")
def test_every_command_has_a_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_time, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(start_time, "REST_S", 0.0)
    found = start_time.measure(quick=True, progress=lambda *_: None)
    commands, kinds = ("--version", "--help", "pub"), ("CPU", "wall time")
    wanted = {f"{name}, {kind}" for name in commands for kind in kinds} | {"memory of a node at rest"}
    assert {row.name for row in found.rows if row.rival != "the goal"} == wanted
    assert all(row.value > 0 and row.ratio for row in found.rows)


def test_a_command_that_fails_is_noticed() -> None:
    with pytest.raises(NodeError, match="exit code 7"):
        start_time._run((sys.executable, "-c", "raise SystemExit(7)"), start_time._Taken())


def test_without_mosquitto_pub_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingTool, match="mosquitto-clients"):
        start_time.measure(quick=True, progress=lambda *_: None)
