"""Rows of channels on their way to SQLite: versions and changes at once, facts every few seconds."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock import limits
from penstock.errors import StoreError
from penstock.node.channels import store as sql
from penstock.node.store.writer import GroupCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.channels.delta import Delta
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.store import ChannelStore
    from penstock.node.store.database import Row

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class _Maker:
    """Makes the rows of a caller that waits. If that fails the caller gets the error, others their rows."""

    __slots__ = ("_make", "error")

    def __init__(self, make: Callable[[], Sequence[Row]]) -> None:
        self._make = make
        self.error: Exception | None = None

    def rows(self) -> list[Row]:
        """Make the rows; none, and `error` says why, if that fails."""
        self.error = None
        try:
            return list(self._make())
        except Exception as error:  # whatever it is: rows of other channels are in the same transaction
            self.error = error
            return []


@dataclass(frozen=True, slots=True)
class _Work:
    """One transaction: the rows, and what makes them again if it fails."""

    made: list[_Maker]
    facts: dict[str, None]
    rows: list[Row]
    """The rows of `made` and `facts` when the transaction was begun."""


class ChannelWriter:
    """Writes what is found at once, and what is known once in a while.

    A crash costs the last seconds of counts and intervals, never a change. Rows are made when a transaction
    begins, also when one is tried again: so old facts are never written over newer ones.
    """

    def __init__(
        self,
        store: ChannelStore,
        *,
        history: int,
        channel: Callable[[str], Channel | None],
        beside: Callable[[], Iterable[Row]],
    ) -> None:
        """`history` deltas of a channel are kept; `beside` gives what else is new since the last time."""
        self._store = store
        self._history = history
        self._channel = channel
        self._beside = beside
        self._rows: list[Row] = []
        """Rows to be written with the next flush, or before any row that is committed sooner."""
        self._changed: dict[str, None] = {}
        """Channels whose facts are to be written with the next flush."""
        self._made: list[_Maker] = []
        """Make the rows of the next transaction."""
        self._facts: dict[str, None] = {}
        """Channels whose facts follow these rows."""
        self._commits: GroupCommit[_Work] = GroupCommit(
            self, name=store.path or "the store of channels", meanwhile="channels wait for it"
        )
        self._started = False

    @property
    def fault(self) -> str:
        """Why nothing can be written; empty if it can."""
        return self._commits.fault

    def put(self, rows: Iterable[Row]) -> None:
        """Write rows within a few seconds."""
        self._rows += rows

    def changed(self, url: str) -> None:
        """Write the facts of a channel, within a few seconds."""
        self._changed[url] = None

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Run something in the writer's thread, between two transactions."""
        self._start()
        return await self._commits.run(work)

    async def flush_regularly(self) -> None:
        """Write what has changed every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(limits.CHANNEL_WRITE_S)
            await self.flush()

    async def flush(self) -> None:
        """Return when all that has changed so far is on disk."""
        self.put(self._beside())
        self._hand_over_rows()
        self._facts |= self._changed
        self._changed = {}
        self._start()
        if self._commits.behind:
            await self._commits.committed()

    async def commit(self, url: str, rows: Callable[[], Sequence[Row]]) -> None:
        """Return when these rows of a channel, its facts among them, are on disk; all of them or none are.

        `rows` may be called again, if a transaction fails. What it raises is raised here.
        """
        self._hand_over_rows()
        self._changed.pop(url, None)
        await self._commit(_Maker(rows))

    async def told(self, delta: Delta) -> None:
        """Return when it is on disk that everybody was told; older changes of the channel may go."""
        await self._commit(_Maker(partial(sql.told, delta, history=self._history)))

    async def _commit(self, maker: _Maker) -> None:
        self._made.append(maker)
        self._start()
        await self._commits.committed()
        if maker.error is not None:
            raise maker.error

    async def close(self) -> None:
        """Write what was handed over and let go of the file. What cannot be written is lost, and logged."""
        try:
            await self._commits.close(self._store.close)
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._commits.start()

    def _hand_over_rows(self) -> None:
        """Write the rows that were put before anything else: a channel may be removed and added again."""
        if self._rows:
            rows, self._rows = self._rows, []
            self._made.append(_Maker(lambda: rows))

    # -- what the group commit asks for ----------------------------------------------------------------

    def pending(self) -> int:
        """How many groups of rows wait."""
        return len(self._made) + len(self._facts)

    def take(self) -> _Work | None:
        """Give away the rows as they are now."""
        made, self._made = self._made, []
        facts, self._facts = self._facts, {}
        rows = [row for maker in made for row in maker.rows()]
        for url in facts:
            channel = self._channel(url)
            if channel is not None:
                rows.append(sql.put_channel(url, channel.known))
        return _Work(made, facts, rows) if rows else None

    def write(self, work: _Work) -> None:
        """Write the rows in one transaction."""
        self._store.write(work.rows)

    def written(self, work: _Work) -> None:
        """Nothing is left to do for rows on disk."""

    def put_back(self, work: _Work) -> None:
        """Make the rows again with the next attempt."""
        self._made = [*work.made, *self._made]
        self._facts = work.facts | self._facts
