"""A run of a pipeline is tried once more where the fault is Spark's, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import SparkFailed
from penstock.pipeline.project import run
from penstock.pipeline.project.create import create
from penstock.pipeline.project.plain import TOO_BUSY
from penstock.pipeline.project.runs import last_runs
from penstock.pipeline.project.standstill import Standstill

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("errors", "tries"),
    [
        ([Standstill("nothing moves")], 2),
        ([SparkFailed(f"Spark failed: {TOO_BUSY}")], 2),
        ([Standstill("nothing moves"), Standstill("again")], 2),
        ([SparkFailed("Spark failed: no such column")], 1),
    ],
)
def test_a_standstill_and_a_busy_machine_are_tried_once_more(
    errors: list[SparkFailed], tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = create(tmp_path / "project", data=[tmp_path / "data"])
    begun: list[str] = []

    def one_try(_project: object, _lock: int, engine: str, *_: object) -> dict[str, int]:
        begun.append(engine)
        if len(begun) <= len(errors):
            raise errors[len(begun) - 1]
        return {"allocation": 1}

    monkeypatch.setattr(run, "_run", one_try)
    if len(errors) < tries:
        assert run.run_once(project).control == {"allocation": 1}
    else:
        with pytest.raises(SparkFailed, match=str(errors[-1])):
            run.run_once(project)
        assert last_runs(project)[-1].error == str(errors[-1])
    assert len(begun) == tries
