"""A node with reliable streams on a real loopback socket."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from penstock.core.streams.wire import Record, decode_record
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Config, Listener
from penstock.node.config.streams import Streams
from penstock.node.service import Node
from tests.kit.peer import Running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    from penstock.node.streams.service import StreamService
    from penstock.node.streams.tree.hosted import HostedStream

ORDERS: dict[str, Any] = {"host": [{"name": "orders", "topics": ["orders/#"]}]}


class WithStreams(Running):
    """The node and its streams."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.broker, node.listeners[0].port)
        self.node = node
        self.observed = node.observed

    @property
    def streams(self) -> StreamService:
        assert self.node.streams is not None
        return self.node.streams

    @property
    def orders(self) -> HostedStream:
        return self.streams.hosted["orders"]

    async def records(self, name: str = "orders") -> list[Record]:
        """All durable messages of a stream."""
        hosted = self.streams.hosted[name]
        found: list[Record] = []
        since = hosted.begin
        while more := await hosted.log.fetch(since, hosted.end, 1_000):
            found += [decode_record(body) for _, body in more]
            since = more[-1][0] + 1
        return found

    async def payloads(self, name: str = "orders") -> list[bytes]:
        """Of the same."""
        return [one.payload for one in await self.records(name)]


@asynccontextmanager
async def streams_node(
    streams: dict[str, Any] | None = None, *, data: Path | None = None, **settings: Any
) -> AsyncIterator[WithStreams]:
    """A whole node; without a folder everything is in memory."""
    config = msgspec.structs.replace(
        Config(),
        listeners=(Listener(port=0),),
        http=msgspec.structs.replace(Config().http, enabled=False),
        data="" if data is None else str(data),
        streams=msgspec.convert(ORDERS if streams is None else streams, Streams),
        sys_interval_s=0.0,
        **settings,
    )
    async with Node(LoadedConfig(config)) as node:
        running = WithStreams(node)
        try:
            yield running
        finally:
            for peer in running.peers:
                peer.writer.close()
                with suppress(ConnectionError):
                    await peer.writer.wait_closed()
