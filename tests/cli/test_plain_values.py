"""Values of the command line converted without pydantic are what Typer would have made of them."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  # typer reads annotations
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command

from penstock.cli.plain_values import convert_plainly


def command(
    text: Annotated[str, typer.Option()] = "t",
    whole: Annotated[int, typer.Option(min=0, max=9)] = 3,
    decimal: Annotated[float | None, typer.Option(min=0.5)] = None,
    several: Annotated[list[str] | None, typer.Option()] = None,
    numbers: Annotated[list[int] | None, typer.Option()] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    paths: Annotated[list[Path] | None, typer.Option()] = None,
    folder: Annotated[Path | None, typer.Option(exists=True, file_okay=False)] = None,
) -> dict[str, Any]:
    return locals()


def run(*arguments: str, plainly: bool) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command()(command)
    made = get_command(alone)
    if plainly:
        convert_plainly(made, typer.Context(made))
    try:
        return made.main(list(arguments), standalone_mode=False)
    except typer.exceptions.TyperException as error:
        return (error.exit_code, error.format_message())


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--text", ""),
        ("--text", "ß ✓"),
        ("--whole", "0"),
        ("--whole", "007"),
        ("--whole", "10"),
        ("--whole", "-1"),
        ("--whole", "2.0"),
        ("--whole", "2.5"),
        ("--whole", "1_0"),
        ("--whole", " 5 "),
        ("--whole", "٣"),
        ("--whole", "x"),
        ("--decimal", "1"),
        ("--decimal", "0.25"),
        ("--decimal", "1e3"),
        ("--decimal", "inf"),
        ("--decimal", "nan"),
        ("--several", "a", "--several", "b"),
        ("--numbers", "1", "--numbers", "2"),
        ("--numbers", "1", "--numbers", "x"),
        ("--path", "-"),
        ("--path", "no/such/../file"),
        ("--path", __file__),
        ("--path", ""),
        ("--paths", "/tmp", "--paths", "a//b/"),  # noqa: S108
        ("--folder", __file__),
        ("--folder", "no-such-folder"),
    ],
)
def test_plain_values_agree_with_typer(arguments: tuple[str, ...]) -> None:
    plain, own = run(*arguments, plainly=True), run(*arguments, plainly=False)
    assert repr(plain) == repr(own)


def test_usual_values_need_no_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer._adapters", None)
    found = run("--text", "a", "--whole", "4", "--decimal", "2.5", "--several", "b", plainly=True)
    assert found == {
        "text": "a",
        "whole": 4,
        "decimal": 2.5,
        "several": ["b"],
        "numbers": None,
    } | dict.fromkeys(("path", "paths", "folder"))
