"""`penstock reproduce all`: a failing experiment is a row, and the exit code that of a single run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.cli import bench, reproduce
from penstock_lab.runs import stored
from penstock_lab.runs.everything import Ended
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def run(command: Any, *words: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(words))


def test_one_failing_experiment_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: reproduce.EXPERIMENTS[name] for name in ("pack-fig8", "ward")}
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"no-such": "", **known})
    monkeypatch.setattr(reproduce, "LIVE", {})
    store = tmp_path / "measured"
    words = ("all", "--quick", "--json", "--out", str(tmp_path / "out"), "--store", str(store))
    done = run(reproduce.reproduce, *words)
    assert done.exit_code == 2, done.output
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert [(each["of"], each["exit"]) for each in found["errors"]] == [("no-such", 2)]
    assert {row["of"] for row in found["table"]} == {"no-such", "pack-fig8", "ward"}
    assert [row["ok"] for row in found["table"] if row["of"] == "no-such"] == [False]
    assert {row["how"] for row in found["table"] if row["of"] == "ward"} == {"simulated"}
    assert found["run"]["command"] == "penstock reproduce all --quick"
    assert sorted(found["runs"]) == ["pack-fig8", "ward"]
    assert "ward: " in done.stderr
    assert sorted(path.name for path in store.iterdir()) == [
        "reproduce-pack-fig8.json",
        "reproduce-ward.json",
    ]
    kept = json.loads((store / "reproduce-ward.json").read_text())
    assert kept["run"]["command"] == "penstock reproduce ward --quick --seed 1"
    assert kept["rows"] == found["runs"]["ward"]["rows"]


@pytest.mark.parametrize(("check", "code"), [((), 0), (("--check",), 1)])
def test_a_missed_goal_is_the_exit_code_only_if_asked(
    monkeypatch: pytest.MonkeyPatch, check: tuple[str, ...], code: int
) -> None:
    missed = BenchmarkResult("b", (BenchmarkRow("x", 1.0, "s", "r", 1.0, 1.0, 2.0),), 1.0)
    found = stored.described(missed.as_json(), Shows(live=True), "c", stored.Begun(), quick=True)

    def ended(*_: object, **__: object) -> list[Ended]:
        return [Ended("b", 1.0, found)]

    monkeypatch.setattr("penstock_lab.cli.everything.run_all", ended)
    done = run(bench.bench, "all", "--quick", *check)
    assert done.exit_code == code
    assert "0 rows hold, 1 do not, 0 are not judged" in done.stdout


def said(done: Any) -> str:
    """What a command complained about, without the frame around it."""
    return " ".join(done.output.replace("│", " ").split())


def test_only_those_named_are_run_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def ended(commands: dict[str, list[str]], *_: object) -> list[Ended]:
        seen.extend(commands)
        return [Ended(name, 1.0, None, "no", 4) for name in commands]

    monkeypatch.setattr("penstock_lab.cli.everything.run_all", ended)
    done = run(reproduce.reproduce, "all", "--quick", "--only", "ward, ces-overload-live", "--json")
    assert seen == ["ward", "ces-overload-live"]
    assert done.exit_code == 4
    command = json.loads(done.stdout)["run"]["command"]
    assert command == "penstock reproduce all --only ward,ces-overload-live --quick"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("all", "--only", "cli,no-such"), "there is no 'no-such'; there are cli, policy,"),
        (("all", "--only", ","), "no name is given"),
        (("node", "--only", "cli"), "write all --only cli"),
    ],
)
def test_a_selection_that_is_none_is_refused(words: tuple[str, ...], problem: str) -> None:
    done = run(bench.bench, *words)
    assert done.exit_code == 2
    assert problem in said(done)


@pytest.mark.parametrize("words", [("all", "--minutes", "3"), ("all", "--rounds", "3")])
def test_options_of_one_experiment_are_not_those_of_all(words: tuple[str, ...]) -> None:
    done = run(reproduce.reproduce, *words)
    assert done.exit_code == 2
    assert "'all' has no option" in said(done)


def test_all_means_every_benchmark_and_every_experiment_with_its_live_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def ended(commands: dict[str, list[str]], _: object, told: Any) -> list[Ended]:
        seen.update(commands)
        rows = BenchmarkResult("b", (BenchmarkRow("x", 1.0, "s"),), 1.0).as_json()
        found = stored.described(rows, Shows(live=True), "c", stored.Begun(), quick=True)
        done = [Ended(name, 1.0, found) for name in commands]
        for number, one in enumerate(done, start=1):
            told(number, one.name, one)
        return done

    monkeypatch.setattr("penstock_lab.cli.everything.run_all", ended)
    done = run(bench.bench, "all", "--quick", "--json", "--store", str(tmp_path / "bench"))
    assert list(seen) == list(bench.BENCHMARKS)
    assert seen["spark"] == ["bench", "spark", "--quick"]
    assert [row["of"] for row in json.loads(done.stdout)["table"]] == ["bench b"] * len(bench.BENCHMARKS)
    assert {f"{name}: 0 of 0 rows hold, 1 s" for name in bench.BENCHMARKS} <= set(done.stderr.splitlines())
    assert {path.stem for path in (tmp_path / "bench").iterdir()} == {
        f"bench-{name}" for name in bench.BENCHMARKS
    }
    seen.clear()
    run(reproduce.reproduce, "all", "--json", "--out", str(tmp_path / "out"))
    assert list(seen) == [*reproduce.EXPERIMENTS, *(f"{name}-live" for name in reproduce.LIVE)]
