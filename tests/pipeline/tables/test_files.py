"""Files on this machine: which are read, and what is said about those that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock import limits
from penstock.errors import InputError
from penstock.pipeline.tables.files import NeedsSpark, format_of, is_small, read_table

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, *, rows: int = 3) -> None:
    parquet.write_table(pa.table({"ts": range(rows)}), path)


def test_a_folder_that_a_node_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECORD_ASK_S", 0.1)
    running = tmp_path / ".events-20260131T120000.123456Z.parquet.inprogress"
    running.write_bytes(b"PAR1")
    with pytest.raises(InputError) as caught:
        read_table(str(tmp_path), "parquet")
    assert running.name in str(caught.value)
    assert "Is the node running?" in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == [running.name]  # the request is taken back
    write(tmp_path / "events-20260131T115000.123456Z.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert read_table(str(tmp_path), "parquet").num_rows == 3
    running.unlink()


def test_formats(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"ts": 1, "v": 2.5, "at": "2026-01-01T00:00:00"}\n{"ts": 2, "v": 3}\n')
    assert read_table(str(lines), format_of(str(lines))).to_pylist() == [
        {"ts": 1, "v": 2.5, "at": "2026-01-01T00:00:00"},  # a text, as Spark reads it
        {"ts": 2, "v": 3.0, "at": None},
    ]
    table = tmp_path / "a.tsv"
    table.write_text("ts\tv\n1\tNA\n2\t\n")
    assert read_table(str(table), format_of(str(table))).to_pylist() == [
        {"ts": 1, "v": "NA"},
        {"ts": 2, "v": None},
    ]


@pytest.mark.parametrize(
    ("name", "content", "kind", "said"),
    [
        ("a.parquet", b"PAR1 but not really PAR1", "parquet", "a.parquet: is not parquet"),
        ("empty", None, "parquet", "there is no parquet data in it"),
        ("absent", b"", "orc", "unknown format 'orc'; allowed: parquet, json, csv"),
        ("missing", b"", "parquet", "there is no such file or folder"),
        ("a.csv", b"", "csv", "there is no csv data in it"),
        ("b.csv", b"ts\n", "csv", "there is no event in it"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, kind: str, said: str) -> None:
    path = tmp_path / name
    if content is None:
        path.mkdir()
    elif name not in ("absent", "missing"):
        path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_table(str(path), kind)


def test_what_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"ts": 1}\n{"ts": "two"}\n')
    with pytest.raises(NeedsSpark, match="cannot be read as one table"):
        read_table(str(lines), "json")
    write(tmp_path / "a.parquet")
    monkeypatch.setattr(limits, "LOCAL_EVENTS", 2)
    with pytest.raises(NeedsSpark, match="3 events; more than 2 need Spark"):
        read_table(str(tmp_path / "a.parquet"), "parquet")


def test_small_is_told_by_bytes_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet")
    assert is_small(str(tmp_path), "parquet")
    monkeypatch.setattr(limits, "SHORT_EVENTS", 5)
    assert not is_small(str(tmp_path), "parquet")
    monkeypatch.setattr(limits, "SHORT_BYTES", 10)
    assert not is_small(str(tmp_path), "json")
    assert is_small(str(tmp_path / "absent"), "parquet")  # the reader says that it is not there
