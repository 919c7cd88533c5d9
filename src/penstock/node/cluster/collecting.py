"""Collects the events for a session that is between two nodes.

The node that a session comes to collects before it takes the session. The node that gives the session away
goes on collecting until the other one has it on disk: if that one is lost meanwhile, the session goes on here
as if it had never left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.core.cluster.handover import Held
from penstock.node.broker.routes import Holding
from penstock.node.cluster.peer import OWN, ClusterPeer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.cluster.seen import Marks
    from penstock.core.cluster.view import Sighting
    from penstock.model.event import Event
    from penstock.node.broker.routes import Router


class Numbers(Protocol):
    """The cluster, as far as it numbers the events of this node."""

    own: Sighting

    def number_here(self, event: Event) -> int:
        """The number of an event that is published at this node now."""
        ...


class Collection:
    """Events of some filters, with their origins and numbers, until `release`."""

    def __init__(self, router: Router, numbers: Numbers, filters: Iterable[str], *, since: Marks) -> None:
        """`since` is what this node has seen of each origin by now. Shared subscriptions are left out."""
        self.held = Held()
        self.since = since
        self._router = router
        self._filters = [filter_ for filter_ in filters if not filter_.startswith(OWN)]
        held, own = self.held, numbers.own

        def collect(event: Event, origin: object) -> None:
            if isinstance(origin, ClusterPeer):
                held.add(origin.seen.name, origin.seen.incarnation, origin.number, event)
            else:
                held.add(own.name, own.incarnation, numbers.number_here(event), event)

        self._holding = Holding(collect)
        for filter_ in self._filters:
            router.hold(filter_, self._holding)

    def release(self) -> None:
        """Collect no more; what is held stays."""
        for filter_ in self._filters:
            self._router.release(filter_, self._holding)
        self._filters = []
