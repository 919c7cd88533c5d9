"""Waiting for the disk on behalf of a program, which is told when that takes too long and why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import StreamRefused

if TYPE_CHECKING:
    from collections.abc import Callable


class Patience:
    """Of somebody who waits and looks now and then what is wrong."""

    def __init__(self, fault: Callable[[], str]) -> None:
        self._fault = fault
        self._since_s: float | None = None

    def over(self) -> str:
        """What is wrong, if something has been at every look for too long; empty: wait on."""
        why = self._fault()
        now_s = asyncio.get_running_loop().time()
        self._since_s = None if not why else now_s if self._since_s is None else self._since_s
        late = self._since_s is not None and now_s - self._since_s >= limits.STREAM_STALLED_S
        return why if late else ""


async def patiently(waiting: asyncio.Future[None], fault: Callable[[], str]) -> None:
    """Wait; StreamRefused, with the reason, if nothing can be made durable for a while.

    What is waited for goes on all the same: whoever asks again finds it done, or waits again.
    """
    patience = Patience(fault)
    while True:
        done, _ = await asyncio.wait((waiting,), timeout=limits.STREAM_STALLED_S / 10)
        if done:
            return waiting.result()
        if why := patience.over():
            raise StreamRefused(f"this is not durable yet, the node goes on trying: {why}", code="full")
