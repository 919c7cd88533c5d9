"""Versions of control tables: parts, content, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import InputError
from penstock.node.store.control_table import load
from penstock.pipeline.tables.control_tables import (
    content_hash,
    newest_version,
    roll_back,
    versions,
    write_version,
)

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"url": "string", "interval_us": "int64"}


def table(*intervals: int) -> pa.Table:
    return pa.table({"url": [f"u{one}" for one in intervals], "interval_us": list(intervals)})


def test_a_hash_of_the_content_does_not_depend_on_order_or_chunks() -> None:
    whole = table(1, 2, 3)
    parts = pa.concat_tables([table(3), table(1, 2)])
    assert content_hash(whole) == content_hash(parts) == content_hash(parts.slice(0))
    assert content_hash(whole.slice(1)) == content_hash(table(2, 3))
    assert content_hash(table(1, 2)) != content_hash(whole)
    assert content_hash(table()) == content_hash(pa.table({}))


def test_back_to_the_version_before_and_what_was_taken_back_is_refused(tmp_path: Path) -> None:
    for intervals in ((1,), (2,), (3,)):
        write_version(table(*intervals), tmp_path, name="allocation")
    made = roll_back(tmp_path)
    assert (made.version, made.note) == (4, "rolled back from version 3 to version 2")
    assert made.refuses == (content_hash(table(3)),)
    found = load(tmp_path, "allocation", COLUMNS)
    assert found is not None
    assert found.table["interval_us"].to_pylist() == [2]
    again = roll_back(tmp_path, to=1)
    assert set(again.refuses) == {content_hash(table(2)), content_hash(table(3))}
    assert versions(tmp_path) == [1, 2, 3, 4, 5]
    with pytest.raises(InputError, match=r"version 9 is not there to go back to; there are: 1, 2, 3, 4"):
        roll_back(tmp_path, to=9)
    with pytest.raises(InputError, match="there is no version"):
        roll_back(tmp_path / "nothing")


def test_the_only_version_stays(tmp_path: Path) -> None:
    write_version(table(1), tmp_path, name="allocation")
    with pytest.raises(InputError, match="version 1 is the only one"):
        roll_back(tmp_path)
    newest = newest_version(tmp_path)
    assert newest is not None
    assert newest.version == 1


def test_the_command(tmp_path: Path) -> None:
    write_version(table(1), tmp_path, name="policies")
    write_version(table(2), tmp_path, name="policies")
    done = CliRunner().invoke(app, ["policy", "rollback", str(tmp_path), "--json"])
    assert done.exit_code == 0
    assert msgspec.json.decode(done.stdout)["version"] == 3
    done = CliRunner().invoke(app, ["policy", "rollback", str(tmp_path), "--to", "2"])
    assert "version 4, 1 rows: rolled back from version 3 to version 2" in done.stdout
