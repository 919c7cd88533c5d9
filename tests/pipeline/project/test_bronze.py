"""Why a file cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from penstock.pipeline.project.bronze import problem_of
from penstock.pipeline.project.catalogue import RECORDED

if TYPE_CHECKING:
    from pathlib import Path

TYPES = {one.name: one.kind.simpleString() for one in RECORDED["events"]}


def problem(path: Path) -> str | None:
    return problem_of(path.as_uri(), TYPES)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    parquet.write_table(pa.table({"ts": list(range(10_000)), "topic": ["a"] * 10_000}), path)
    assert problem(path) is None
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert problem(path)
    path.write_bytes(whole[:200] + bytes(200) + whole[400:])  # the footer is whole, the rows are not
    assert problem(path)
    parquet.write_table(pa.table({"ts": ["yesterday"]}), path)
    assert problem(path) == "column 'ts' is string, expected bigint"
    parquet.write_table(pa.table({"other": [1]}), path)
    assert "none of the columns" in str(problem(path))
    path.unlink()
    assert problem(path)
