"""One look at the node per second, shared by the history, all live views, the API and the metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.node.http import views
from penstock.node.http.answers import Rates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.node.config import Config
    from penstock.node.http.answers import Overview, Snapshot
    from penstock.node.http.history import History
    from penstock.node.http.needs import Watched
    from penstock.node.status import NodeStatus

INTERVAL_S: Final = 1.0
"""Between samples."""

SHARE: Final = 0.02
"""Of the event loop's time that looking may take: a node of many thousands of clients is looked at less
often, and its clients do not notice."""


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

    def overview(self) -> Overview:
        """The node in figures."""
        return views.overview(self.status(), rates=self._rates, queue_events=self.config.queues.events)

    def snapshot(self) -> Snapshot:
        """What a live view shows."""
        return views.snapshot(self.status(), rates=self._rates, queue_events=self.config.queues.events)

    # -- once a second ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sample until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self._sample()
            if self.viewers:
                await self._tell()
            spent_s = loop.time() - began_s
            await asyncio.sleep(max(INTERVAL_S - spent_s, spent_s / SHARE))

    def _sample(self) -> None:
        self.changed()
        status = self.status()
        self._rates = views.rates(self._sampled, status)
        self._sampled = status
        self.history.sample(status)

    async def _tell(self) -> None:
        """Encode the snapshot once, and wake all viewers."""
        self._frame = b"data: " + msgspec.json.encode(self.snapshot()) + b"\n\n"
        self._frames += 1
        async with self._news:
            self._news.notify_all()

    async def frames(self) -> AsyncIterator[bytes]:
        """Server-sent events, the first at once; a viewer that is slow misses the ones between."""
        yield b"data: " + msgspec.json.encode(self.snapshot()) + b"\n\n"
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
