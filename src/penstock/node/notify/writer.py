"""The outbox on its way to SQLite: rows of the queues, and those of others who use the same file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import DigestError, StoreError
from penstock.node.notify import subscriber_queue as sql
from penstock.node.store.writer import GroupCommit

if TYPE_CHECKING:
    from penstock.node.notify.outbox import Outbox
    from penstock.node.store.database import Database, Row

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """The rows of one transaction."""

    beside: list[Row]
    queued: list[Row]


class OutboxWriter:
    """Restores the outbox from its file, and writes its changes from then on."""

    def __init__(self, outbox: Outbox, store: Database) -> None:
        """Needs a running event loop; StoreError if the file is damaged."""
        self._outbox = outbox
        self._store = store
        self._beside: list[Row] = []
        """Rows noted by others."""
        try:
            outbox.restore(store.rows(sql.LOAD), store.rows(sql.LOAD_HELD))
        except DigestError as error:
            raise StoreError(
                f"damaged: {error}; move the file away to start without it", store.path
            ) from None
        self._commits: GroupCommit[_Work] = GroupCommit(
            self,
            name=store.path or "the outbox",
            meanwhile="what waits for subscribers is only in memory",
        )
        outbox.noted = self._commits.soon
        self._commits.start()

    @property
    def fault(self) -> str:
        """Why the last transaction failed; empty if it did not."""
        return self._commits.fault

    def note(self, row: Row) -> None:
        """Write another row with the next ones."""
        self._beside.append(row)
        self._commits.soon()

    async def safe(self) -> None:
        """Wait until what was noted so far is on disk; while the disk refuses, it is tried again."""
        if self._commits.behind:
            await self._commits.committed()

    async def close(self) -> None:
        """Write the rest. What cannot be written is lost, and logged: the node stops nevertheless."""
        try:
            await self._commits.close()
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400

    # -- what the group commit asks for ----------------------------------------------------------------

    def pending(self) -> int:
        """How many rows wait."""
        return len(self._beside) + self._outbox.unwritten_rows

    def take(self) -> _Work | None:
        """Give away the rows of the outbox and those of others."""
        beside, self._beside = self._beside, []
        work = _Work(beside, self._outbox.take_rows())
        return work if work.beside or work.queued else None

    def write(self, work: _Work) -> None:
        """Write the rows in one transaction."""
        self._store.write(work.beside + work.queued)

    def written(self, work: _Work) -> None:
        """Nothing is left to do for rows on disk."""

    def put_back(self, work: _Work) -> None:
        """Keep the rows of others, within a bound; the outbox writes all it has with the next transaction."""
        self._outbox.unwritten()
        self._beside = (work.beside + self._beside)[-limits.JOURNAL_ROWS :]
