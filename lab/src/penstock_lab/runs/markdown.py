"""Stored runs in Markdown: when and where a run was made, its claims, figures and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock_lab.runs.table import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MARKS: Final = {True: "yes", False: "**no**", None: "–"}
_ESCAPES: Final = str.maketrans({each: f"\\{each}" for each in "\\|*_`[]<>#"})


def title_of(name: str) -> str:
    """Return `bench node` for `bench-node`."""
    kind, _, rest = name.partition("-")
    return f"{kind} {rest}"


def made_by(run: Mapping[str, Any]) -> str:
    """Say when, from what and on which machine a run was made."""
    machine = run["machine"]
    told = (
        f"{run['date']}, commit `{run['commit']}`; {machine['cores']} cores of {plain(machine['cpu'])}, "
        f"{machine['memory_gb']:g} GB, Python {machine['python']}; load of the machine {run['load']:g}"
    )
    if "seconds" in run:
        told += f"; {run['seconds']:,.0f} s"
    return f"{told}; shortened by `--quick`" if run["quick"] else told


def claims(found: Mapping[str, Any]) -> str:
    """Return the rows of an experiment: what a paper found, or a rival, and what was found here."""
    header = ("what", plain(found["rival"]), "ours", "holds", "note")
    return table(
        header,
        [
            (*(plain(row[key]) for key in ("what", "paper", "ours")), MARKS[row["ok"]], plain(row["note"]))
            for row in found["rows"]
        ],
    )


def figures(rows: Iterable[Mapping[str, Any]], *, notes: bool = True) -> str:
    """Return rows of a benchmark: ours, the rival's, the ratio, and what would make the row fail."""
    header = ("what", "ours", "rival", "ratio", "goal", "reached", "note")
    columns = len(header) if notes else len(header) - 1
    lines = []
    for row in rows:
        rival = row["rival_value"]
        lines.append(
            (
                plain(row["name"]),
                f"{number(row['value'])} {plain(row['unit'])}".rstrip(),
                "" if rival is None else f"{number(rival)} ({plain(row['rival'])})",
                "" if row["ratio"] is None else f"{row['ratio']:.2f} ×",
                "" if row["goal"] is None else f"≥ {row['goal']:.2f} ×",
                MARKS[row["ok"]],
                plain(row["note"]),
            )
        )
    return table(header[:columns], [line[:columns] for line in lines])


def cells(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table that an experiment has stored."""
    return table(
        [plain(key) for key in rows[0]], [[plain(str(cell)) for cell in row.values()] for row in rows]
    )


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    all_lines = [header, ["---"] * len(header), *lines]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in all_lines)


def plain(text: str) -> str:
    """Return a text as one line of Markdown that shows it as it is."""
    return " ".join(text.split()).translate(_ESCAPES)
