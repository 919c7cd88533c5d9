"""What is known about channels and subscriptions on its way to the disk, some changes at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.web import store as sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.node.database import Row
    from penstock.node.web.channel import Channel
    from penstock.node.web.comparing import Comparing


class Keeping:
    """Collects, and writes once in a while: a crash costs the last seconds of counts and intervals."""

    def __init__(
        self,
        comparing: Comparing,
        *,
        channel: Callable[[str], Channel | None],
        beside: Callable[[], Iterable[Row]],
    ) -> None:
        """`beside` gives what else has changed since it was asked last."""
        self._comparing = comparing
        self._channel = channel
        self._beside = beside
        self._rows: list[Row] = []
        self._changed: dict[str, None] = {}
        self._noted = self._safe = 0
        """Things to be written so far, and those of them that are on disk."""

    def put(self, rows: Iterable[Row]) -> None:
        """Something to be written."""
        before = len(self._rows)
        self._rows += rows
        self._noted += len(self._rows) - before

    def changed(self, url: str) -> None:
        """A channel's facts have to be written some time."""
        self._changed[url] = None
        self._noted += 1

    def written(self, url: str) -> None:
        """They were, meanwhile."""
        self._changed.pop(url, None)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(limits.CHANNEL_WRITE_S)
            await self.write()

    async def write(self) -> None:
        """Have on disk what has changed so far; who waits meanwhile finds it done."""
        self.put(self._beside())
        noted = self._noted
        if self._safe >= noted:
            return
        async with self._comparing.one:
            if self._safe >= noted:
                return
            safe, count = self._noted, len(self._rows)
            changed, self._changed = self._changed, {}
            try:
                await self._comparing.write(lambda: [*self._rows[:count], *self._facts(changed)])
            except BaseException:
                self._changed = changed | self._changed
                raise
            del self._rows[:count]
            self._safe = safe

    def _facts(self, urls: Iterable[str]) -> Iterator[Row]:
        """As they are now."""
        for url in urls:
            channel = self._channel(url)
            if channel is not None:
                yield sql.put_channel(url, channel.known)
