"""`penstock config`: checks and shows a node's configuration; lists its settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.output import JsonFlag, complain, print_json, print_text, warn
from penstock.errors import ConfigError, GoalMissed, printable
from penstock.node.config.amounts import UNITS
from penstock.node.config.read import load
from penstock.node.config.write import Setting, as_yaml, settings, shown

app = typer.Typer(no_args_is_help=True, help="Check and show a node's configuration.")

USUAL: Final = Path("penstock.yaml")
"""File that is read if none is named and it exists."""

ConfigFile = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="A configuration; if omitted, penstock.yaml in this folder."),
]


def named_or_usual(file: Path | None) -> Path | None:
    """Return the file to read; None if none is named and penstock.yaml does not exist."""
    return file if file is not None else USUAL if USUAL.exists() else None


@app.command()
def check(
    file: ConfigFile = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say whether a node could start with a configuration, and all that is wrong with it."""
    path = file if file is not None else USUAL
    problems: list[tuple[str, dict[str, object]]] = []
    warnings: tuple[str, ...] = ()
    try:
        warnings = load(path).warnings
    except ConfigError as error:
        problems = error.each()
    if as_json:
        found = [{"message": message, **facts} for message, facts in problems]
        good = not problems and not (strict and warnings)
        print_json({"file": str(path), "ok": good, "problems": found, "warnings": list(warnings)})
    else:
        for message, _ in problems:
            complain(message)
        if not problems:
            print_text(printable(f"{path}: fine"))
        for warning in warnings:
            warn(f"{path}: {warning}")
    if problems:
        raise typer.Exit(ConfigError.exit_code)
    if strict and warnings:
        raise typer.Exit(GoalMissed.exit_code)


@app.command()
def show(file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """Print the configuration a node would run with: defaults included, secrets hidden."""
    loaded = load(named_or_usual(file))
    if as_json:
        print_json(shown(loaded.config))
    else:
        print_text(as_yaml(loaded.config))
    for warning in loaded.warnings:
        warn(warning)


@app.command()
def init(file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = USUAL) -> None:
    """Write a configuration to start from, and beside it the JSON Schema by which editors check it."""
    from penstock.cli.starters import CONFIG, begin_file  # noqa: PLC0415  # `up` needs this module

    begin_file(file, CONFIG, "penstock")
    print_text(printable(f"{file}: written; `penstock up` in its folder runs a node with it"))


@app.command()
def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    from penstock.cli.starters import schema as json_schema  # noqa: PLC0415  # `up` needs this module

    print_json(json_schema("penstock"))


@app.command("settings")
def settings_(
    as_json: JsonFlag = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, as in the documentation.")
    ] = False,
) -> None:
    """List every setting with its default and unit."""
    if as_json:
        print_json({"settings": [_as_json(one) for one in settings()]})
    elif markdown:
        print_text(as_markdown())
    else:
        rows = [(one.path, _kind(one), _default(one), one.doc) for one in settings()]
        from penstock.cli.terminal import print_table  # noqa: PLC0415  # `up` needs this module, but no rich

        print_table("Settings", ("setting", "is", "default", "meaning"), rows)


def _as_json(one: Setting) -> dict[str, Any]:
    return {
        "path": one.path,
        "kind": one.kind,
        "unit": one.unit,
        "required": one.required,
        "default": None if one.required else one.default,
        "doc": one.doc,
    }


def _kind(one: Setting) -> str:
    return f"{one.kind}; {one.unit}" if one.unit else one.kind


def _default(one: Setting) -> str:
    return "required" if one.required else json.dumps(one.default, ensure_ascii=False)


_INTRODUCTION: Final = """\
# Configuration

Made by `penstock config settings --markdown`; do not edit.

A node reads one YAML 1.2 file: the file that `--config` names, else `penstock.yaml` in the folder in which
the node is started. Every setting is optional, except those of list entries that are marked as required.
`penstock config check` reports every problem of a file, `penstock config show` prints the configuration that
a node would run with. The [guide to operating a node](../guides/operating.md) shows the settings at work;
`examples/penstock.yaml` is a file to start from.

Relative paths are relative to the folder of the file. `[]` marks the settings of each entry of a list."""


def as_markdown() -> str:
    """Return the reference page of all settings as Markdown."""
    lines = [
        _INTRODUCTION,
        "",
        "| where the unit is | a plain number, or a text with one of |",
        "|---|---|",
        *(f"| {unit} | {', '.join(f'`{name}`' for name in names)} |" for unit, names in UNITS.items()),
        "",
        "For example, `session_expiry_s: 604800` and `session_expiry_s: 7d` mean the same.",
        "",
        "| setting | is | unit | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for one in settings():
        default = "required" if one.required else f"`{_default(one)}`"
        lines.append(f"| `{one.path}` | {one.kind} | {one.unit} | {default} | {one.doc} |")
    return "\n".join(lines) + "\n"
