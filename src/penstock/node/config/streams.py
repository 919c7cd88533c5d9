"""Settings of reliable streams: the section `streams:` of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.core.streams import StreamOptions
from penstock.model.instant import to_us
from penstock.node.config.amounts import Bytes, Million, Port, Rate, Seconds  # noqa: TC001  # msgspec reads them


class Hosting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream that is published at this node."""

    name: str
    """Name of the stream, unique in the tree."""
    topics: tuple[str, ...]
    """Topic filters: messages published here on these topics go into the stream. Streams must not overlap."""
    retain_s: Seconds = 86_400.0
    """Time for which messages stay in the log after all readers have acknowledged them."""
    bytes: Bytes = 10 << 30
    """Largest log; when it is full, nothing is accepted until messages may be deleted."""


class Neighbour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another node of the tree. The node that has the other's `host` opens the connection."""

    name: str
    """The `streams.node` of the other node."""
    host: str = ""
    """Address of the other node; empty: the other node connects to this one."""
    port: Port = 0
    """Port of its `streams.listen`."""
    ca: str = ""
    """PEM file of certificate authorities; if given, the link is TLS and they must have signed the other
    node's certificate."""
    user: str = ""
    """User name at the other node, if it has users; without `host`: the user name with which the other node
    must connect, required if this node has users."""
    password: str = ""
    """Password at the other node, in plain text: protect the file."""
    only: tuple[str, ...] = ()
    """Topic filters: only matching messages are sent to this node over the link; empty: all."""
    where: str = ""
    """Content filter, as for subscriptions: only matching messages are sent to this node over the link."""
    bytes_per_s: Rate = 0.0
    """Largest rate at which this node sends over the link; 0: no limit. Can be changed while the node
    runs."""
    enabled: bool = True
    """false: the link is down. Can be changed while the node runs."""
    queue_bytes: Bytes = 8 << 20
    """Bytes that may wait for the link, or one larger message; further data is dropped and requested
    again."""

    @property
    def url(self) -> str:
        """URL at which programs reach the other node; empty if it connects to this one, from an unknown
        address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'streams' if self.ca else 'stream'}://{host}:{self.port}" if host else ""


class StreamListen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Port for other nodes, and for programs that read or write streams."""

    enabled: bool = False
    """Whether the node listens for them."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 1884
    """0: a free port, which is written to the log."""
    certificate: str = ""
    """PEM file with the certificate chain; if given, connections are TLS."""
    key: str = ""
    """PEM file with the private key; empty: the key is in the file of the certificate."""
    client_ca: str = ""
    """PEM file of certificate authorities; if given, clients need a certificate signed by one of them."""


class Nats(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """NATS JetStream, which can store logs instead of files."""

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    """Addresses of the servers of one cluster."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    """Copies of each log."""
    user: str = ""
    """User name at NATS."""
    password: str = ""
    """Password at NATS, in plain text: protect the file."""


class Streams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reliable streams: each message once and in order; publishers are slowed before a queue overflows."""

    host: tuple[Hosting, ...] = ()
    """Streams that are published at this node."""
    node: str = ""
    """Name of this node in the tree; required if there are neighbours."""
    neighbours: tuple[Neighbour, ...] = ()
    """Nodes next to this one in the tree; a stream flows from the node where it is published to all
    others."""
    listen: StreamListen = StreamListen()
    """Port for other nodes, and for programs that read or write streams."""
    log: Literal["file", "nats"] = "file"
    """Where messages are stored: in a file below the data folder, or in NATS JetStream."""
    nats: Nats = Nats()
    """NATS JetStream, for `log: nats`."""
    publisher_control: Literal["pdcc", "steady", "off"] = "pdcc"
    """Algorithm that sets the rate of publishing; the same at all nodes of a tree."""
    subscriber_control: Literal["sdcc", "off"] = "sdcc"
    """Algorithm that sets the rate of recovery."""
    recovering_gain: Annotated[float, msgspec.Meta(gt=-1, le=100)] = 1.0
    """A recovering node must catch up by this many seconds of the stream per second."""
    cache_bytes: Bytes = 16 << 20
    """Recent messages of a stream kept in memory for sending them again."""
    readers: Million = 1_000
    """Largest number of connections of programs that read or write streams."""

    @property
    def on(self) -> bool:
        """Whether this node hosts a stream or has neighbours."""
        return bool(self.host or self.neighbours)

    def options(self) -> StreamOptions:
        """Make the options of the core; StreamError if the settings contradict each other."""
        return StreamOptions(
            publisher_control=self.publisher_control,
            subscriber_control=self.subscriber_control,
            recovering_gain=self.recovering_gain,
            cache_bytes=self.cache_bytes,
            retain_us=0 if not self.host else to_us(max(one.retain_s for one in self.host)),
        )
