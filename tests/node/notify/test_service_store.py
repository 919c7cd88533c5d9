"""The file of the outbox had another name before: it is renamed with what waits in it, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.node.notify.service import OLD_STORE, STORE
from tests.kit.channel_api import MemoryChannels
from tests.kit.notify_service import notifying

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "https://example.org/news"
NOWHERE = "webhook:http://127.0.0.1:9/"
"""Port 9 (discard) refuses connections, so every change for this subscriber waits."""


async def killed(data: Path, copy: Path) -> None:
    """Leave in `copy` what a node with one waiting change has on disk when it is killed, by the old name."""
    channels = MemoryChannels()
    data.mkdir()
    copy.mkdir()
    async with notifying(channels, data=data) as at:
        await channels.subscribe(NOWHERE, PAGE)
        channels.change(PAGE)
        await at.flush()
        for file in data.glob(f"{STORE}*"):
            (copy / file.name.replace(STORE, OLD_STORE)).write_bytes(file.read_bytes())


async def test_changes_that_wait_in_a_file_of_the_old_name_are_taken_over(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    await killed(tmp_path / "data", copy)
    assert (copy / f"{OLD_STORE}-wal").stat().st_size, "the change is still in the write-ahead log"
    async with notifying(MemoryChannels(), data=copy) as at:
        assert at.statistics().waiting == 1
    assert not list(copy.glob(f"{OLD_STORE}*"))


async def test_a_renaming_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    await killed(tmp_path / "data", copy)
    (copy / f"{OLD_STORE}-wal").rename(copy / f"{STORE}-wal")
    async with notifying(MemoryChannels(), data=copy) as at:
        assert at.statistics().waiting == 1


async def test_files_of_both_names_are_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    await killed(tmp_path / "data", copy)
    (copy / STORE).write_bytes(b"")
    with pytest.raises(StoreError, match=f"{OLD_STORE}: this is the old name of {STORE}, which is there too"):
        async with notifying(MemoryChannels(), data=copy):
            pass
    assert (copy / OLD_STORE).exists()
