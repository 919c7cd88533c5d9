"""The notebooks of examples/: every cell runs, with less data than a person would take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what the libraries of the notebook warn about is not ours
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(
    path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert spark.version  # the notebook's `getOrCreate` finds this session
    names: dict[str, Any] = {}
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs"), "clear the outputs before you commit a notebook"
        if cell["cell_type"] == "code":
            source = (
                "".join(cell["source"]).replace("20_000", "1_600").replace("capacity=500", "capacity=100")
            )
            exec(compile(source, path.name, "exec"), names)  # noqa: S102  # our own notebook
    advice = names["advice"]
    assert advice.needed is not None
    assert advice.measured[advice.needed - 1].kept <= advice.budget
    assert len(matplotlib.pyplot.get_fignums()) == 3
    matplotlib.pyplot.close("all")
    (written,) = tmp_path.rglob("advised.yaml")
    assert "levels" in written.read_text()


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
    page = (ROOT / "examples" / "README.md").read_text()
    assert all(f"(notebooks/{path.name})" in page for path in NOTEBOOKS)
