"""Events that come too late: for sessions that have left this node, from nodes that were cut off meanwhile.

A session leaves when every node has sent what it had for it, as far as they answer in time. What another one
still had waiting comes later, and nobody is left to take it. It is counted here as abandoned until that node
has sent everything: the account says so, and the log. Some of it may have come to the new node, too.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.cluster.handover import Fence, Fenced, body_of, read_body
from penstock.errors import ClusterError, printable
from penstock.mqtt.trees import TopicTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.cluster.seen import Marks
    from penstock.node.broker.background import Background
    from penstock.node.broker.receivers import Receiver
    from penstock.node.cluster.incoming import Incoming
    from penstock.node.cluster.peer import ClusterPeer
    from penstock.node.cluster.roots import Roots

log = logging.getLogger(__name__)

AGAIN_S: Final = 1.0
"""When a node is asked again whether it has sent everything."""


class TrailsHost(Protocol):
    """The moves of this node, as its trails see them."""

    name: str
    roots: Roots
    counts: dict[str, int]

    async def ask(self, node: str, kind: str, body: bytes) -> bytes:
        """Ask a node, also this one; ClusterError if there is no answer in time."""
        ...

    def marks(self) -> Marks:
        """The last event of each origin that this node has seen."""
        ...

    def is_member(self, node: str, incarnation: int) -> bool:
        """Whether a node is there, or may come back."""
        ...


@dataclass(slots=True)
class _Trail:
    """Events that may still arrive here for one session that has left."""

    filters: TopicTree[str, str]
    since: Marks
    """Nodes that have not sent everything, and their last event that the session has."""
    late: int = 0


class Trails:
    """Counts what comes for sessions that are not here any more."""

    def __init__(self, host: TrailsHost, incoming: Incoming, background: Background) -> None:
        self._host = host
        self._incoming = incoming
        self._background = background
        self._open: dict[str, _Trail] = {}

    def begin(self, client: str, filters: Iterable[str], *, fenced: Iterable[str] = ()) -> None:
        """A session leaves; all nodes but the fenced ones may still have something for it."""
        self.end(client)
        since = self._host.marks()
        for name in (self._host.name, *fenced):
            since.pop(name, None)
        if not since:
            return
        tree: TopicTree[str, str] = TopicTree()
        for filter_ in filters:
            tree.add(filter_, filter_, filter_)
        trail = self._open[client] = _Trail(tree, since)
        self._incoming.late = self._came
        self._background.begin(self._follow(client, trail), "late events are counted for ever")

    def counts(self, client: str, origin: str) -> bool:
        """Whether events of a node are counted that come for a client whose session has left."""
        trail = self._open.get(client)
        return trail is not None and origin in trail.since

    def end(self, client: str) -> None:
        """Nothing more can come for the session, or it leaves once more."""
        trail = self._open.pop(client, None)
        if not self._open:
            self._incoming.late = None
        if trail is not None and trail.late:
            log.warning(
                "cluster: %d events for %s came after its session had left, and are abandoned",
                trail.late,
                printable(client),
            )

    def _came(self, peer: ClusterPeer, topic: str, number: int, receivers: Sequence[Receiver]) -> None:
        """An event has come, for these receivers here.

        A session that is here again gets what it has not seen elsewhere. The rest is late for it, too: it may
        have begun anew meanwhile, and does not know then what it has missed. A session that is continued here
        until its holder is back is not here again: the holder does not get this.
        """
        seen = peer.seen
        for client, trail in self._open.items():
            incarnation, mark = trail.since.get(seen.name, (0, 0))
            if incarnation != seen.incarnation or number <= mark or not any(trail.filters.match(topic)):
                continue
            if client in self._host.roots.standby or not self._incoming.gets(client, receivers, peer, number):
                trail.late += 1
                self._host.counts["abandoned"] += 1

    async def _follow(self, client: str, trail: _Trail) -> None:
        await outlast(self._host, trail.since, lambda: self._open.get(client) is trail)
        if self._open.get(client) is trail:
            self.end(client)


async def outlast(
    host: TrailsHost,
    since: Marks,
    going_on: Callable[[], bool],
    told: Callable[[str, int], None] | None = None,
) -> None:
    """Ask these nodes until each has sent this one what it had for it, or is gone, and take it out then.

    `told` gets the number up to which a node had published when it was asked.
    """
    body = body_of(Fence(host.name))

    async def ask(name: str, incarnation: int) -> None:
        try:
            if host.is_member(name, incarnation):
                fenced = read_body(await host.ask(name, "fence", body), Fenced)
                if told is not None:
                    told(name, fenced.number)
                if not fenced.handed:
                    return
            since.pop(name, None)
        except ClusterError:
            pass  # it is asked again

    while since and going_on():
        await asyncio.gather(*(ask(name, incarnation) for name, (incarnation, _) in since.items()))
        if since:
            await asyncio.sleep(AGAIN_S)
