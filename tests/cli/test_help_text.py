"""Every help: it fits a terminal of 80 columns, and it has an example that the command understands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.commands import COMMANDS
from penstock.cli.help_text import EXAMPLES, illustrate
from penstock.cli.plugins import LAB_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click.core import Command, Context

ROOT: Any = get_command(app)


def below(command: Command, path: str) -> Iterator[tuple[str, Command]]:
    """A command, and its subcommands."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from below(each, f"{path} {name}")


ALL = dict(pair for name in [*COMMANDS, *LAB_COMMANDS] for pair in below(ROOT.load(name), name))


def help_of(path: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80, raising=False)
    shown = CliRunner().invoke(app, [*path.split(), "--help"], prog_name="penstock")
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_the_help_of_the_program_is_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_of("", monkeypatch).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    shown = [line.split()[-2:] for line in lines]
    assert len(shown) == len(lines)
    order = [
        line[:9].strip() for line in lines if line[:3] in ("Use", "Ope", "Des", "Lab") and ":" not in line[:9]
    ]
    assert order == ["Use", "Operate", "Design", "Lab"]
    assert lines[3].split()[:2] == ["Use", "pub"], "the daily commands first"
    missing = [
        name
        for name in [*COMMANDS, *LAB_COMMANDS]
        if not any(name in line.replace(",", "").split() for line in lines)
    ]
    assert missing == []


@pytest.mark.parametrize("path", ALL)
def test_every_help_fits_and_has_an_example(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = help_of(path, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    assert "Usage: penstock" in text
    assert f"Example: penstock {path.split(maxsplit=1)[0]}" in " ".join(text.split())


@pytest.mark.parametrize("path", sorted(EXAMPLES.keys() & ALL.keys()))
def test_an_example_is_what_its_command_takes(path: str) -> None:
    words = shlex.split(EXAMPLES[path])
    for sign in ("<", ">"):
        words = words[: words.index(sign)] if sign in words else words
    assert words[: 1 + len(path.split())] == ["penstock", *path.split()]
    command = ALL[path]
    rest = words[1 + len(path.split()) :]
    context: Context = command.make_context(
        path, rest, resilient_parsing=False
    )  # raises what a user would see
    assert context.command is command


def test_examples_are_of_commands_that_exist() -> None:
    assert set(EXAMPLES) - set(ALL) == set()


def test_an_example_of_a_command_without_one_is_made_of_its_arguments() -> None:
    import typer  # noqa: PLC0415

    alone = typer.Typer(add_completion=False)

    @alone.command()
    def tag(page: str = typer.Argument(metavar="PAGE"), *, every: str = typer.Option(metavar="TIME")) -> None:
        """Do nothing."""

    command = get_command(alone)
    illustrate(command, "channels tag")
    assert command.epilog == "Example: penstock channels tag https://example.org/news --every TIME"
