"""Commands that other installed packages add to `penstock`, by the entry-point group `penstock.commands`.

The lab (simulator, experiments, benchmarks) is such a package. Its commands are known here by name, so that
`penstock bench` without the lab says how to install it.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

import typer

from penstock.errors import MissingTool

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP: Final = "penstock.commands"

LAB: Final = ("bench", "conformance", "demo", "reproduce", "sim")
"""The commands of the package penstock-lab."""


def add_commands(app: typer.Typer) -> None:
    """Add the commands of installed packages; those of the lab say how to install it when it is missing."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name, entry in sorted(found.items()):
        command = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    for name in LAB:
        if name not in found:
            app.command(
                name,
                hidden=True,
                add_help_option=False,
                context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
            )(_missing(name))


def _missing(name: str) -> Callable[[], None]:
    def missing() -> None:
        raise MissingTool(
            f"'penstock {name}' is part of the package penstock-lab, which is not installed: "
            "pip install penstock-lab (in a checkout of the repository: make setup)"
        )

    return missing
