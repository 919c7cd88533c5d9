"""Collects the events for a session that is between two nodes.

The node that a session comes to collects before it takes the session. The node that gives the session away
goes on collecting until the other one has it on disk: if that one is lost meanwhile, the session goes on here
as if it had never left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.core.cluster.handover import Held
from penstock.mqtt.topics import SHARE
from penstock.node.broker.routes import Holding
from penstock.node.cluster.peer import OWN, ClusterPeer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.cluster.seen import Marks
    from penstock.core.cluster.view import Sighting
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.routes import Router


class Numbers(Protocol):
    """The cluster, as far as it numbers the events of this node."""

    own: Sighting

    def number_here(self, event: Event) -> int:
        """The number of an event that is published at this node now."""
        ...


class Collection:
    """Events of some filters, with their origins and numbers, until `release`."""

    def __init__(
        self, router: Router, numbers: Numbers, filters: Iterable[str], *, since: Marks, groups: bool
    ) -> None:
        """`since` is what this node has seen of each origin by now. Messages of shared `groups` are for one
        node, so only the one that the session comes to collects them."""
        self.held = Held()
        self.since = since
        self._router = router
        self._filters = [filter_ for filter_ in filters if not filter_.startswith(OWN)]
        self._groups = [filter_ for filter_ in filters if groups and filter_.startswith(SHARE)]
        held, own = self.held, numbers.own

        def collect(event: Event, origin: object) -> None:
            if isinstance(origin, ClusterPeer):
                held.add(origin.seen.name, origin.seen.incarnation, origin.number, event)
            else:
                held.add(own.name, own.incarnation, numbers.number_here(event), event)

        self._holding = Holding(collect)
        for filter_ in self._filters:
            router.hold(filter_, self._holding)
        for name in self._groups:
            router.expect(name)

    def release(self, *, now_us: Instant) -> int:
        """Collect no more; what is held stays. What was held for shared groups is given out; returns the
        messages for which there is nobody anywhere."""
        for filter_ in self._filters:
            self._router.release(filter_, self._holding)
        lost = sum(self._router.expect_no_more(name, now_us=now_us) for name in self._groups)
        self._filters, self._groups = [], []
        return lost
