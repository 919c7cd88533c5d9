"""One look at the node per second, shared by the history, all live views, the API and the metrics."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.node.http import views
from penstock.node.http.answers import Rates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.node.config import Config
    from penstock.node.http.answers import Overview
    from penstock.node.http.history import History
    from penstock.node.http.needs import Watched
    from penstock.node.status import NodeStatus

INTERVAL_S: Final = 1.0
"""Between samples."""

SHARE: Final = 0.02
"""Of the event loop's time that looking may take: a node of many thousands of clients is looked at less
often. Sorting and writing down what was seen is done in a thread: it is a frozen value."""


class Watch:
    """Looks at a broker; whoever wants to know shares what was seen."""

    def __init__(self, broker: Watched, config: Config, history: History) -> None:
        self.history = history
        self.config = config
        self.viewers = 0
        self._broker = broker
        self._status = broker.status()
        self._rates = Rates()
        self._sampled: NodeStatus | None = None
        self._looked_s = float("-inf")
        self._frame = b""
        self._frames = 0
        self._news = asyncio.Condition()
        self._closed = False

    def status(self) -> NodeStatus:
        """The node now, or a moment ago."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= limits.HTTP_FRESH_S:
            self._status = self._broker.status()
            self._looked_s = now_s
        return self._status

    def changed(self) -> None:
        """Something was done to the node: the next answer must show it."""
        self._looked_s = float("-inf")

    async def overview(self) -> Overview:
        """The node in figures."""
        return await asyncio.to_thread(
            views.overview, self.status(), rates=self._rates, queue_events=self.config.queues.events
        )

    # -- once a second ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sample until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s, busy_s = loop.time(), time.thread_time()
            self._sample()
            busy_s = time.thread_time() - busy_s
            if self.viewers:
                await self._tell()
            await asyncio.sleep(max(INTERVAL_S - (loop.time() - began_s), busy_s / SHARE))

    def _sample(self) -> None:
        self.changed()
        status = self.status()
        self._rates = views.rates(self._sampled, status)
        self._sampled = status
        self.history.sample(status)

    async def _tell(self) -> None:
        """Write the snapshot down once, beside the loop, and wake all viewers."""
        self._frame = await self._written()
        self._frames += 1
        async with self._news:
            self._news.notify_all()

    async def _written(self) -> bytes:
        status, rates, queue_events = self.status(), self._rates, self.config.queues.events

        def write() -> bytes:
            found = views.snapshot(status, rates=rates, queue_events=queue_events)
            return b"data: " + msgspec.json.encode(found) + b"\n\n"

        return await asyncio.to_thread(write)

    async def frames(self) -> AsyncIterator[bytes]:
        """Server-sent events, the first at once; a viewer that is slow misses the ones between."""
        yield await self._written()
        seen = self._frames
        while True:
            async with self._news:
                await self._news.wait_for(lambda: self._closed or self._frames > seen)  # noqa: B023
            if self._closed:
                return
            seen = self._frames
            yield self._frame

    async def close(self) -> None:
        """Let all viewers go."""
        self._closed = True
        async with self._news:
            self._news.notify_all()
