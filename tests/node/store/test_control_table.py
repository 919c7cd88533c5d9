"""Control tables: written whole, loaded newest first, broken ones refused while the old one stays."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from penstock.errors import InputError
from penstock.model.control_table import DONE_FILE, VERSION_FILE, folder_of, version_of
from penstock.node.store.control_table import TableFollower, TableVersion, load, newest
from penstock.pipeline.tables.control_tables import KEPT, versions, write_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pa = pytest.importorskip("pyarrow")

COLUMNS = {"client": "string", "period_us": "int64"}


class Row(msgspec.Struct, frozen=True):
    client: str
    period_us: Annotated[int, msgspec.Meta(ge=1)]


def rows(*periods: int) -> Any:
    return pa.table(
        {
            "client": [f"c{number}" for number in range(len(periods))],
            "period_us": pa.array(periods, pa.int64()),
            "extra": [1.5] * len(periods),
        }
    )


def written(folder: Path, *periods: int) -> int:
    return write_version(rows(*periods), folder, name="t", made_us=7).version


def test_the_newest_version_is_loaded_with_the_columns_asked_for(tmp_path: Path) -> None:
    assert load(tmp_path / "none", "t", COLUMNS) is None
    assert written(tmp_path, 1, 2) == 1
    assert written(tmp_path, 3) == 2
    found = load(tmp_path, "t", COLUMNS)
    assert found is not None
    assert found.version.version == 2
    assert found.version.made_us == 7
    assert found.table.column_names == list(COLUMNS)
    assert found.rows(Row) == [Row("c0", 3)]


def test_an_empty_table_is_one(tmp_path: Path) -> None:
    written(tmp_path)
    found = load(tmp_path, "t", COLUMNS)
    assert found is not None
    assert found.rows(Row) == []


def test_a_version_without_its_mark_is_being_written(tmp_path: Path) -> None:
    written(tmp_path, 1)
    written(tmp_path, 2)
    (tmp_path / folder_of(2) / DONE_FILE).unlink()
    assert newest(tmp_path) == 1


def test_old_versions_go(tmp_path: Path) -> None:
    for period in range(1, KEPT + 4):
        written(tmp_path, period)
    assert versions(tmp_path) == list(range(4, KEPT + 4))
    assert [entry.name for entry in tmp_path.iterdir() if version_of(entry.name) is None] == []


def test_a_row_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    written(tmp_path, 5, 0)
    found = load(tmp_path, "t", COLUMNS)
    assert found is not None
    with pytest.raises(InputError, match=r"row 1: .*>= 1"):
        found.rows(Row)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _scramble(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _reword(version: Path, old: str, new: str) -> None:
    file = version / VERSION_FILE
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda v: _cut(v / "part-0000.parquet"), "bytes, expected"),
        (lambda v: _scramble(v / "part-0000.parquet"), "is not a table with these columns"),
        (lambda v: (v / "part-0000.parquet").unlink(), "cannot be read"),
        (lambda v: (v / VERSION_FILE).write_text("{"), "is not the description of a control table"),
        (lambda v: (v / VERSION_FILE).unlink(), "cannot be read"),
        (lambda v: v.rename(v.with_name(folder_of(9))), "is version 1 of 't', expected version 9"),
        (lambda v: _reword(v, "part", "../part"), "bad file name"),
        (lambda v: _reword(v, "part", "a\\u0000part"), "bad file name"),
        (lambda v: _reword(v, '"rows": 1', '"rows": 2'), "has 1 rows, expected 2"),
        (lambda v: _reword(v, '"rows": 1', '"rows": -1'), "has -1 rows"),
    ],
)
def test_a_broken_version_is_refused_with_the_reason(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    written(tmp_path, 1)
    spoil(tmp_path / folder_of(1))
    with pytest.raises(InputError, match=said):
        load(tmp_path, "t", COLUMNS)


def test_bytes_that_changed_on_their_way_are_noticed(tmp_path: Path) -> None:
    names = [f"é{number}" for number in range(40)]
    write_version(pa.table({"client": names, "period_us": list(range(1, 41))}), tmp_path, name="t")
    file = tmp_path / folder_of(1) / "part-0000.parquet"
    whole, dice, refused = file.read_bytes(), Random(7), 0
    for _ in range(300):
        spoilt = bytearray(whole)
        spoilt[dice.randrange(len(whole))] ^= dice.randrange(1, 256)
        file.write_bytes(spoilt)
        try:
            found = load(tmp_path, "t", COLUMNS)
        except InputError:
            refused += 1
            continue
        assert found is not None  # what is not looked at changed: names of writers, statistics
        assert [row.client for row in found.rows(Row)] == names
    assert refused > 200


async def test_a_version_that_is_still_on_its_way_is_taken_when_it_has_come(tmp_path: Path) -> None:
    taken: list[TableVersion] = []
    follower = TableFollower(tmp_path, "t", COLUMNS, keys=1, taken=taken.append)
    written(tmp_path, 1)
    file = tmp_path / folder_of(1) / "part-0000.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert not await follower.look()
    assert "has 100 bytes" in follower.fault
    file.write_bytes(whole)
    assert await follower.look()
    assert follower.fault == ""


def test_another_table_and_missing_columns_are_refused(tmp_path: Path) -> None:
    written(tmp_path, 1)
    with pytest.raises(InputError, match="of 't', expected version 1 of 'other'"):
        load(tmp_path, "other", COLUMNS)
    with pytest.raises(InputError, match="has no column weight"):
        load(tmp_path, "t", COLUMNS | {"weight": "double"})
    with pytest.raises(InputError, match="is not a table with these columns"):
        load(tmp_path, "t", {"client": "int64"})


def test_a_follower_keeps_the_last_good_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken: list[list[Row]] = []

    def take(found: TableVersion) -> None:
        taken.append(found.rows(Row))

    async def follow() -> None:
        follower = TableFollower(tmp_path, "t", COLUMNS, keys=1, taken=take)
        assert not await follower.look()
        written(tmp_path, 1)
        assert await follower.look()
        assert not await follower.look()
        written(tmp_path, 0)
        assert not await follower.look()
        assert not await follower.look()
        assert follower.version is not None
        assert follower.version.version == 1
        assert "row 0" in follower.fault
        written(tmp_path, 3)
        assert await follower.look()
        assert follower.fault == ""

    with caplog.at_level(logging.ERROR):
        asyncio.run(follow())
    assert taken == [[Row("c0", 1)], [Row("c0", 3)]]
    assert sum("not loaded" in record.message for record in caplog.records) == 1
