"""Commands that other installed packages add to `penstock`, by the entry-point group `penstock.commands`.

The lab (simulator, experiments, benchmarks) is such a package. Its commands are known here by name, so that
`penstock bench` without the lab says how to install it. A package is imported when its command is called:
one that cannot be imported breaks its own commands only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.cli.commands import LAB, OTHERS
from penstock.cli.output import warn
from penstock.errors import MissingTool, PenstockError

if TYPE_CHECKING:
    from collections.abc import Container
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "penstock.commands"

LAB_COMMANDS: Final = {
    "bench": "Measure against a named rival in the same run; a ratio above 1 means ours is better.",
    "conformance": "Play byte-level MQTT cases against a broker; exits 1 if fewer than 98 % pass.",
    "demo": "Run the tour: slow phones, web pages, killed nodes, time slots, and Spark on what was recorded.",
    "reproduce": "Run an experiment of one of the papers: what they found beside what we find.",
    "sim": "Random runs in the simulator or against a node; a failure is a seed.",
}
"""The commands of the package penstock-lab with their help lines."""


class Plugin:
    """A command of another package, not imported yet."""

    def __init__(self, name: str, entry: EntryPoint | None) -> None:
        """Keep the entry point of a command; None for a command of the lab, which is not installed."""
        self.name = name
        self._entry = entry

    @property
    def help(self) -> str:
        """The help line: from the table of the lab, else what the package says about itself."""
        if self.name in LAB_COMMANDS:
            return LAB_COMMANDS[self.name]
        package = None if self._entry is None else self._entry.dist
        if package is None:
            return ""
        return " ".join((*(package.metadata.get_all("Summary") or ()), f"({package.name})"))

    @property
    def group(self) -> str:
        """The heading under which `penstock --help` lists the command."""
        return LAB if self.name in LAB_COMMANDS else OTHERS

    @property
    def hidden(self) -> bool:
        """Whether `penstock --help` leaves the command out: its package is not installed."""
        return self._entry is None

    def load(self) -> Any:
        """Import the command; MissingTool or PenstockError say why that is not possible."""
        if self._entry is None:
            raise MissingTool(
                f"'penstock {self.name}' is part of the package penstock-lab, which is not installed: "
                "pip install penstock-lab (in a checkout of the repository: make setup)"
            )
        try:
            return self._entry.load()
        except Exception as error:
            package = self._entry.dist.name if self._entry.dist else self._entry.value
            problem = f"'penstock {self.name}' of the package {package} cannot be loaded: {error}"
            kind = MissingTool if isinstance(error, ImportError) else PenstockError
            raise kind(problem) from error


def find(*, taken: Container[str]) -> dict[str, Plugin]:
    """Find the commands of installed packages by name; a name that is `taken` is left out with a warning."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # 20 ms, for those who need it

    found = {}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        if entry.name in taken:
            package = entry.dist.name if entry.dist else entry.value
            warn(f"the package {package} has a command '{entry.name}' like Penstock itself; it is left out")
        else:
            found[entry.name] = Plugin(entry.name, entry)
    return found | {name: Plugin(name, None) for name in LAB_COMMANDS if name not in found}
