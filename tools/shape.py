"""Prints the shape of the code base; `tests/test_shape.py` holds the numbers that must not grow.

    python tools/shape.py [--json]

Everything is read from the syntax trees of `src/penstock` and `tests`; nothing is imported. Imports under
TYPE_CHECKING and inside functions count: a module that only names another one's type depends on it.
"""

from __future__ import annotations

import ast
import json
import statistics
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "penstock"
TESTS = ROOT / "tests"
LAB = ROOT / "lab" / "src" / "penstock_lab"
MIRRORS = {"spark/cli": PACKAGE / "cli", "spark/lab": LAB, "spark": PACKAGE / "pipeline", "lab": LAB}
"""Folders of tests that mirror something else than the folder of their name, inner ones first."""
ELSEWHERE = ("agreement/", "e2e/", "kit/", "spark/cluster/")
"""Folders of tests about several modules at once."""
LONG_FUNCTION = 60
CRUMB = 30
FAMILY = 3
"""So many modules of one folder with the same first word should be a folder."""


@dataclass(frozen=True)
class Shape:
    """The figures that the script prints."""

    files: int
    lines: int
    code_lines: int
    """Without docstrings, comments and blank lines."""
    median_lines: float
    p90_lines: int
    crumbs: int
    """Modules under 30 lines, but for the `__init__.py` of folders."""
    long_functions: list[str]
    node_cycles: list[list[str]]
    """Modules of `penstock.node` that import one another."""
    spread_classes: list[str]
    """Classes whose only use is to be the base of one class in another file."""
    prefix_families: list[str]
    comment_percent: float
    test_mirror_percent: float
    """Test files at the path of the module they test."""
    unmirrored_tests: list[str]


def modules() -> dict[str, ast.Module]:
    """The modules of the product by dotted name."""
    return {_dotted(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a module, however deep; what is inside an expression is of no use here."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules each module imports, by whatever kind of import."""
    graph: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in statements(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    graph[name].add(inner if inner in trees else node.module)
            elif isinstance(node, ast.Import):
                graph[name].update(alias.name for alias in node.names)
    return {name: {each for each in found if each in trees} for name, found in graph.items()}


def cycles(graph: dict[str, set[str]], within: str) -> list[list[str]]:
    """Groups of modules inside a package that import one another (Tarjan)."""
    inside = {name for name in graph if name == within or name.startswith(within + ".")}
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name] & inside):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(inside):
        if name not in order:
            visit(name)
    return found


def spread_classes(trees: dict[str, ast.Module]) -> list[str]:
    """Classes that one class of another file inherits from and nothing else uses."""
    homes = {
        f"{module}.{node.name}": node
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    users: dict[str, set[str]] = defaultdict(set)
    heirs: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        known = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in statements(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for full in known.values():
            users[full].add(module)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    plain = base.value if isinstance(base, ast.Subscript) else base
                    if isinstance(plain, ast.Name) and known.get(plain.id) in homes:
                        heirs[known[plain.id]].append(f"{module}.{node.name}")
    return sorted(
        f"{base} -> {found[0]}"
        for base, found in heirs.items()
        if len(found) == 1 and len(users[base]) == 1 and not _is_protocol(homes[base])
    )


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def prefix_families() -> list[str]:
    """Folders with several modules that begin with the same word."""
    found = []
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        words: dict[str, list[str]] = defaultdict(list)
        for path in sorted(folder.glob("*.py")):
            words[path.stem.split("_")[0]].append(path.stem)
        found += [
            f"{folder.relative_to(PACKAGE)}/{word}*: {len(names)}"
            for word, names in words.items()
            if word and len(names) >= FAMILY
        ]
    return found


def unmirrored_tests() -> tuple[int, list[str]]:
    """How many test files there are, and those that are not at the path of a module or folder."""
    found = [
        path
        for path in sorted(TESTS.rglob("test_*.py"))
        if path.parent != TESTS and not str(path.relative_to(TESTS)).startswith(ELSEWHERE)
    ]
    return len(found), [str(path.relative_to(ROOT)) for path in found if not _has_module(path)]


def _has_module(path: Path) -> bool:
    inside = str(path.parent.relative_to(TESTS))
    top = next((each for each in MIRRORS if inside == each or inside.startswith(each + "/")), "")
    folder = MIRRORS.get(top, PACKAGE) / inside.removeprefix(top).lstrip("/")
    words = path.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    return any((folder / f"{name}.py").exists() or (folder / name).is_dir() for name in names)


def measure() -> Shape:
    """Read the tree."""
    trees = modules()
    texts = {name: path.read_text() for path in PACKAGE.rglob("*.py") for name in [_dotted(path)]}
    sizes = sorted(len(text.splitlines()) for text in texts.values())
    lines = sum(sizes)
    comments = sum(row.lstrip().startswith("#") for text in texts.values() for row in text.splitlines())
    functions = [
        (f"{name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for name, tree in trees.items()
        for node in statements(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    tests, strays = unmirrored_tests()
    return Shape(
        files=len(trees),
        lines=lines,
        code_lines=sum(_code_lines(texts[name], tree) for name, tree in trees.items()),
        median_lines=statistics.median(sizes),
        p90_lines=sizes[len(sizes) * 9 // 10],
        crumbs=sum(
            len(path.read_text().splitlines()) < CRUMB
            for path in PACKAGE.rglob("*.py")
            if path.name != "__init__.py"
        ),
        long_functions=[f"{name}: {size}" for name, size in functions if size > LONG_FUNCTION],
        node_cycles=cycles(imports(trees), "penstock.node"),
        spread_classes=spread_classes(trees),
        prefix_families=prefix_families(),
        comment_percent=round(100 * comments / lines, 2),
        test_mirror_percent=round(100 * (1 - len(strays) / tests), 1),
        unmirrored_tests=strays,
    )


def _code_lines(text: str, tree: ast.Module) -> int:
    prose: set[int] = set()
    for node in statements(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(row.strip()) and not row.lstrip().startswith("#") and number not in prose
        for number, row in enumerate(text.splitlines(), start=1)
    )


def main() -> None:
    """Print the shape, as lines or as JSON."""
    shape = asdict(measure())
    if "--json" in sys.argv:
        print(json.dumps(shape, indent=1))
        return
    for name, value in shape.items():
        shown = (
            value
            if not isinstance(value, list)
            else f"{len(value)}" + "".join(f"\n    {one}" for one in value)
        )
        print(f"{name.replace('_', ' '):<22} {shown}")


if __name__ == "__main__":
    main()
