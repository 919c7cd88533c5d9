"""The pages a newcomer opens first lead somewhere: links, and the places in the source that they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import product

import pytest

import penstock
import penstock.pipeline
from tests.kit.paths import ROOT

PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def links(page: str) -> list[str]:
    """The files of this repository that a page links to."""
    found = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text())
    return [link.partition("#")[0] for link in found if "://" not in link and not link.startswith("#")]


def named(page: str) -> list[str]:
    """Files and folders of the package, of the tests and of the documentation that a page names."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    words = re.findall(r"`([\w./{},*-]*/[\w./{},*-]*)`", text)
    return [word for word in words if re.fullmatch(r"[a-z][\w/.{},*-]*(\.py|/)", word)]


def spelled(word: str) -> list[str]:
    """`a/{b,c}.py` in full."""
    parts = re.split(r"\{([^}]*)\}", word)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(each) for each in product(*choices)]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [link for link in links(page) if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page: str) -> None:
    places = (ROOT, ROOT / "src" / "penstock", ROOT / "lab" / "src" / "penstock_lab")
    gone = [
        each
        for word in named(page)
        for each in spelled(word)
        if not any(any(place.glob(each.rstrip("/"))) for place in places)
    ]
    assert gone == []


def test_every_guide_and_reference_can_be_found_from_the_readme() -> None:
    known = set(links("README.md"))
    pages = [*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]
    assert (
        sorted(str(page.relative_to(ROOT)) for page in pages if str(page.relative_to(ROOT)) not in known)
        == []
    )


@pytest.mark.parametrize("package", ["client", "limits", "mqtt", "node"])
def test_the_map_of_a_package_names_all_of_its_modules(package: str) -> None:
    folder = ROOT / "src" / "penstock" / package
    shown = (folder / "__init__.py").read_text()
    assert [
        each.name for each in sorted(folder.glob("[a-z]*.py")) if not re.search(rf"\b{each.name}\b", shown)
    ] == []


IMPORT = re.compile(r"^\s*(?:from|import) (penstock(?:\.\w+)*)\b", re.MULTILINE)


def test_docs_and_examples_import_public_names_only() -> None:
    """From `penstock`, from a folder of it, or from a folder below `penstock.core`."""
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*.*"),
        *ROOT.glob("lab/*.md"),
    ]
    deep = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in IMPORT.findall(page.read_text())
        if (name.count(".") > 1 and not name.startswith("penstock.core."))
        or not (ROOT / "src" / name.replace(".", "/")).is_dir()
    ]
    assert deep == []


@pytest.mark.slow  # it starts a process
@pytest.mark.parametrize(
    ("given", "page", "names"),
    [((), "api.md", penstock.__all__), (("pipeline",), "pipeline-api.md", penstock.pipeline.__all__)],
    ids=["public", "pipeline"],
)
def test_a_reference_of_names_is_what_the_docstrings_say(
    given: tuple[str, ...], page: str, names: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "tools/api_reference.py", *given],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (ROOT / "docs" / "reference" / page).read_text() == done.stdout, (
        f"repeat: python3 tools/api_reference.py {' '.join(given)} > docs/reference/{page}"
    )
    missing = [name for name in names if f"### `{name}`" not in done.stdout]
    assert missing == []
