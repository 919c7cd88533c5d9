"""robots.txt of the hosts that are polled: fetched once for all channels of a host, kept for a day."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.channels.polling import robots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.core.channels.polling import Manners
    from penstock.model.instant import Instant
    from penstock.node.web.fetched import Fetched


class RobotsFiles:
    """The files last used; each is fetched once, however many channels wait for it."""

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[Fetched]],
        *,
        manners: Manners,
        now_us: Callable[[], Instant],
    ) -> None:
        self._fetch = fetch
        self._manners = manners
        self._now_us = now_us
        self._files: OrderedDict[str, robots.RobotsFile] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[robots.RobotsFile]] = {}
        self.fetched = 0
        """Files fetched so far."""

    def known(self, address: str) -> robots.RobotsFile | None:
        """The file at the address of a robots.txt, if it was read not long ago."""
        found = self._files.get(address)
        if found is None or found.until_us <= self._now_us():
            return None
        self._files.move_to_end(address)
        return found

    async def file(self, address: str) -> robots.RobotsFile:
        """The same, fetched if need be."""
        found = self.known(address)
        if found is not None:
            return found
        task = self._under_way.get(address)
        if task is None:
            task = asyncio.create_task(self._read(address))
            self._under_way[address] = task
            task.add_done_callback(lambda _: self._under_way.pop(address, None))
        return await asyncio.shield(task)

    async def _read(self, address: str) -> robots.RobotsFile:
        self.fetched += 1
        fetched = await self._fetch(address)
        found = robots.read(
            fetched.outcome,
            fetched.body,
            url=address,
            before=self._files.get(address),
            manners=self._manners,
            now_us=self._now_us(),
        )
        self._files[address] = found
        self._files.move_to_end(address)
        if len(self._files) > limits.ROBOTS_FILES:
            self._files.popitem(last=False)
        return found

    def forget(self) -> None:
        """The clock was set: what was known is asked for again."""
        self._files.clear()

    async def close(self) -> None:
        """Stop what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
