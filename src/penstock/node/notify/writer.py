"""Writes the rows of the outbox to SQLite in a thread; one turn of the event loop is one transaction."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import DigestError, StoreError
from penstock.node.notify import subscriber_queue as sql

if TYPE_CHECKING:
    from penstock.node.notify.outbox import Outbox
    from penstock.node.store.database import Database, Row

log = logging.getLogger(__name__)


class OutboxWriter:
    """Writes rows in a thread, one transaction at a time."""

    def __init__(self, outbox: Outbox, store: Database) -> None:
        self._outbox = outbox
        self._store = store
        self._noted = asyncio.Event()
        outbox.noted = self._noted.set
        self._beside: list[Row] = []
        """What others have to write."""
        self._waiting: list[asyncio.Future[None]] = []
        """Who waits for the rows there are now."""
        self.fault = ""
        """Why the last transaction failed; empty if it did not."""
        try:
            outbox.restore(store.rows(sql.LOAD), store.rows(sql.LOAD_HELD))
        except DigestError as error:
            raise StoreError(
                f"damaged: {error}; move the file away to start without it", store.path
            ) from None
        self._task = asyncio.create_task(self._run())

    def note(self, row: Row) -> None:
        """Write another row with the next ones."""
        self._beside.append(row)
        self._noted.set()

    async def safe(self) -> None:
        """Wait until what was noted so far is on disk; while that cannot be, it is tried again."""
        written = asyncio.get_running_loop().create_future()
        self._waiting.append(written)
        self._noted.set()
        await written

    async def _run(self) -> None:
        while True:
            await self._noted.wait()
            self._noted.clear()
            if not await self._write():
                await asyncio.sleep(limits.JOURNAL_RETRY_S)
                self._noted.set()

    async def _write(self) -> bool:
        beside, self._beside = self._beside, []
        waiting, self._waiting = self._waiting, []
        rows = beside + self._outbox.take_rows()
        writing = asyncio.ensure_future(asyncio.to_thread(self._store.write, rows))
        try:
            await asyncio.shield(writing)
        except (StoreError, asyncio.CancelledError) as error:
            with suppress(StoreError):
                await writing  # the thread uses the file until then
            self._outbox.unwritten()
            self._beside = (beside + self._beside)[-limits.JOURNAL_ROWS :]
            self._waiting += waiting
            if not isinstance(error, StoreError):
                raise
            if str(error) != self.fault:
                log.error("what waits for subscribers is not on disk: %s", error)  # noqa: TRY400
            self.fault = str(error)
            return False
        self.fault = ""
        for written in waiting:
            if not written.done():
                written.set_result(None)
        return True

    async def close(self) -> None:
        """Write the rest."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._write()
        for written in self._waiting:
            written.cancel()
