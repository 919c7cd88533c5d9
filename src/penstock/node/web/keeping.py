"""What is known about channels and subscriptions on its way to the disk, some changes at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.web import store as sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

    def put(self, rows: Iterable[Row]) -> None:
        """Something to be written."""
        self._rows += rows

    def changed(self, url: str) -> None:
        """A channel's facts have to be written some time."""
        self._changed[url] = None

    def written(self, url: str) -> None:
        """They were, meanwhile."""
        self._changed.pop(url, None)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(limits.CHANNEL_WRITE_S)
            await self.write()

    async def write(self) -> None:
        """Have on disk what has changed so far."""
        self._rows += self._beside()
        if not self._rows and not self._changed:
            return
        async with self._comparing.one:
            self._collect()
            count = len(self._rows)
            if not count:
                return  # who waited before has written it
            await self._comparing.write(lambda: self._rows[:count])
            del self._rows[:count]

    def _collect(self) -> None:
        for url in self._changed:
            channel = self._channel(url)
            if channel is not None:
                self._rows.append(sql.put_channel(url, channel.known))
        self._changed.clear()
