"""The reliable streams of a node, put together, started and stopped."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.model.instant import to_us
from penstock.node.streams.door import Door
from penstock.node.streams.hosted import Hosted
from penstock.node.streams.hub import Hub
from penstock.node.streams.links import Links
from penstock.node.streams.logs import open_log
from penstock.node.streams.looking import Looking
from penstock.node.streams.marks import Marks
from penstock.node.streams.publishing import Publishing
from penstock.node.streams.reading import Reading
from penstock.node.streams.serving import Serving
from penstock.node.streams.state import FILE, StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.streams.meeting import Offered
    from penstock.node.broker import Broker
    from penstock.node.config import Config
    from penstock.node.session import Session
    from penstock.node.streams.settings import Hosting
    from penstock.node.streams.status import StreamsStatus

FOLDER: Final = "streams"
"""Of the logs, below a node's data folder."""


@dataclass(frozen=True, slots=True)
class Known:
    """A stream that this node hosts or follows."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node that it is published at."""
    hosted_here: bool
    upstream: str = ""
    """The neighbour that it comes from; empty: hosted here."""


class StreamService:
    """All streams this node hosts or follows."""

    def __init__(self, broker: Broker, config: Config) -> None:
        self.broker = broker
        self.config = config
        self.settings = config.streams
        self.node = config.streams.node or "node"
        self._folder = Path(config.data) / FOLDER if config.data else None
        self._options = config.streams.options()
        self._stack = AsyncExitStack()
        self.started = False
        """Whether messages on their topics come here."""
        self.hub = Hub.make(self.node, self._options, clock=broker.clock)
        self.hosted: dict[str, Hosted] = {}
        self.known: dict[str, Known] = {}
        self.on_known_changed: list[Callable[[], None]] = []
        """Called after `known` has changed."""
        self.state: StateFile
        """What must survive beside the logs."""
        self.publishing = Publishing(self)
        self.reading: Reading | None = None
        self.links: Links | None = None
        self.door: Door | None = None
        self.serving: Serving | None = None
        self._looking = Looking(self)

    async def start(self) -> None:
        """Open the logs, then everything else; StoreError or NodeError if something cannot be opened."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self.state = StateFile(None if self._folder is None else self._folder / FILE)
        self.state.start()
        self._stack.push_async_callback(self.state.close)
        for hosting in self.settings.host:
            await self._host(hosting)
        await self.publishing.start()
        self.reading = Reading(self, self.broker)
        self._stack.callback(self.reading.close)
        self.reading.start()
        if self.settings.listen.enabled:
            self.serving = Serving(self, self._folder)
            self._stack.push_async_callback(self.serving.close)
            await self.serving.start()
        self._stack.callback(self.hub.close)
        self.hub.start(asyncio.get_running_loop())
        if self.settings.neighbours:
            self.links = Links(self, self.config)
            self._stack.push_async_callback(self.links.close)
            self.links.start()
        if self.settings.listen.enabled:
            self.door = Door(self, self.config, self.broker.gate)
            self._stack.push_async_callback(self.door.close)
            await self.door.open()
        self.started = True
        self.broker.sessions.look(now_us=self.broker.clock())  # what was due before

    async def _host(self, hosting: Hosting) -> None:
        log = await open_log(self.settings, hosting.name, self._folder)
        self._stack.push_async_callback(log.close)
        marks = Marks(self.state, hosting.name)
        await marks.recover(log)
        options = replace(self._options, retain_us=to_us(hosting.retain_s))
        now_us = self.broker.clock()
        pubend = self.hub.core.host(hosting.name, log, now_us=now_us, options=options)
        hosted = Hosted(hosting, log, pubend, marks, hub=self.hub, clock=self.broker.clock)
        hosted.show = partial(self.publishing.told, hosting.name)
        self.hosted[hosting.name] = hosted
        self.known[hosting.name] = Known(hosting.name, hosting.topics, self.node, hosted_here=True)
        hosted.start()

    # -- streams of the tree ---------------------------------------------------------------------------------

    def learnt(self, offered: Iterable[Offered], upstream: str) -> None:
        """A neighbour offers streams, which the core follows from there already."""
        found = {
            one.name: Known(one.name, one.topics, one.host, hosted_here=False, upstream=upstream)
            for one in offered
        }
        if any(self.known.get(name) != known for name, known in found.items()):
            self.known |= found
            for changed in self.on_known_changed:
                changed()

    # -- sessions --------------------------------------------------------------------------------------------

    def release(self, session: Session, packet_id: int) -> bool:
        """A client releases a QoS 2 message; whether a stream had it: `state` is to be durable, then."""
        return self.publishing.release(session, packet_id)

    def ended(self, session: Session) -> None:
        """A session departs."""
        self.publishing.ended(session)
        if self.reading is not None:
            self.reading.ended(session)

    # -- the rest --------------------------------------------------------------------------------------------

    def status(self) -> StreamsStatus:
        """The streams at this moment."""
        return self._looking.status()

    def reconfigure(self, config: Config) -> None:
        """Take other rates of links, whether they are on, and the files of TLS."""
        self.config = config
        if self.door is not None:
            self.door.reconfigure(config)
        if self.links is not None:
            self.links.reconfigure(config)

    async def close(self) -> None:
        """Make durable what waits, and let go."""
        await self._stack.aclose()
