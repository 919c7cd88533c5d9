"""An experiment or a benchmark declares its paper, its figures, and whether it is live or simulated.

Each module with a function `reproduce` or `measure` has a constant SHOWS. The page of what the papers found
is made from these declarations and from stored runs, so that neither a figure nor a finding is typed twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PAPERS: Final = ("PACK", "Gryphon", "Corona", "RBF")
"""The four papers, by the names of their systems."""
GOES_ON: Final = "…"
"""Rows that begin so belong to the figure of the row before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shows:
    """Declaration of a module: what its rows are about."""

    live: bool
    """Real processes, files and time on this machine; else generated data and virtual time."""
    paper: str = ""
    """One of PAPERS; empty if the rows are about a goal of our own."""
    figures: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """How a row begins → the paper's figure or table; the empty beginning stands for all other rows."""

    def __post_init__(self) -> None:
        assert self.paper in ("", *PAPERS), f"there is no paper '{self.paper}'"
        assert bool(self.paper) == bool(self.figures), "a paper has figures, and figures have a paper"

    @property
    def how(self) -> str:
        """`live` or `simulated`."""
        return "live" if self.live else "simulated"

    def figures_of(self, rows: Iterable[str]) -> list[str]:
        """Return for each row, given by what it says, the figure it belongs to; empty if to none."""
        found: list[str] = []
        for row in rows:
            if row.startswith(GOES_ON) and found:
                found.append(found[-1])
                continue
            begins = [each for each in self.figures if row.startswith(each)]
            found.append(self.figures[max(begins, key=len)] if begins else "")
        return found
