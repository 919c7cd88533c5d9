"""Takes frames from other nodes: passes on those for others, hands out their items, and acknowledges them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.cluster.frames import (
    About,
    Answer,
    Ask,
    Carried,
    CarriedRun,
    Groups,
    Shared,
    Told,
    Wants,
    is_data,
)
from penstock.core.cluster.peer import Addressed
from penstock.errors import ClusterError, DigestError, MqttError, printable
from penstock.model.digest_wire import from_bytes

if TYPE_CHECKING:
    from penstock.core.cluster.frames import Item
    from penstock.core.cluster.view import Sighting, View
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.cluster.asking import Questions
    from penstock.node.cluster.incoming import Incoming
    from penstock.node.cluster.peer import ClusterPeer
    from penstock.node.cluster.sending import Sending
    from penstock.node.cluster.sharing import Sharing

log = logging.getLogger(__name__)

SEEN_MOST: Final = 100
"""Complaints about one node that are logged; the rest is counted."""


class ReceivingHost(Protocol):
    """The cluster, as the part that receives for it sees it."""

    def peer(self, name: str) -> ClusterPeer | None:
        """Another node of the view, by its name."""
        ...


class Receiving:
    """Reads the frames of other nodes, and gives each item to the part of the cluster that handles it."""

    def __init__(
        self,
        host: ReceivingHost,
        broker: Broker,
        view: View,
        *,
        sending: Sending,
        incoming: Incoming,
        sharing: Sharing,
        questions: Questions,
    ) -> None:
        self._host = host
        self._broker = broker
        self._view = view
        self._sending = sending
        self._incoming = incoming
        self._sharing = sharing
        self._questions = questions
        self.closing = False
        """Whether the broker is about to end: only acknowledgements are read then."""

    def received(self, sender: Sighting, frame: bytes) -> None:
        """Take a frame that another node has sent, or passes on for others."""
        peer = self._peer(sender)
        if peer is None:
            return  # it comes again when the view knows the sender
        try:
            frames = self._sending.pass_on(sender, frame)
        except ClusterError as error:
            self._complain(peer, str(error))
            return
        for origin, each in frames:
            found = self._peer(origin)
            if found is not None:
                self._read(found, each)

    def _peer(self, seen: Sighting) -> ClusterPeer | None:
        """The link to this incarnation of a node, if there is one."""
        peer = self._host.peer(seen.name)
        return None if peer is None or peer.seen.incarnation != seen.incarnation else peer

    def _read(self, peer: ClusterPeer, frame: bytes) -> None:
        """Take a frame of the link to another node."""
        now_us = self._broker.now_us = self._broker.clock()
        if self.closing and is_data(frame):
            return
        try:
            found = peer.link.received(frame, now_us=now_us)
        except ClusterError as error:
            self._complain(peer, str(error))
            return
        self._sending.again(peer, found.again)
        if found.settled:
            peer.settle(now_us=now_us)
            if peer.link.pending:
                self._sending.soon(peer)
        if found.items:
            self._take(peer, found.items, now_us)

    def _take(self, peer: ClusterPeer, items: list[Item | Addressed], now_us: Instant) -> None:
        """Handle the items of a frame, and acknowledge it once they are on disk."""
        journal = self._broker.journal
        if journal is not None:
            journal.begin()
        for item in items:
            try:
                self._take_one(peer, item, now_us)
            except (ClusterError, DigestError, MqttError) as error:
                self._complain(peer, str(error))
        upto = peer.link.taken
        if journal is not None and journal.hold(
            partial(self._sending.acknowledge_safe, peer, upto), behind=bool(peer.held)
        ):
            peer.held += 1
        else:
            self._sending.acknowledge_soon(peer)

    def _take_one(self, peer: ClusterPeer, item: Item | Addressed, now_us: Instant) -> None:
        match item:
            case CarriedRun():
                self._incoming.deliver_run(peer, item, now_us)
            case Carried():
                self._incoming.deliver(peer, item, now_us)
            case Addressed():
                self._incoming.deliver(peer, item.item, now_us, item.classes, ahead=item.ahead)
            case Told():
                self._incoming.tell(peer, item, from_bytes(item.digest), now_us)
            case Wants():
                self._incoming.want(peer, item)
            case Shared():
                self._sharing.deliver(peer, item, now_us)
            case Groups():
                self._sharing.told(peer, item)
            case Ask():
                self._questions.asked(peer, item)
            case Answer():
                peer.asking.answered(item)
            case About():
                member = self._view.members.get(peer.seen.name)
                if member is not None:
                    member.about = item

    def _complain(self, peer: ClusterPeer, problem: str) -> None:
        """Count something that a node should not have sent, and log it unless there was too much of it."""
        peer.damaged += 1
        if peer.damaged <= SEEN_MOST:
            log.warning("cluster: from node %s: %s", printable(peer.seen.name), printable(problem))
