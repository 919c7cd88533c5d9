"""Rows of experiments and benchmarks in one table: figure, paper or rival, ours, live or simulated, holds.

The rows are made from what the commands print with `--json`, so a run that is stored gives the same rows as
one that has just ended.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock_lab.runs.everything import Ended

HEADER: Final = ("figure", "what", "paper or rival", "ours", "how", "holds", "note")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: what a run says of one thing."""

    of: str
    """Name of the experiment or benchmark."""
    figure: str
    """Paper and figure; empty if the row is about none."""
    what: str
    paper: str
    """The paper's figure, or the rival's with the ratio that is the goal."""
    ours: str
    how: str
    """`live` or `simulated`."""
    ok: bool | None
    """None if the row is not judged."""
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """A row of `table` in the JSON of `all`."""
        return asdict(self)


def rows_of(found: dict[str, Any]) -> list[TableRow]:
    """Return the rows of one run from its JSON."""
    make = _of_experiment if "experiment" in found else _of_bench
    return [make(found, row) for row in found["rows"]]


def rows_of_all(ended: list[Ended]) -> list[TableRow]:
    """Return the rows of all runs; one that failed has a row that says why, and does not hold."""
    rows: list[TableRow] = []
    for one in ended:
        if one.found is None:
            rows.append(TableRow(one.name, "", "the run itself", "ends", "failed", "", False, one.error))
        else:
            rows += rows_of(one.found)
    return rows


def figure_of(found: dict[str, Any], row: dict[str, Any]) -> str:
    """Return paper and figure of a row; empty if it is about none."""
    return f"{found['paper']}, {row['figure']}" if row["figure"] else ""


def _of_experiment(found: dict[str, Any], row: dict[str, Any]) -> TableRow:
    return TableRow(
        found["experiment"],
        figure_of(found, row),
        row["what"],
        row["paper"],
        row["ours"],
        found["how"],
        row["ok"],
        row["note"],
    )


def _of_bench(found: dict[str, Any], row: dict[str, Any]) -> TableRow:
    rival, ours = "", f"{number(row['value'])} {row['unit']}"
    if row["rival_value"] is not None:
        rival = f"{row['rival']}: {number(row['rival_value'])} {row['unit']}"
    if row["ratio"] is not None:
        ours += f", {row['ratio']:.2f} ×"
    if row["goal"] is not None:
        rival += f"; goal ≥ {row['goal']:.2f} ×"
    return TableRow(
        f"bench {found['bench']}",
        figure_of(found, row),
        row["name"],
        rival or "–",
        ours,
        found["how"],
        row["ok"],
        row["note"],
    )


def number(value: float) -> str:
    """Write a figure with three digits or more: 1,283,000; 94.9; 0.0012."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"
