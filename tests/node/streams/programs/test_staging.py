"""Staged rows: several changes in one transaction, each as a whole or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.streams.requests import Row, Staged
from penstock.errors import StoreError, StreamRefused
from penstock.node.streams.programs.staging import FILE, StagedBatch, Staging

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (Row("a", b"x" * 100),)


async def test_one_change_that_is_refused_undoes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_STAGED_BYTES", 3 * 120)
    staging = Staging(tmp_path / FILE)
    found = await asyncio.gather(
        *(staging.stage("s", f"t{number}", 0, ROWS) for number in range(5)), return_exceptions=True
    )
    assert [type(one) for one in found] == [type(None)] * 3 + [StreamRefused] * 2
    for number in range(3):
        assert await staging.rows("s", f"t{number}", 0) == ROWS
    with pytest.raises(StreamRefused, match="are missing"):
        await staging.rows("s", "t3", 0)
    await staging.close()


async def test_a_decision_follows_the_parts_asked_for_before_it(tmp_path: Path) -> None:
    staging = Staging(tmp_path / FILE)
    batch = StagedBatch("s", "w", 1, (Staged("t", 2),), "p", done=False)
    *_, refused = await asyncio.gather(
        staging.stage("s", "t", 0, ROWS),
        staging.stage("s", "t", 1, ROWS),
        staging.decide(batch),
        staging.decide(StagedBatch("s", "v", 1, (Staged("t", 3),), "p", done=False)),
        return_exceptions=True,
    )
    assert isinstance(refused, StreamRefused)
    await staging.close()
    again = Staging(tmp_path / FILE)
    assert await again.unfinished() == [batch]
    await again.close()


async def test_whoever_asks_is_told_that_the_file_cannot_be_written(tmp_path: Path) -> None:
    staging = Staging(tmp_path / FILE)
    await staging.stage("s", "t", 0, ROWS)
    assert staging._database is not None
    staging._database.rows("PRAGMA max_page_count = 1")
    large = (Row("a", bytes(100_000)),)
    found = await asyncio.gather(
        staging.stage("s", "t", 1, large), staging.stage("s", "t", 2, large), return_exceptions=True
    )
    assert [type(one) for one in found] == [StoreError, StoreError]
    staging._database.rows("PRAGMA max_page_count = 1000")
    await staging.stage("s", "t", 1, large)
    assert await staging.rows("s", "t", 1) == large
    await staging.close()


async def test_nothing_is_created_before_it_is_needed(tmp_path: Path) -> None:
    staging = Staging(tmp_path / FILE)
    assert await staging.unfinished() == []
    assert await staging.older(1.0) == []
    await staging.close()
    assert not (tmp_path / FILE).exists()
