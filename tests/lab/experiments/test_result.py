"""Every judged row of an experiment says what would make it fail: where rows are made, and when they are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from tests.kit.paths import ROOT

from penstock_lab.experiments.result import FAILS, Claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAB = ROOT / "lab" / "src" / "penstock_lab"
FIELDS = ("what", "paper", "ours", "ok", "note")


def judged(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr | None]]:
    """The places of a module where judged rows are made, each with its note."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
            given = dict(zip(FIELDS, node.args, strict=False)) | {
                str(each.arg): each.value for each in node.keywords
            }
            if not (isinstance(given["ok"], ast.Constant) and given["ok"].value is None):
                yield node, given.get("note")


def says(note: ast.expr | None, tree: ast.Module) -> bool:
    """Whether a note says what fails, whichever branch is taken and whatever is put into it."""
    match note:
        case ast.Constant(value=str() as text):
            return FAILS in text
        case ast.JoinedStr(values=parts):
            return any(says(part, tree) for part in parts)
        case ast.FormattedValue(value=ast.Name() as value):
            return says(value, tree)
        case ast.BinOp(left=left, right=right):
            return says(left, tree) or says(right, tree)
        case ast.IfExp(body=body, orelse=orelse):
            return says(body, tree) and says(orelse, tree)
        case ast.Name(id=name):
            values = [value for value in assigned(tree, name) if not isinstance(value, ast.Name)]
            return bool(values) and all(says(value, tree) for value in values)
        case _:
            return False


def assigned(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """What a module gives to a name, by `=` or as a column of a table that it goes through."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                yield value
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                yield value
            case ast.For(target=ast.Tuple(elts=names), iter=ast.Name(id=table)):
                columns = [each.id for each in names if isinstance(each, ast.Name)]
                if name in columns:
                    for rows in assigned(tree, table):
                        assert isinstance(rows, ast.Tuple)
                        for row in rows.elts:
                            assert isinstance(row, ast.Tuple)
                            value = row.elts[columns.index(name)]
                            yield from assigned(tree, value.id) if isinstance(value, ast.Name) else (value,)


MODULES = sorted(
    path
    for path in (LAB / "experiments").rglob("*.py")
    if path.name != "result.py" and "Claim(" in path.read_text()
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(LAB)))
def test_where_a_judged_row_is_made_its_note_says_what_fails(path: Path) -> None:
    tree = ast.parse(path.read_text())
    silent = [f"{path.name}:{node.lineno}" for node, note in judged(tree) if not says(note, tree)]
    assert silent == []


def test_experiments_make_rows_in_these_modules() -> None:
    assert len(MODULES) >= 20


@pytest.mark.parametrize(
    "note", ["", "note='fitted'", "note='fails' if a else 'b'", "note=b", "note=f'{a} s'"]
)
def test_a_silent_row_is_found(note: str) -> None:
    tree = ast.parse(f"b = 'so'\nClaim('x', '1', '2', ok=a, {note})\nClaim('y', '1', '2', ok=None)")
    assert [says(given, tree) for _, given in judged(tree)] == [False]


def test_a_judged_row_that_does_not_say_what_fails_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="what would make 'quick' fail"):
        Claim("quick", "1 s", "2 s", ok=False, note="quick")
    assert Claim("quick", "1 s", "2 s", ok=None).note == ""
    assert Claim("quick", "1 s", "2 s", ok=True, note="fails above 2 s").ok
