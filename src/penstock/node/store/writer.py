"""Group commit: a thread writes what has collected in memory, one transaction at a time.

Everything that a node keeps in SQLite goes through a `GroupCommit`: the broker's journal, logs and state of
streams, staged rows, the outbox, facts of channels. Each of them is a `Backlog`, which knows its rows; the
`GroupCommit` knows when to write them and what to do when the disk refuses:

* Whatever collects during a turn of the event loop, or while a transaction is being written, is the next
  transaction. So the number of transactions adapts to the disk, and one fsync serves many publishers.
* Callbacks are called in the event loop, in order, after the transaction that holds all that was added before
  them. An acknowledgement sent from such a callback is never lost in a crash.
* A transaction that fails is put back before what has come since and tried again every JOURNAL_RETRY_S. The
  log has one line when that begins and one when it ends; nobody is called back in between.
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
Answer = TypeVar("Answer")


class Backlog(Protocol[Work]):
    """Holds what waits to be written. All but `write` is called in the thread of the event loop."""

    def pending(self) -> int:
        """How many rows, messages or values wait, not counting those that were taken."""
        ...

    def take(self) -> Work | None:
        """Return everything that waits and forget it; None if nothing is to be written."""
        ...

    def write(self, work: Work) -> None:
        """Write in one transaction, in the writer's thread; StoreError if nothing of it was written."""
        ...

    def written(self, work: Work) -> None:
        """Called when the work is on disk, before the callbacks that wait for it."""
        ...

    def put_back(self, work: Work) -> None:
        """Called when the work was not written: keep it, before what has come since."""
        ...


class GroupCommit(Generic[Work]):
    """Writes a backlog: one thread, one transaction at a time."""

    def __init__(
        self,
        backlog: Backlog[Work],
        *,
        name: object,
        rows: str = "rows",
        meanwhile: str = "nothing is acknowledged",
    ) -> None:
        """`name` is that of the file and `rows` what the backlog is made of, in the plural, for messages;
        `meanwhile` tells the log what it means for others that the disk refuses."""
        self._backlog = backlog
        self._name = name
        self._rows = rows
        self._meanwhile = meanwhile
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._timer: asyncio.Handle | None = None
        """The turn, or the moment, in which the next transaction begins."""
        self._writing: asyncio.Future[None] | None = None
        self._under_way = (0, 0)
        """Rows in the transaction that is being written, and callbacks that wait for it."""
        self._waiting: list[Callable[[], None]] = []
        self._awaited: set[asyncio.Future[None]] = set()
        """Futures of the callers that wait in `committed`."""
        self._closing = False
        self.scheduled = False
        """Whether the next transaction begins without a call of `soon`; looked at once a message or more."""
        self.fault = ""
        """Why the last transaction failed; empty if it did not."""
        self.begun = 0
        """Transactions begun so far: what is added while this stays the same is written together."""
        self.written = 0
        """Number of a transaction: all that was added while `begun` was less than it is on disk."""

    # -- what the backlog says -------------------------------------------------------------------------------

    def start(self) -> None:
        """Write from now on, from the running loop; what came before the start is written, too."""
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-store")
        self.soon()

    def soon(self) -> None:
        """There is something to write: write it at the end of this turn, or after the present transaction."""
        if not self.scheduled and self._loop is not None and not self._closing:
            self.scheduled = True
            self._timer = self._loop.call_soon(self._begin)

    def now(self) -> None:
        """There is much to write: begin within this turn, unless the disk is busy or refuses at present."""
        if self._writing is None and self._loop is not None and not self.fault and not self._closing:
            if self._timer is not None:
                self._timer.cancel()
            self._begin()

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call back, in a later turn, when all that was added so far is on disk."""
        self._waiting.append(callback)
        if not self.scheduled:
            self.soon()

    async def committed(self) -> None:
        """Wait until all that was added so far is on disk; cancelled if it is not when the writer closes."""
        if self._closing and self._thread is None and not self._backlog.pending():
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def call() -> None:
            if not done.done():
                done.set_result(None)

        self._awaited.add(done)
        self.after_commit(call)
        if self._closing and self._thread is None:  # nothing is written any more
            done.cancel()
        try:
            await done
        finally:
            self._awaited.discard(done)

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Run something else in the writer's thread, between two transactions: a query of the same file."""
        assert self._thread is not None, "start comes first"
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- what can be known -----------------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        """Whether something is not on disk yet."""
        return self._writing is not None or self._backlog.pending() > 0

    @property
    def rows(self) -> int:
        """How many rows are not on disk yet."""
        return self._backlog.pending() + self._under_way[0]

    @property
    def waiting(self) -> int:
        """How many callbacks wait."""
        return len(self._waiting) + self._under_way[1]

    @property
    def choked(self) -> bool:
        """Whether so much waits for the disk that nothing more should be accepted."""
        return self._backlog.pending() + self._under_way[0] > limits.JOURNAL_ROWS

    # -- transactions ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Hand what has collected to the thread."""
        self._timer = None
        self.scheduled = False
        if self._writing is not None or self._loop is None or self._thread is None:
            return
        self.begun += 1
        count = self._backlog.pending()
        work = self._backlog.take()
        waiting, self._waiting = self._waiting, []
        if work is None:
            self.written = self.begun
            self._call(waiting)
            return
        self._under_way = count, len(waiting)
        self.scheduled = True
        self._writing = self._loop.run_in_executor(self._thread, self._backlog.write, work)
        self._writing.add_done_callback(lambda done: self._done(done, work, waiting))

    def _done(self, done: asyncio.Future[None], work: Work, waiting: list[Callable[[], None]]) -> None:
        self._writing = None
        self._under_way = 0, 0
        self.scheduled = False
        error = done.exception()
        if error is not None:
            self._failed(error, work, waiting)
            return
        if self.fault:
            log.warning("%s: can be written again", self._name)
        self.fault = ""
        self.written = self.begun
        try:
            self._backlog.written(work)
        finally:
            self._call(waiting)
            self.soon()

    def _failed(self, error: BaseException, work: Work, waiting: list[Callable[[], None]]) -> None:
        """Keep everything in memory and try again later; nobody is called back."""
        text = str(error) if isinstance(error, StoreError) else repr(error)
        if text != self.fault:
            log.error(
                "%s; trying again every %g s; until then %s", text, limits.JOURNAL_RETRY_S, self._meanwhile
            )
        self.fault = text
        self._backlog.put_back(work)
        self._waiting = [*waiting, *self._waiting]
        if self._loop is not None and not self._closing:
            self.scheduled = True
            self._timer = self._loop.call_later(limits.JOURNAL_RETRY_S, self._begin)

    def _call(self, waiting: list[Callable[[], None]]) -> None:
        for callback in waiting:
            try:
                callback()
            except Exception:  # the others must be called nevertheless
                log.exception("%s: a callback after a transaction failed", self._name)

    async def close(self, release: Callable[[], None] = lambda: None) -> None:
        """Write the rest, once more if the disk refused before; StoreError tells how much is not written.

        `release` lets go of the file. It is called when the thread is done with the file.
        """
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tried = False
        while self._thread is not None and not (tried and self.fault):
            if self._writing is None:
                tried = True
                self._begin()
            if self._writing is not None:
                await asyncio.wait({self._writing})
            elif not self._waiting and not self._backlog.pending():
                break
        if self._thread is not None:
            self._thread.shutdown()
        self._loop = self._thread = None
        release()
        for one in self._awaited:
            one.cancel()
        if self.fault and self._backlog.pending():
            raise StoreError(
                f"{self._backlog.pending():,} {self._rows} could not be written: {self.fault}", self._name
            )
