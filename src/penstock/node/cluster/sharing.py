"""Shared groups with members at several nodes: each message goes to one member in the whole cluster.

The node where a message enters chooses a node for each group (`node/broker/receivers.py`), and says with the
message which groups are meant there. A node that has nobody for it any more passes it on to another one.
What waits for a node that goes away is given to members elsewhere; what was sent to it and not acknowledged
may have been delivered, and waits for its return.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import ClusterError
from penstock.mqtt.topics import check_filter, check_topic, shared_of
from penstock.node.broker.receivers import Spread
from penstock.node.cluster.peer import ClusterPeer
from penstock.node.cluster.records import event_from

if TYPE_CHECKING:
    from penstock.core.cluster.frames import Groups, Shared
    from penstock.core.cluster.sharing import SharedEvent
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.receivers import Group


class Sharing:
    """The shared groups of the cluster at this node."""

    def __init__(self, broker: Broker, own: str) -> None:
        self._broker = broker
        self._router = broker.router
        self._own = own

    def told(self, peer: ClusterPeer, groups: Groups) -> None:
        """Another node tells how many members its groups have."""
        for name, _, _ in groups.changed:
            check_filter(name, where="shared group")
            if not shared_of(name).group:
                raise ClusterError(f"'{name}' is no shared group")
        peer.link.their_groups.apply(groups)
        for name, attached, members in groups.changed:
            self._router.peer_shares(peer, name, attached=attached, members=members)

    def deliver(self, peer: ClusterPeer, item: Shared, now_us: Instant) -> None:
        """A message for groups at this node."""
        check_topic(item.carried.topic, where="topic")
        event = event_from(item.carried, self._broker.properties)
        if event.topic.startswith(self._router.own):
            raise ClusterError(f"topic '{event.topic}' is each node's own")
        peer.received += 1
        for name in item.groups:
            group = self._router.group(name)
            if group is None or not group.here or not group.deliver(event, origin=peer, now_us=now_us):
                self._pass_on(event, name, (*item.tried, self._own))

    def _pass_on(self, event: Event, name: str, tried: tuple[str, ...]) -> None:
        """Give a message that nobody here takes to another node that has not had it."""
        group = self._router.group(name)
        found = [] if group is None else _others(group, tried, away=True)
        if found:
            found[0].share(event, (name,), tried=tried)
        else:
            self._broker.unrouted += 1

    def away(self, peer: ClusterPeer, now_us: Instant) -> None:
        """A node is away: its members are, too, and others take what waits for them."""
        for name, (_, members) in peer.link.their_groups.counts.items():
            self._router.peer_shares(peer, name, attached=0, members=members)

        peer.link.shared.revise(partial(self._taken_elsewhere, peer, now_us))

    def _taken_elsewhere(self, peer: ClusterPeer, now_us: Instant, out: SharedEvent) -> SharedEvent | None:
        """Give a message that waits for a node to members elsewhere; returns what stays for the node."""
        stays = []
        for name in out.groups:
            group = self._router.group(name)
            others = group is not None and bool(group.attached or _others(group, (peer.seen.name,)))
            if group is not None and others:
                others = Spread((group,)).deliver(out.event, origin=None, now_us=now_us)
            if not others:
                stays.append(name)
        if len(stays) == len(out.groups):
            return out
        return peer.for_groups(out, tuple(stays)) if stays else None

    def back(self, peer: ClusterPeer) -> None:
        """A node is back, with its members."""
        for name, (attached, members) in peer.link.their_groups.counts.items():
            self._router.peer_shares(peer, name, attached=attached, members=members)


def _others(group: Group, tried: tuple[str, ...], *, away: bool = False) -> list[ClusterPeer]:
    """Nodes with connected members that have not had a message, those with the most first.

    With `away` also nodes whose members are not connected, or on their way there: they keep the message.
    """
    found = [
        peer
        for peer, (attached, _) in group.elsewhere.items()
        if isinstance(peer, ClusterPeer) and (attached or away) and peer.seen.name not in tried
    ]
    return sorted(found, key=lambda peer: group.elsewhere[peer], reverse=True)
