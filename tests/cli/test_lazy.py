"""The program starts quickly: a command imports what it needs, and nothing of other commands."""

from __future__ import annotations

from importlib import import_module, metadata
from inspect import getdoc
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.main import get_command

from penstock.cli.app import app
from penstock.cli.commands import COMMANDS, GROUPS, RENAMED
from penstock.cli.plugins import LAB_COMMANDS
from penstock_lab.rigs.ports import free_port
from tests.kit.imports import loaded

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.e2e
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(option: str) -> None:
    assert loaded(option) == []


@pytest.mark.e2e
@pytest.mark.parametrize(
    "arguments",
    [
        ("pub", "ward/7", "72", "--qos", "1"),
        ("sub", "ward/#", "--count", "3", "--seconds", "1.5", "--json"),
    ],
)
def test_pub_and_sub_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded(*arguments, "--node", f"mqtt://127.0.0.1:{free_port()}", ok=3) == []


def first_line(found: Callable[..., Any] | typer.Typer) -> str:
    """The first line of a command's own help."""
    text = found.info.help if isinstance(found, typer.Typer) else getdoc(found)
    assert isinstance(text, str)
    return text.partition("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    entry = COMMANDS[name]
    assert entry.help == first_line(getattr(import_module(entry.module), entry.attribute))
    assert entry.group in GROUPS


@pytest.mark.parametrize("name", LAB_COMMANDS)
def test_the_table_of_the_lab_says_what_its_commands_say(name: str) -> None:
    (entry,) = metadata.entry_points(group="penstock.commands", name=name)
    assert LAB_COMMANDS[name] == first_line(entry.load())


def test_every_command_can_be_loaded() -> None:
    root = get_command(app)
    for name in COMMANDS:
        command = root.load(name)  # type: ignore[attr-defined]
        assert command.name == name
        assert command.help


@pytest.mark.parametrize("name", RENAMED)
def test_an_old_name_is_an_error_that_says_the_new_one(name: str) -> None:
    assert name not in COMMANDS
    assert RENAMED[name] in COMMANDS
    root = get_command(app)
    with pytest.raises(typer.exceptions.TyperException) as refused:
        root.main([name, "--help"], standalone_mode=False)
    assert refused.value.exit_code == 2
    assert str(refused.value) == f"'{name}' is now '{RENAMED[name]}'"


def completed(monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """The completions that a shell offers after these words."""
    from typer.testing import CliRunner  # noqa: PLC0415

    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "complete_bash")
    return CliRunner().invoke(app, [], prog_name="penstock").stdout.split()


def test_a_shell_completes_commands_subcommands_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"pub", "policy", "passwd"} <= set(completed(monkeypatch, "penstock p"))
    assert "check" in completed(monkeypatch, "penstock policy c")
    assert completed(monkeypatch, "penstock pub --ret") == ["--retain"]
