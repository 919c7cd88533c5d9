"""Commands of other packages: found by entry point, loaded when they are called."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import MissingTool, PenstockError

if TYPE_CHECKING:
    from click.testing import Result

GROUP = "penstock.commands"


def hello(name: str = "you") -> None:
    """Greet somebody."""
    print(f"hello {name}")  # noqa: T201


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))  # type: ignore[return-value]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Entry points of installed packages by name; a test may change them."""
    found: dict[str, str] = {"hello": f"{__name__}:hello"}

    def entry_points(*, group: str) -> list[metadata.EntryPoint]:
        assert group == GROUP
        return [metadata.EntryPoint(name, value, GROUP) for name, value in found.items()]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return found


def test_a_command_of_another_package_runs(installed: dict[str, str]) -> None:
    assert run("hello", "--name", "ward").stdout == "hello ward\n"
    assert "hello" in run("--help").stdout


@pytest.mark.parametrize(
    ("value", "kind"), [("no.such.module:command", MissingTool), (f"{__name__}:absent", PenstockError)]
)
def test_a_broken_package_breaks_its_own_command_only(
    installed: dict[str, str], value: str, kind: type[PenstockError]
) -> None:
    installed["broken"] = value
    assert run("hello").exit_code == 0
    assert "broken" in run("--help").stdout
    error = run("broken").exception
    assert isinstance(error, kind)
    assert "'penstock broken'" in str(error)


def test_a_package_cannot_take_the_name_of_a_command(installed: dict[str, str]) -> None:
    installed["filters"] = f"{__name__}:hello"
    found = run("--help")
    assert "'filters'" in found.stderr
    assert found.stdout.count("filters ") == 1
    assert "delta" in run("filters").stdout


def test_the_lab_says_how_to_install_it(installed: dict[str, str]) -> None:
    assert "bench" not in run("--help").stdout
    error = run("bench", "node", "--quick").exception
    assert isinstance(error, MissingTool)
    assert "pip install penstock-lab" in str(error)
