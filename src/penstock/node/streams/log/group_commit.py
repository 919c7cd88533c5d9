"""Group commit: a thread writes what one turn of the event loop collects, one transaction at a time.

What arrives during a transaction goes into the next one. A transaction that fails is kept and retried
until it succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock import limits
from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

Work = TypeVar("Work")


class Owner(Protocol[Work]):
    """Whose work is committed. All but `write` is called in the thread of the loop."""

    def take(self) -> Work | None:
        """What is to be written now; None: nothing."""
        ...

    def write(self, work: Work) -> None:
        """In one transaction, in a thread; StoreError if it cannot be done, and then nothing of it is."""
        ...

    def written(self, work: Work) -> None:
        """It is durable."""
        ...

    def put_back(self, work: Work) -> None:
        """It is not: keep it, before what has come since."""
        ...


class GroupCommit(Generic[Work]):
    """The thread and its turns."""

    def __init__(self, owner: Owner[Work], *, name: str) -> None:
        self._owner = owner
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._writing: asyncio.Future[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._idle: asyncio.Future[None] | None = None
        self.fault = ""
        """Why the last transaction failed; empty if it did not."""

    def start(self) -> None:
        """Write from now on, from the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-stream")
        self.soon()

    def soon(self) -> None:
        """There is something to write."""
        if self._timer is None and self._writing is None and self._loop is not None:
            self._timer = self._loop.call_soon(self._begin)

    def now(self) -> None:
        """There is much to write: do not wait for the end of the turn, unless the disk refuses at present."""
        if self._writing is None and self._loop is not None and not self.fault:
            if self._timer is not None:
                self._timer.cancel()
            self._begin()

    def _begin(self) -> None:
        self._timer = None
        if self._loop is None or self._thread is None:
            return
        work = self._owner.take()
        if work is None:
            self._rest()
            return
        self._writing = self._loop.run_in_executor(self._thread, self._owner.write, work)
        self._writing.add_done_callback(self._done_with(work))

    def _done_with(self, work: Work) -> Callable[[asyncio.Future[None]], None]:
        return lambda done: self._done(done, work)

    def _done(self, done: asyncio.Future[None], work: Work) -> None:
        self._writing = None
        error = done.exception()
        if error is None:
            if self.fault:
                log.warning("%s: can be written again", self._name)
            self.fault = ""
            try:
                self._owner.written(work)
            finally:
                self.soon()
            return
        # Nobody is answered: what was accepted is in memory, and tried again until it is on disk.
        text = str(error) if isinstance(error, StoreError) else repr(error)
        if text != self.fault:
            log.error("%s; nothing is acknowledged; trying again every %g s", text, limits.JOURNAL_RETRY_S)
        self.fault = text
        self._owner.put_back(work)
        if self._idle is not None:
            self._rest()
        elif self._loop is not None:
            self._timer = self._loop.call_later(limits.JOURNAL_RETRY_S, self._begin)

    def _rest(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def close(self) -> None:
        """Write the rest; when it cannot be written after one more attempt, `fault` says so."""
        if self._loop is None or self._thread is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._idle = self._loop.create_future()
        self.soon()
        await self._idle
        self._loop = None
        self._thread.shutdown()
        self._thread = None
