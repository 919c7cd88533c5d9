"""The view of a node: which other nodes of its cluster are there, and in which incarnation.

The fabric tells who has appeared and who has vanished; the same may be told twice and in any order. A node
that vanishes is *away* for a while: its link keeps what waits. If it is away for too long, or if another
incarnation takes its name, it is given up. Of two living nodes with one name the later start counts, and the
other one leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.frames import VERSION
from penstock.model.instant import to_us

if TYPE_CHECKING:
    from penstock.core.cluster.frames import About
    from penstock.model.instant import Instant


class Sighting(NamedTuple):
    """A node as the fabric announces it."""

    cluster: str
    name: str
    incarnation: int
    """When the node was started, in µs since 1970: a restarted node is another one."""
    version: int = VERSION
    """Version of the protocol between nodes."""


class Change(Enum):
    """How a sighting of a node changes the view."""

    NOTHING = "nothing"
    JOINED = "joined"
    """A node that was not there."""
    RESTARTED = "restarted"
    """Another incarnation of a node; the earlier one is given up."""
    BACK = "back"
    """A node that was away is back, in the same incarnation."""
    AWAY = "away"
    STRANGER = "stranger"
    """A node of another cluster, of another version, or too many."""
    OUSTED = "ousted"
    """Another node has the name of this one, and was started later."""
    RIVAL = "rival"
    """Another node has the name of this one, and was started earlier: it leaves."""


@dataclass(slots=True)
class Member:
    """Another node of the cluster."""

    name: str
    incarnation: int
    since_us: Instant
    """When it joined, or when it went away."""
    away: bool = False
    about: About | None = None
    """The description that the node sent; None until it came."""


@dataclass(slots=True)
class View:
    """The other nodes of a cluster."""

    own: Sighting
    forget_us: int = to_us(limits.CLUSTER_FORGET_S)
    members: dict[str, Member] = field(default_factory=dict)
    _strangers: dict[Sighting, None] = field(default_factory=dict)

    def appeared(self, seen: Sighting, *, now_us: Instant) -> Change:
        """A node is there."""
        own = self.own
        if seen == own:
            return Change.NOTHING
        if seen.cluster != own.cluster or seen.version != own.version:
            return self._strange(seen)
        if seen.name == own.name:
            return Change.OUSTED if seen.incarnation > own.incarnation else Change.RIVAL
        before = self.members.get(seen.name)
        if before is None:
            if len(self.members) >= limits.CLUSTER_MEMBERS:
                return self._strange(seen)
            self.members[seen.name] = Member(seen.name, seen.incarnation, now_us)
            return Change.JOINED
        if before.incarnation == seen.incarnation:
            if not before.away:
                return Change.NOTHING
            before.away, before.since_us = False, now_us
            return Change.BACK
        # While both are there, the later one counts; the clock of a restarted machine may have gone back.
        if before.away or seen.incarnation > before.incarnation:
            self.members[seen.name] = Member(seen.name, seen.incarnation, now_us)
            return Change.RESTARTED
        return Change.NOTHING

    def vanished(self, seen: Sighting, *, now_us: Instant) -> Change:
        """A node is not there any more, or the connection to it is cut."""
        self._strangers.pop(seen, None)
        member = self.members.get(seen.name) if seen.cluster == self.own.cluster else None
        if member is None or member.incarnation != seen.incarnation or member.away:
            return Change.NOTHING
        member.away, member.since_us = True, now_us
        return Change.AWAY

    def _strange(self, seen: Sighting) -> Change:
        """Each stranger is news once."""
        if seen in self._strangers or len(self._strangers) >= limits.CLUSTER_REFUSED:
            return Change.NOTHING
        self._strangers[seen] = None
        return Change.STRANGER

    def why_strange(self, seen: Sighting) -> str:
        """Why a stranger stays out, for the log."""
        if seen.cluster != self.own.cluster:
            return f"it belongs to cluster {seen.cluster!r}, and this is {self.own.cluster!r}"
        if seen.version != self.own.version:
            return (
                f"it speaks version {seen.version} of the cluster protocol, and this node {self.own.version}"
            )
        return f"the cluster has {limits.CLUSTER_MEMBERS} nodes, and no more are allowed"

    def overdue(self, *, now_us: Instant) -> list[Member]:
        """Give up the nodes that have been away for too long; returns them."""
        gone = [one for one in self.members.values() if one.away and now_us - one.since_us >= self.forget_us]
        for one in gone:
            del self.members[one.name]
        return gone

    def left(self, name: str) -> Member | None:
        """A node has said that it leaves: it is given up at once."""
        return self.members.pop(name, None)
