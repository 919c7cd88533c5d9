"""Settings of reliable streams: the section `streams:` of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.core.streams import StreamOptions
from penstock.model.instant import to_us

MOST = 1 << 48

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=10**9, extra={"unit": "s"})]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=MOST, extra={"unit": "bytes"})]
Rate = Annotated[float, msgspec.Meta(ge=0, le=MOST)]


class Hosting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream that is published at this node."""

    name: str
    """Of the stream; no other of the tree has it."""
    topics: tuple[str, ...]
    """Topic filters: what is published here on such topics goes into the stream. No two streams overlap."""
    retain_s: Seconds = 86_400.0
    """Messages that all have acknowledged stay in the log for so long."""
    bytes: Bytes = 10 << 30
    """Of the log; beyond it nothing is accepted until something may go."""


class Neighbour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another node of the tree. One of the two calls: the one that knows the other's host."""

    name: str
    """The `streams.node` of the other node."""
    host: str = ""
    """Where to reach it; empty: it calls."""
    port: Port = 0
    """Of its `streams.listen`."""
    ca: str = ""
    """PEM file of authorities; if given, the link is TLS and the other node must show their certificate."""
    user: str = ""
    """Name to give there, if it has users; without `host`: the user as whom it must come, needed if there are
    users here."""
    password: str = ""
    """The password for that; plain, so keep the file to yourself."""
    only: tuple[str, ...] = ()
    """Topic filters: nothing else is sent to this node over the link; none: everything."""
    where: str = ""
    """Content filter, as a subscription has it: nothing else is sent to this node over the link."""
    bytes_per_s: Rate = 0.0
    """What this node sends there at most; 0: no bound. Can be changed while the node runs."""
    enabled: bool = True
    """false: the link is down. Can be changed while the node runs."""
    queue_bytes: Bytes = 8 << 20
    """What may wait before the link, or one larger message; data beyond it is dropped and asked for again."""

    @property
    def door(self) -> str:
        """Where programs reach it; empty: it calls, and from where is not known."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'streams' if self.ca else 'stream'}://{host}:{self.port}" if host else ""


class StreamListen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where other nodes, and programs that read or write streams, connect."""

    enabled: bool = False
    """Whether there is one."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 1884
    """0: a free port, which is logged."""
    certificate: str = ""
    """PEM file with the certificate chain; if given, the door is TLS."""
    key: str = ""
    """PEM file with the private key; if empty, it is in the file of the certificate."""
    client_ca: str = ""
    """PEM file of authorities; if given, whoever connects must show a certificate signed by one of them."""


class Nats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """NATS JetStream, where logs can be instead of files."""

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    """Of one cluster."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    """Copies of each log."""
    user: str = ""
    """Name to give there."""
    password: str = ""
    """The password for that; plain, so keep the file to yourself."""


class Streams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reliable streams: each message once and in order, and publishers slowed before anything breaks."""

    host: tuple[Hosting, ...] = ()
    """Streams that are published at this node."""
    node: str = ""
    """This node's name in the tree; needed if there are neighbours."""
    neighbours: tuple[Neighbour, ...] = ()
    """Nodes beside this one in the tree; streams flow from where they are published to all others."""
    listen: StreamListen = StreamListen()
    """Where other nodes, and programs that read or write streams, connect."""
    log: Literal["file", "nats"] = "file"
    """Where messages are kept: in a file below the data folder, or in NATS JetStream."""
    nats: Nats = Nats()
    """The latter's whereabouts."""
    publisher_control: Literal["pdcc", "steady", "off"] = "pdcc"
    """Who sets the rate of publishing; the same at all nodes of a tree."""
    subscriber_control: Literal["sdcc", "off"] = "sdcc"
    """Who sets the pace of recovery."""
    recovering_gain: Annotated[float, msgspec.Meta(gt=-1, le=100)] = 1.0
    """Whoever recovers must be faster than the stream by so many seconds of it a second."""
    cache_bytes: Bytes = 16 << 20
    """Recent messages of a stream kept in memory, to send again."""
    readers: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1_000
    """Connections of programs that read or write streams."""

    @property
    def on(self) -> bool:
        """Whether this node has anything to do with streams."""
        return bool(self.host or self.neighbours)

    def options(self) -> StreamOptions:
        """For the core; StreamError if they cannot be together."""
        return StreamOptions(
            publisher_control=self.publisher_control,
            subscriber_control=self.subscriber_control,
            recovering_gain=self.recovering_gain,
            cache_bytes=self.cache_bytes,
            retain_us=0 if not self.host else to_us(max(one.retain_s for one in self.host)),
        )
