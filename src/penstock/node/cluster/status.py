"""Figures of the cluster, as one node sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.cluster.forwarding import Forwarding
    from penstock.core.cluster.frames import About
    from penstock.core.cluster.private import LinkAccount, PrivateQueue
    from penstock.core.cluster.view import Member, Sighting
    from penstock.model.instant import Instant
    from penstock.node.cluster.fabric import Fabric
    from penstock.node.cluster.peer import ClusterPeer


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


class SessionFigures(msgspec.Struct, frozen=True, gc=False):
    """Sessions that have come to a node and gone from it since its start."""

    held: int = 0
    """Sessions at this node now."""
    rooted: int = 0
    """Sessions of the cluster that this node knows the holder of: as their root, or as the next one."""
    standby: int = 0
    """Sessions continued here until the nodes that have them come back."""
    came: int = 0
    """Sessions that have come from other nodes whole."""
    went: int = 0
    """Sessions that have gone to other nodes."""
    recalled: int = 0
    """Sessions whose holder did not answer: they go on with what their root knew."""
    alone: int = 0
    """Clients that came while nobody answered who could know of a session."""
    abandoned: int = 0
    """Events that waited for clients whose sessions are elsewhere by a later right."""

    def __add__(self, other: SessionFigures) -> SessionFigures:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return SessionFigures(*(a + b for a, b in pairs))


class MemberRow(msgspec.Struct, frozen=True, gc=False):
    """Another node of the cluster."""

    name: str
    incarnation: int
    """When it was started, in µs since 1970."""
    state: str
    """`here`, `joining` until it has said something, `draining` if it sends its clients away, or `away`."""
    since_us: int
    """For how long the node has been in the cluster, or away."""
    zone: str
    clients: tuple[str, ...]
    """Addresses for MQTT clients."""
    api: str
    load: int
    """Attached clients."""
    version: str
    events: LinkFigures
    """The events of all its links, as it last told."""
    sessions: SessionFigures = SessionFigures()
    """Its sessions, as it last told."""


class PrivateRow(msgspec.Struct, frozen=True, gc=False):
    """The queue of one class of receivers on a link that is split."""

    filter: str
    """Empty: all receivers without a policy."""
    policy: str
    """Hash of the policy; empty: none."""
    level: int
    """Level at which the next pack begins."""
    events: LinkFigures
    """Copies of events for these receivers, and what became of them."""
    bytes: int


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
    split: bool = False
    """Whether private queues wait for the link; otherwise one queue is shared by all receivers."""
    splits: int = 0
    """How often the shared queue was split."""
    classes: int = 0
    """Classes of receivers with a policy that the other node has told."""
    private: tuple[PrivateRow, ...] = ()
    """Private queues in which something waits."""
    via: tuple[str, ...] = ()
    """Nodes that pass on to it what is for all nodes, the first one first; empty: it is sent directly."""
    forwarded: int = 0
    """Frames of other nodes that this one has passed on to it."""
    direct: bool = False
    """Whether its frames go over a connection of their own; else Zenoh carries them."""


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
    sessions: SessionFigures = SessionFigures()
    """Sessions at this node, and those that have come and gone with their clients."""
    draining: bool = False
    """Whether this node sends its clients away, and takes no new ones."""
    sent_away: int = 0
    """Clients that it has sent away since it was told to."""
    refused: int = 0
    """Connections of others that never became a node: a wrong secret, or no node at all."""
    problem: str = ""
    """Why this node is alone although it should not be; empty if nothing is wrong."""
    fan_out: int = 0
    """Nodes of a zone that this one sends a message to, and that pass it on."""
    repaired: int = 0
    """Times that a node was sent to directly because another one had not passed on what was for it."""

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


def member_row(member: Member, now_us: Instant) -> MemberRow:
    """Another node, as it has described itself."""
    about = member.about
    return MemberRow(
        name=member.name,
        incarnation=member.incarnation,
        state=(
            "away"
            if member.away
            else "joining"
            if about is None
            else "draining"
            if about.draining
            else "here"
        ),
        since_us=max(0, now_us - member.since_us),
        zone="" if about is None else about.zone,
        clients=() if about is None else about.clients,
        api="" if about is None else about.api,
        load=0 if about is None else about.load,
        version="" if about is None else about.program,
        events=LinkFigures() if about is None else LinkFigures(*about.links),
        sessions=SessionFigures() if about is None else SessionFigures(*about.sessions),
    )


def figures_of(account: LinkAccount, received: int) -> LinkFigures:
    """The account of a link, and the events that came over it."""
    return LinkFigures(
        account.accepted,
        account.handed,
        account.digested,
        account.queued,
        account.in_flight,
        account.abandoned,
        received,
    )


def link_row(peer: ClusterPeer, via: tuple[str, ...], forwarded: int, *, direct: bool) -> LinkRow:
    """The link to another node, and the way to it."""
    link = peer.link
    return LinkRow(
        name=peer.seen.name,
        connected=link.connected,
        filters=len(link.theirs.filters),
        events=figures_of(link.account(), peer.received),
        queued_bytes=link.backlog.bytes + link.shared.bytes,
        in_flight_bytes=link.in_flight_bytes,
        resent=link.resent,
        damaged=peer.damaged,
        round_trip_us=link.round_trip_us,
        split=link.backlog.split,
        splits=link.backlog.private.splits,
        classes=len(link.theirs.classes),
        private=tuple(_private_row(queue) for queue in link.backlog.private if queue.queued),
        via=via,
        forwarded=forwarded,
        direct=direct,
    )


def _private_row(queue: PrivateQueue) -> PrivateRow:
    return PrivateRow(
        filter=queue.was.filter,
        policy=queue.was.policy,
        level=queue.waiting.level,
        events=figures_of(queue.account(), 0),
        bytes=queue.waiting.bytes,
    )


def status_of(  # noqa: PLR0913  # each is a part of the picture
    own: Sighting,
    words: About,
    members: Mapping[str, Member],
    peers: Mapping[str, ClusterPeer],
    forwarding: Forwarding,
    fabric: Fabric,
    *,
    events: LinkFigures,
    now_us: Instant,
    sent_away: int,
    problem: str,
) -> ClusterStatus:
    """The cluster as a node sees it; `words` is what it tells the others, `events` are those of its links."""
    rows = [member_row(one, now_us) for _, one in sorted(members.items())]
    total = events
    for row in rows:
        total += row.events
    tree = forwarding.tree()
    return ClusterStatus(
        cluster=own.cluster,
        node=own.name,
        incarnation=own.incarnation,
        zone=words.zone,
        address=fabric.address,
        clients=words.clients,
        load=words.load,
        sessions=SessionFigures(*words.sessions),
        draining=words.draining,
        sent_away=sent_away,
        refused=fabric.refused,
        members=tuple(rows),
        links=tuple(
            link_row(peer, tree.get(name, ()), forwarding.forwarded[name], direct=fabric.is_direct(peer.seen))
            for name, peer in sorted(peers.items())
        ),
        events=events,
        total=total,
        balanced=events.balanced and all(row.events.balanced for row in rows),
        problem=problem,
        fan_out=forwarding.fan_out,
        repaired=forwarding.repaired,
    )
