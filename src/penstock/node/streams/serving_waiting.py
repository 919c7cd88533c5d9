"""Waiting for the disk on behalf of a program, which is told when that takes too long and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import StreamRefused

if TYPE_CHECKING:
    from collections.abc import Callable


async def patiently(waiting: asyncio.Future[None], fault: Callable[[], str]) -> None:
    """Wait; StreamRefused, with the reason, if nothing can be made durable for a while.

    What is waited for goes on all the same: whoever asks again finds it done, or waits again.
    """
    loop = asyncio.get_running_loop()
    since_s: float | None = None
    while True:
        done, _ = await asyncio.wait((waiting,), timeout=limits.STREAM_STALLED_S / 10)
        if done:
            return waiting.result()
        why = fault()
        since_s = None if not why else loop.time() if since_s is None else since_s
        if since_s is not None and loop.time() - since_s >= limits.STREAM_STALLED_S:
            raise StreamRefused(f"this is not durable yet, the node goes on trying: {why}", code="full")
