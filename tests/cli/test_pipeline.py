"""`penstock pipeline` as far as it needs no JVM: a new project, its settings, its state, wrong input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import InputError, SparkFailed
from penstock.pipeline.project.run import _alone
from penstock.pipeline.project.runs import Run
from penstock.pipeline.project.settings import open_project

if TYPE_CHECKING:
    from pathlib import Path


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["pipeline", *arguments])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    done = invoke("init", str(folder), "--data", str(tmp_path / "data"), "--key", "sender", "--json")
    assert done.exit_code == 0, done.output
    assert "transformations/tables.py" in json.loads(done.stdout)["files"]
    return folder


def test_a_new_project_and_its_state(project: Path, tmp_path: Path) -> None:
    found = open_project(project)
    assert found.settings.key == ("sender",)
    assert found.sources("events") == [(tmp_path / "data" / "recorded").resolve()]
    assert found.policy().name == "conflate"
    assert open_project(project / "transformations" / "tables.py").folder == found.folder
    state = json.loads(invoke("status", str(project), "--json").stdout)
    assert state["last_run"] is None
    assert state["tables"]["events"]["waiting"] == {"files": 0, "bytes": 0, "oldest_s": 0.0}
    assert "no run yet" in invoke("status", str(project)).stdout


def test_a_folder_with_something_in_it_is_left_alone(project: Path) -> None:
    done = invoke("init", str(project))
    assert isinstance(done.exception, InputError)
    assert "a project needs a folder of its own" in str(done.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: []", "data"),
        ("data: [x]\ncapacitty: 5", "capacitty"),
        ("data: [x]\ncapacity: many", "capacity"),
        ("data: [x]\nallocation: {least_s: 100, most_s: 10}", "least_s 100 is longer than most_s 10"),
        ("data: [x]\nadvise: [{name: a, attributes: [p]}, {name: a, attributes: [q]}]", "duplicate name"),
        ("data: [x]\nadvise: [{name: a, attributes: [p], matters: [soon]}]", "matters: soon: no comparison"),
        ("data: [x]\nadvise: [{name: a, attributes: [p], budget: 2}]", "budget"),
        ("data: [x]\nkey: [", r"settings.yml: line 3: not YAML: did not find expected node content$"),
    ],
)
def test_wrong_settings_are_named(project: Path, text: str, said: str) -> None:
    (project / "settings.yml").write_text(text)
    with pytest.raises(InputError, match=said):
        open_project(project)


def test_no_project_and_a_second_run(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`penstock pipeline init` makes one"):
        open_project(tmp_path)
    found = open_project(project)
    with _alone(found), pytest.raises(InputError, match="another run"), _alone(found):
        pass
    assert invoke("run", str(project), "--engine", "other").exit_code == 2
    assert invoke("run", str(project), "--every", "soon").exit_code == 2


def test_a_run_that_fails_is_told_and_tried_again_at_the_next_interval(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Exception | Run] = [
        SparkFailed("out of luck"),
        Run(started_us=1, ended_us=2_000_001, engine="plain"),
    ]
    pauses: list[float] = []

    def once(*_: object, **__: object) -> Run:
        found = outcomes.pop(0)
        if isinstance(found, Run):
            return found
        raise found

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if not outcomes:
            raise KeyboardInterrupt

    monkeypatch.setattr("penstock.pipeline.project.run.run_once", once)
    monkeypatch.setattr("penstock.cli.pipeline.time.sleep", sleep)
    done = invoke("run", str(project), "--every", "10m", "--json")
    assert "out of luck; the next run is in 10m" in done.stderr
    assert json.loads(done.stdout)["took_s"] == 2.0
    assert len(pauses) == 2
    assert all(0 < pause_s <= 600 for pause_s in pauses)
