"""The reliable streams of a node, put together, started and stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.model.instant import to_us
from penstock.node.streams.hosted import Hosted
from penstock.node.streams.hub import Hub
from penstock.node.streams.logs import open_log

if TYPE_CHECKING:
    from penstock.node.broker import Broker
    from penstock.node.config import Config

FOLDER: Final = "streams"
"""Of the logs, below a node's data folder."""


class StreamService:
    """All streams this node hosts or follows."""

    def __init__(self, broker: Broker, config: Config) -> None:
        self._broker = broker
        self._settings = config.streams
        self._folder = Path(config.data) / FOLDER if config.data else None
        self._options = config.streams.options()
        self.hub = Hub.make(config.streams.node or "node", self._options, clock=broker.clock)
        self.hosted: dict[str, Hosted] = {}

    async def start(self) -> None:
        """Open the logs; StoreError or NodeError if one cannot be opened."""
        for hosting in self._settings.host:
            log = await open_log(self._settings, hosting.name, self._folder)
            options = replace(self._options, retain_us=to_us(hosting.retain_s))
            now_us = self._broker.clock()
            pubend = self.hub.core.host(hosting.name, log, now_us=now_us, options=options)
            hosted = Hosted(hosting, log, pubend, hub=self.hub, clock=self._broker.clock)
            self.hosted[hosting.name] = hosted
            hosted.start()
        self.hub.start(asyncio.get_running_loop())

    def hosted_for(self, topic: str) -> Hosted | None:
        """The stream that messages on a topic go into here; None: it is a topic like others."""
        return next((one for one in self.hosted.values() if one.carries(topic)), None)

    async def close(self) -> None:
        """Make durable what waits, and let go."""
        self.hub.close()
        for hosted in self.hosted.values():
            await hosted.log.close()
