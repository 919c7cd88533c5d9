"""The result of an experiment: claims that hold or do not, tables, pictures, and the HTML page of them.

The page is one self-contained file, pictures included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from penstock.cli.html_page import Table

if TYPE_CHECKING:
    from penstock.cli.html_page import Page


FAILS: Final = "fails"
"""The word by which a note tells what would make its row fail."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper beside what was found here: a row of the result."""

    what: str
    paper: str
    ours: str
    ok: bool | None
    """Whether the claim holds here; None if stated for information and not judged."""
    note: str = ""
    """A remark for readers; of a judged row also what would make it fail."""

    def __post_init__(self) -> None:
        assert self.ok is None or FAILS in self.note, f"nothing says what would make '{self.what}' fail"


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """The result of an experiment."""

    experiment: str
    title: str
    setting: str
    """One sentence about the run; says so if it was shortened."""
    rows: tuple[Claim, ...]
    tables: tuple[Table, ...]
    plots: tuple[Path, ...]
    seed: int
    rival: str = "paper"
    """Title of the column `Claim.paper`: the paper, or a rival."""

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
        """Restore a result from what `as_json` returned."""
        return cls(
            experiment=found["experiment"],
            title=found["title"],
            setting=found["setting"],
            rows=tuple(
                Claim(row["what"], row["paper"], row["ours"], row["ok"], row["note"]) for row in found["rows"]
            ),
            tables=tuple(Table.from_json(table) for table in found["tables"] if table["rows"]),
            plots=tuple(map(Path, found["plots"])),
            seed=found["seed"],
            rival=found["rival"],
        )


Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what is done now."""


_MARKS: Final = {True: '<span class="yes">yes</span>', False: '<span class="no">no</span>', None: "–"}


def add_result(page: Page, outcome: ExperimentResult) -> None:
    """Add the claims, tables and plots of an experiment to a page."""
    page.text(f"{outcome.setting}; seed {outcome.seed}.")
    rows = [
        [
            escape(row.what),
            escape(row.paper),
            escape(row.ours),
            _MARKS[row.ok],
            f'<span class="note">{escape(row.note)}</span>',
        ]
        for row in outcome.rows
    ]
    page.raw_table(["what", escape(outcome.rival), "ours", "holds", "note"], rows)
    for table in outcome.tables:
        page.heading(table.title)
        page.table(table.header, table.rows)
    for plot in outcome.plots:
        page.picture(plot)
