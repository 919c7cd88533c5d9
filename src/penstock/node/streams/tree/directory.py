"""The directory of streams: which streams a node knows, and where each of them comes from.

`StreamContext` passes the directory on, together with the other parts that all code about streams shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.core.streams.handshake import Offered
    from penstock.node.streams.log.state import StateFile
    from penstock.node.streams.tree.driver import CoreDriver
    from penstock.node.streams.tree.hosted import HostedStream


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream that this node hosts, or gets from a neighbour."""

    name: str
    topics: tuple[str, ...]
    host: str
    """The node that the stream is published at."""
    hosted_here: bool
    upstream: str = ""
    """The neighbour that the stream comes from; empty if this node hosts it."""


class StreamDirectory:
    """All streams that a node knows; listeners are called when the list changes."""

    def __init__(self, node: str) -> None:
        self.node = node
        """The name of this node in the tree."""
        self.known: dict[str, KnownStream] = {}
        self.hosted: dict[str, HostedStream] = {}
        self.on_changed: list[Callable[[], None]] = []
        """Called after `known` has changed."""

    def host(self, hosted: HostedStream) -> None:
        """Add a stream that is published at this node."""
        self.hosted[hosted.name] = hosted
        self.known[hosted.name] = KnownStream(hosted.name, hosted.hosting.topics, self.node, hosted_here=True)

    def learn(self, offered: Iterable[Offered], upstream: str) -> None:
        """Add or update streams that the neighbour `upstream` offers; the core must follow them already."""
        found = {
            one.name: KnownStream(one.name, one.topics, one.host, hosted_here=False, upstream=upstream)
            for one in offered
        }
        if any(self.known.get(name) != known for name, known in found.items()):
            self.known |= found
            for changed in self.on_changed:
                changed()


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Made once by `StreamService`, and passed to links, subscriptions and programs."""

    directory: StreamDirectory
    driver: CoreDriver
    state: StateFile
    """Durable values beside the logs: cursors, consumers, writers, offers."""
    clock: Callable[[], int]
    """Microseconds since 1970."""
