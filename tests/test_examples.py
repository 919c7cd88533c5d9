"""The documentation is true: examples run, and marked commands print the text below them.

A code block is run if the line above it is `<!-- runnable -->`. After a colon may stand `prints` (the next
code block is its output; a line `…` stands for lines left out) and `exit 3` (the exit code, else 0).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.cli.filters import as_markdown
from tests.kit.paths import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("docs/[!_]*/*.md"), *ROOT.glob("docs/*.md")]
)
LONGEST = 60
"""Lines of an example: more is a program."""
LEFT_OUT = "…"
BLOCK = re.compile(
    r"^<!-- runnable(?:: (?P<rules>[a-z0-9, ]+))? -->\n```(?P<language>sh|python)\n(?P<body>.*?)^```\n"
    r"(?:\n*```[a-z]+\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"^<!-- runnable", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """A marked code block."""

    place: str
    language: str
    body: str
    shown: str | None
    code: int


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            rules = [rule.strip() for rule in (match["rules"] or "").split(",") if rule.strip()]
            codes = [int(rule.removeprefix("exit ")) for rule in rules if rule.startswith("exit ")]
            found.append(
                Block(
                    place=f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}",
                    language=match["language"],
                    body=match["body"],
                    shown=match["shown"] if "prints" in rules else None,
                    code=codes[0] if codes else 0,
                )
            )
    return found


BLOCKS = blocks()


def run(command: list[str], folder: Path) -> tuple[int, str]:
    """Run a command in an empty folder that has the examples; its exit code and all it printed."""
    (folder / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1", "PATH": path}
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | plain
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def assert_shown(shown: str, printed: str) -> None:
    """Compare the text shown with the text printed, but for the parts left out."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == LEFT_OUT else re.escape(line) + r"\n" for line in lines_of(shown)
    )
    assert re.fullmatch(pattern, "\n".join([*lines_of(printed), ""])), f"it printed:\n{printed}"


@pytest.mark.e2e
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_example_runs(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST
    code, printed = run([sys.executable, "-W", "error", f"examples/{path.name}"], tmp_path)
    assert code == 0, printed
    assert printed.strip()


@pytest.mark.e2e
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block.place))
def test_block_does_as_the_page_says(block: Block, tmp_path: Path) -> None:
    shell = ["bash", "-euo", "pipefail", "-c", block.body]
    code, printed = run(shell if block.language == "sh" else [sys.executable, "-c", block.body], tmp_path)
    assert code == block.code, printed
    if block.shown is not None:
        assert_shown(block.shown, printed)


def test_every_mark_was_understood() -> None:
    assert len(BLOCKS) == sum(len(MARK.findall(page.read_text())) for page in PAGES)


def test_the_examples_page_names_every_example() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    policies = (ROOT / "examples" / "policies").iterdir()
    assert [
        path.name for path in (*EXAMPLES, *policies) if f"({path.relative_to(ROOT / 'examples')})" not in page
    ] == []


def test_the_reference_of_filters_is_what_the_code_says() -> None:
    page = ROOT / "docs" / "reference" / "filters.md"
    assert page.read_text() == as_markdown(), (
        "repeat: penstock filters --markdown > docs/reference/filters.md"
    )


def test_a_number_stands_for_one_decision() -> None:
    pages = [page.name for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md")]
    assert len(pages) == len({name[:4] for name in pages}), sorted(pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []
