"""Events of nodes that came while a holder was away, for sessions that this node continues meanwhile.

A holder that comes back has everything that waits here, since every node keeps what is for it. A node that
was started meanwhile has never met the holder, and keeps nothing for it: its events are here alone, and they
are counted as abandoned when the holder goes on with the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.node.broker.routes import Holding
from penstock.node.cluster.peer import OWN, ClusterPeer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.cluster.seen import Marks
    from penstock.model.event import Event
    from penstock.node.broker.broker import Broker


class _Watch(NamedTuple):
    """One session that this node continues."""

    holding: Holding
    filters: list[str]
    came: list[int]
    """A number of events."""


class Strangers:
    """Counts them for each client."""

    def __init__(self, broker: Broker) -> None:
        self._router = broker.router
        self._watches: dict[str, _Watch] = {}

    def watch(self, client: str, filters: Iterable[str], known: Marks) -> None:
        """Count the events of other nodes than these from now on."""
        self.forget(client)
        came = [0]

        def collect(_: Event, origin: object) -> None:
            if isinstance(origin, ClusterPeer):
                met = known.get(origin.seen.name)
                came[0] += met is None or met[0] != origin.seen.incarnation

        mine = [filter_ for filter_ in filters if not filter_.startswith(OWN)]
        watch = self._watches[client] = _Watch(Holding(collect), mine, came)
        for filter_ in mine:
            self._router.hold(filter_, watch.holding)

    def forget(self, client: str) -> int:
        """Count no more for a client; returns how many there were."""
        watch = self._watches.pop(client, None)
        if watch is None:
            return 0
        for filter_ in watch.filters:
            self._router.release(filter_, watch.holding)
        return watch.came[0]
