"""Tasks beside everything else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.node.broker.background import Background

if TYPE_CHECKING:
    import pytest


async def test_a_task_that_dies_is_missed_and_the_others_end_with_their_owner(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def dies() -> None:
        raise RuntimeError("of a bug")

    background = Background()
    lasting = background.begin(asyncio.Event().wait(), "never said")  # type: ignore[arg-type]
    background.begin(dies(), "the sun stands still")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [one.message for one in caplog.records] == ["a bug: the sun stands still"]
    await background.close()
    assert lasting.cancelled()
    await background.close()
