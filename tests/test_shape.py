"""The numbers of `tools/shape.py` that must not grow: a change that needs more has to say why."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.kit.paths import ROOT

# The tree is read once, not once for each worker.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("shape")]


@pytest.fixture(scope="module")
def shape() -> Any:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "shape.py"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_no_modules_of_the_node_import_one_another(shape: Any) -> None:
    assert shape["node_cycles"] == []


def test_a_class_is_in_one_file(shape: Any) -> None:
    assert shape["spread_classes"] == []


def test_families_of_files_are_folders(shape: Any) -> None:
    assert shape["prefix_families"] == []


def test_modules_are_neither_giants_nor_crumbs(shape: Any) -> None:
    assert 120 <= shape["median_lines"] <= 250
    assert shape["p90_lines"] <= 350
    assert shape["crumbs"] <= 8


def test_tests_stand_where_their_modules_stand(shape: Any) -> None:
    assert shape["unmirrored_tests"] == []


def test_tests_import_helpers_from_the_kit_and_not_from_other_tests() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in path.read_text().splitlines()
        if line.startswith("from tests.") and ".test_" in line.split(" import ")[0]
    ]
    assert found == []
