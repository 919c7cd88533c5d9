"""Waiting for something to happen, bounded: a test that waits for ever says nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(happened: Callable[[], object], *, within_s: float = 120.0) -> None:
    """Return once `happened()` is true; TimeoutError if it is not so in time, on a busy machine either."""
    async with asyncio.timeout(within_s):
        while not happened():
            await asyncio.sleep(0.005)
