"""Every bound stands once, with its reason, and bounds something."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest

from penstock import limits

FOLDER = Path(limits.__file__).parent
PARTS = [part.name for part in pkgutil.iter_modules(limits.__path__)]


def bounds(part: str) -> dict[str, bool]:
    """The names of a part's bounds; whether a reason stands under each."""
    body = ast.parse((FOLDER / f"{part}.py").read_text()).body
    found: dict[str, bool] = {}
    for line, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            found[line.target.id] = (
                isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            )
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_bound_has_its_reason_and_can_be_had_from_the_package(part: str) -> None:
    found = bounds(part)
    assert found
    assert [name for name, reason in found.items() if not reason] == []
    assert [name for name in found if not hasattr(limits, name)] == []
    assert f"{part}.py" in (limits.__doc__ or "")


def test_no_bound_stands_in_two_parts() -> None:
    counted = Counter(name for part in PARTS for name in bounds(part))
    assert [name for name, times in counted.items() if times > 1] == []


def test_every_bound_is_used() -> None:
    used: set[str] = set()
    for module in FOLDER.parent.rglob("*.py"):
        text = module.read_text()
        used.update(re.findall(r"\blimits\.([A-Z0-9_]+)", text))
        if module.parent == FOLDER:  # one may stand in another's number
            used.update(
                each.id
                for each in ast.walk(ast.parse(text))
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
            )
    assert [name for part in PARTS for name in bounds(part) if name not in used] == []
