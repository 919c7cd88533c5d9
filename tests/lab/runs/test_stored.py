"""Runs in files: they say when, where and from what they were made, and nothing of the machine's paths."""

from __future__ import annotations

import json
import platform
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError
from penstock_lab.runs import stored

if TYPE_CHECKING:
    from pathlib import Path

RUN: dict[str, Any] = {"rows": [], "plots": ["/home/me/a.png"], "report": "/home/me/a.html"}


def test_a_run_says_when_where_and_from_what() -> None:
    found = stored.Begun().ended("penstock bench node", quick=True)
    assert date.fromisoformat(found["date"]) <= datetime.now(UTC).date()
    assert found["command"] == "penstock bench node"
    assert found["quick"] is True
    assert found["commit"]
    assert found["load"] >= 0
    assert found["machine"]["cores"] > 0
    assert found["machine"]["memory_gb"] > 0
    assert found["machine"]["cpu"]
    assert platform.node() not in found["machine"].values()


def test_a_run_is_of_the_commit_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "commit", lambda: "before")
    begun = stored.Begun()
    monkeypatch.setattr(stored, "commit", lambda: "after")
    assert begun.ended("c", quick=False)["commit"] == "before"
    assert begun.seconds >= begun.ended("c", quick=False)["seconds"] - 0.1 >= -0.1


def test_a_file_keeps_the_run_without_paths_of_the_machine(tmp_path: Path) -> None:
    run = {"run": stored.Begun().ended("c", quick=False), **RUN, "rows": [{"value": float("inf")}]}
    path = stored.write(tmp_path / "deep", "bench-node", run)
    assert path == tmp_path / "deep" / "bench-node.json"
    found = stored.read(tmp_path / "deep")
    assert found == {"bench-node": {"run": run["run"], "rows": [{"value": None}]}}
    assert "/home" not in path.read_text()
    assert [each.name for each in path.parent.iterdir()] == ["bench-node.json"]


@pytest.mark.parametrize(
    "text", ["{", "[]", json.dumps({"rows": []}), json.dumps({"error": {"message": "x"}})]
)
def test_a_file_that_is_no_run_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "bench-x.json").write_text(text)
    with pytest.raises(InputError, match=r"bench-x\.json: not "):
        stored.read(tmp_path)
