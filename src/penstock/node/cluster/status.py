"""Figures of the cluster, as one node sees it."""

from __future__ import annotations

import msgspec


class LinkFigures(msgspec.Struct, frozen=True, gc=False):
    """Events that were accepted for other nodes, and what became of them; events that came from others."""

    accepted: int = 0
    handed: int = 0
    """Events that the other node has acknowledged."""
    digested: int = 0
    """Events dropped because the queue of a link was full; the subscribers are told in digests."""
    queued: int = 0
    in_flight: int = 0
    """Events sent and not acknowledged."""
    abandoned: int = 0
    """Events that waited for a node that was given up, or that nobody wanted any more."""
    received: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every accepted event is accounted for."""
        return self.accepted == self.handed + self.digested + self.queued + self.in_flight + self.abandoned

    def __add__(self, other: LinkFigures) -> LinkFigures:
        return LinkFigures(
            *(
                a + b
                for a, b in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
            )
        )


class MemberRow(msgspec.Struct, frozen=True, gc=False):
    """Another node of the cluster."""

    name: str
    incarnation: int
    """When it was started, in µs since 1970."""
    state: str
    """`here`, `joining` until it has said something, or `away`."""
    since_us: int
    """For how long it is in the cluster, or away."""
    zone: str
    clients: tuple[str, ...]
    """Addresses for MQTT clients."""
    api: str
    load: int
    """Attached clients."""
    version: str
    events: LinkFigures
    """The events of all its links, as it last told."""


class LinkRow(msgspec.Struct, frozen=True, gc=False):
    """The link to another node."""

    name: str
    connected: bool
    filters: int
    """Filters that the other node wants messages of."""
    events: LinkFigures
    queued_bytes: int
    in_flight_bytes: int
    resent: int
    """Frames that were sent again."""
    damaged: int
    """Frames and items of the other node that were refused."""
    round_trip_us: int


class ClusterStatus(msgspec.Struct, frozen=True, gc=False):
    """The cluster, as this node sees it."""

    cluster: str
    node: str
    incarnation: int
    zone: str
    address: str
    """Where other nodes join."""
    clients: tuple[str, ...]
    load: int
    members: tuple[MemberRow, ...]
    """The other nodes."""
    links: tuple[LinkRow, ...]
    events: LinkFigures
    """Sums over all links of this node, past ones included."""
    total: LinkFigures
    """Sums over all nodes; those of the others are some seconds old."""
    balanced: bool
    """Whether accepted = handed + digested + queued + in flight + abandoned, at every node."""
    problem: str = ""
    """Why this node is alone although it should not be; empty if nothing is wrong."""

    @property
    def here(self) -> int:
        """Nodes of the cluster that are there, this one included."""
        return 1 + sum(one.state != "away" for one in self.members)

    @property
    def away(self) -> int:
        """Nodes that are away."""
        return sum(one.state == "away" for one in self.members)

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults at the moment, each with its consequence."""
        found = [f"cluster: {self.problem}"] if self.problem else []
        found += [
            f"cluster: node {one.name} is away; what is for it waits here"
            for one in self.members
            if one.state == "away"
        ]
        return tuple(found)
