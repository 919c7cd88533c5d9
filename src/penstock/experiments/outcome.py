"""What an experiment returns: rows that hold or do not, and pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from penstock.cli.html_page import Table


@dataclass(frozen=True, slots=True)
class Row:
    """One claim of a paper, and what became of it here."""

    what: str
    paper: str
    ours: str
    ok: bool | None
    """None: stated for information, not judged."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An experiment, done."""

    experiment: str
    title: str
    setting: str
    """What was run, in one sentence; says so if it was shortened."""
    rows: tuple[Row, ...]
    tables: tuple[Table, ...]
    plots: tuple[Path, ...]
    seed: int
    rival: str = "paper"
    """Whose figures stand in `Row.paper`."""

    @property
    def ok(self) -> bool:
        """Whether every judged row holds."""
        return all(row.ok is not False for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The shape of `penstock reproduce NAME --json`."""
        return {
            "experiment": self.experiment,
            "title": self.title,
            "setting": self.setting,
            "rows": [
                {"what": row.what, "paper": row.paper, "ours": row.ours, "ok": row.ok, "note": row.note}
                for row in self.rows
            ],
            "tables": [
                {
                    "title": table.title,
                    "rows": [dict(zip(table.header, row, strict=True)) for row in table.rows],
                }
                for table in self.tables
            ],
            "plots": [str(plot) for plot in self.plots],
            "seed": self.seed,
            "rival": self.rival,
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """What `as_json` made."""
        return cls(
            experiment=found["experiment"],
            title=found["title"],
            setting=found["setting"],
            rows=tuple(Row(**row) for row in found["rows"]),
            tables=tuple(Table.from_json(table) for table in found["tables"] if table["rows"]),
            plots=tuple(map(Path, found["plots"])),
            seed=found["seed"],
            rival=found["rival"],
        )


Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and what is being done."""
