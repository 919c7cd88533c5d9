"""Background tasks of one part of a node: they end together, and a task that a bug ends is logged."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

log = logging.getLogger(__name__)


class Background:
    """The tasks of one part of a node; `close` it at the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None], consequence: str) -> asyncio.Task[None]:
        """Start a task; `consequence` is logged if a bug ends the task."""
        task = asyncio.create_task(work)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                log.error("a bug: %s", consequence, exc_info=done.exception())

        self._tasks.add(task)
        task.add_done_callback(ended)
        return task

    async def close(self) -> None:
        """Cancel all tasks, and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
