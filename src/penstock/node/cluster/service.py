"""The cluster at one node: who is there, the links to them, and what goes over them.

A message published here goes to every node that has told interest in its topic; there it goes to the
subscribers of that node and no further. Retained messages go to all nodes. A subscription is acknowledged to
its client when the other nodes know of it, a message of QoS 1 or 2 when the nodes that want it have it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.cluster.backlog import LinkAccount, Outgoing
from penstock.core.cluster.frames import About
from penstock.core.cluster.view import Change, View
from penstock.errors import printable
from penstock.model.instant import to_us
from penstock.node.broker.background import Background
from penstock.node.broker.broker import VERSION
from penstock.node.broker.extensions import SessionListener
from penstock.node.cluster.asking import Questions
from penstock.node.cluster.draining import Draining, DrainOrder
from penstock.node.cluster.incoming import Incoming
from penstock.node.cluster.moves import Moves
from penstock.node.cluster.peer import ClusterPeer, when_told
from penstock.node.cluster.receiving import Receiving
from penstock.node.cluster.records import item_of, run_item_of
from penstock.node.cluster.retained import SharedRetained
from penstock.node.cluster.sending import Sending
from penstock.node.cluster.sharing import Sharing
from penstock.node.cluster.status import ClusterStatus, LinkFigures, figures_of, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.cluster.copies import OutgoingRun
    from penstock.core.cluster.view import Sighting
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.receivers import Receiver
    from penstock.node.broker.runs import Run
    from penstock.node.cluster.fabric import Fabric
    from penstock.node.config.cluster import ClusterSettings

log = logging.getLogger(__name__)

TICK_S: Final = 0.1
"""How often frames without acknowledgement and nodes that are away are looked at."""

ABOUT_US: Final = 5_000_000
"""How often a node tells the others about itself."""


class ClusterService(SessionListener):
    """This node as a member of its cluster: the owner calls `start`, and at the end `close`."""

    def __init__(
        self,
        broker: Broker,
        settings: ClusterSettings,
        *,
        own: Sighting,
        fabric: Fabric,
        about: Callable[[], tuple[tuple[str, ...], str]],
        stop: Callable[[], None] | None = None,
    ) -> None:
        """`about` returns the addresses for MQTT clients, and that of the API; `stop` stops the node."""
        self._broker = broker
        self._settings = settings
        self._fabric = fabric
        self._about = about
        self.own = own
        self._view = View(own)
        self._peers: dict[str, ClusterPeer] = {}
        self._number = 0
        """Events of this node that have left it, or would have."""
        self._numbered: tuple[Event, int] | None = None
        """The event that was numbered last, with its number."""
        self._last: Outgoing | None = None
        """The message that was encoded last: it goes to several nodes."""
        self._last_run: tuple[Run, OutgoingRun] | None = None
        """The run that was encoded last."""
        self._past = LinkAccount()
        """Account of links to nodes that were given up."""
        self._past_received = 0
        self._said_us = 0
        self._ousted = False
        self._stop_node = stop
        self._background = Background()
        self._retained = SharedRetained(broker, own.name, number=self._next_number, offer=self._offer_all)
        self._incoming = Incoming(broker, self._retained)
        self._sharing = Sharing(broker, own.name)
        self.questions = Questions(self, self._background)
        self.draining = Draining(
            broker, self._background, self, members=self._view.members, zone=settings.zone, left=self._stop
        )
        self.moves = Moves(broker, self, self._incoming, self._background, wait_us=to_us(settings.move_s))
        self._sending = Sending(self, fabric, self._view, zone=settings.zone, fan_out=settings.fan_out)
        self._receiving = Receiving(
            self,
            broker,
            self._view,
            sending=self._sending,
            incoming=self._incoming,
            sharing=self._sharing,
            questions=self.questions,
        )

    async def start(self) -> None:
        """Join the cluster; NodeError if this node cannot listen, or its name is taken."""
        self._broker.listeners.append(self)
        self._broker.on_retained.append(self._retained.changed)
        self.moves.start()
        await self._fabric.open(self)
        log.info("cluster %s: this is node %s, at %s", self.own.cluster, self.own.name, self._fabric.address)
        self._background.begin(self._tick(), "the cluster resends nothing and forgets nobody")

    def recognise(self, flows: Callable[[Event, Sequence[Receiver], Instant], Event]) -> None:
        """Have messages of other nodes given their flows and lanes: this node has slots."""
        self._incoming.recognise = flows

    def stop(self) -> None:
        """Take nothing from other nodes any more: the broker is about to end."""
        self._receiving.closing = True

    async def close(self) -> None:
        """Hand over what is on its way, and leave the cluster; the broker has ended before."""
        self.stop()
        await self._hand_over()
        await self._background.close()
        await self._leave()

    async def _hand_over(self) -> None:
        """Wait a while until the others have what is for them, and say farewell."""
        until_us = self.now_us() + to_us(self._settings.wait_s)
        while self.now_us() < until_us and not all(peer.idle for peer in self._peers.values()):
            await asyncio.sleep(0.01)
        self._sending.farewell(self._peers.values())

    async def _hand_over_and_leave(self) -> None:
        self.stop()
        await self._hand_over()
        await self._leave()
        self.draining.obey(DrainOrder(undo=True))

    def reconfigure(self, settings: ClusterSettings) -> None:
        """Apply the settings that need no restart; the caller changes no others."""
        before, self._settings = self._settings, settings
        self.moves.wait_us = to_us(settings.move_s)
        self.draining.zone = settings.zone
        self._sending.forwarding.reshape(zone=settings.zone, fan_out=settings.fan_out)
        for peer in self._peers.values():
            peer.wait_us = to_us(settings.wait_s)
            peer.link.rebound(settings.queue_events, settings.queue_bytes, now_us=self.now_us())
        if settings.join != before.join:
            self._fabric.join(settings.join)
            if self._peers:
                log.info("cluster: the new cluster.join counts when this node is alone; it has others now")
        self.say()

    @property
    def address(self) -> str:
        """Address at which other nodes join."""
        return self._fabric.address

    def peer(self, name: str) -> ClusterPeer | None:
        """Another node of the view, by its name."""
        return self._peers.get(name)

    def peers(self) -> Iterable[ClusterPeer]:
        """All other nodes of the view."""
        return self._peers.values()

    def now_us(self) -> Instant:
        """The time."""
        return self._broker.clock()

    # -- who is there ----------------------------------------------------------------------------------------

    def appeared(self, seen: Sighting) -> None:
        """The fabric has found a node."""
        now_us = self.now_us()
        change = self._view.appeared(seen, now_us=now_us)
        name = printable(seen.name)
        match change:
            case Change.JOINED:
                log.info("cluster: node %s has joined", name)
                self._link(seen)
            case Change.RESTARTED:
                log.info("cluster: node %s was started anew", name)
                before = self._peers[seen.name]
                self._link(seen, before)
            case Change.BACK:
                log.info("cluster: node %s is back", name)
                peer = self._peers[seen.name]
                self._sending.again(peer, peer.link.renewed(now_us=now_us))
                self._sharing.back(peer)
                self.send_soon(peer)
                self.moves.view_changed()
            case Change.STRANGER:
                log.warning("cluster: node %s stays out: %s", name, printable(self._view.why_strange(seen)))
            case Change.OUSTED:
                self._ousted = True
                log.error(
                    "cluster: another node is named %s and was started later; this one leaves the cluster. "
                    "Each node needs a cluster.node of its own",
                    name,
                )
                self._background.begin(self._leave(), "this node has not left the cluster")
            case Change.RIVAL:
                log.error("cluster: another node is named %s, too; it was started earlier and leaves", name)
            case _:
                pass

    def vanished(self, seen: Sighting) -> None:
        """The fabric has lost a node: it may come back."""
        now_us = self.now_us()
        if self._view.vanished(seen, now_us=now_us) is Change.AWAY:
            log.warning("cluster: node %s is away; what is for it waits", printable(seen.name))
            peer = self._peers[seen.name]
            peer.link.lost()
            self._sending.lost(seen.name)
            self._sharing.away(peer, now_us)
            peer.settle(now_us=now_us)
            peer.asking.give_up("the node is away")
            self.moves.vanished(seen.name)
            self.moves.view_changed()
            about = self._view.members[seen.name].about
            if about is not None and about.leaving:
                log.info("cluster: node %s has left", printable(seen.name))
                self._view.left(seen.name)
                self._give_up(seen.name)
                self.moves.claims.given_up(seen.name)

    def _stop(self) -> None:
        """This node leaves the cluster for good: it stops, or goes on alone if nobody can stop it."""
        if self._stop_node is not None:
            self._stop_node()
        else:
            self._background.begin(self._hand_over_and_leave(), "this node has not left the cluster")

    async def _leave(self) -> None:
        self.moves.close()
        await self._fabric.close()
        for name in list(self._peers):
            self._give_up(name)
        self._view.members.clear()

    def _link(self, seen: Sighting, before: ClusterPeer | None = None) -> None:
        """Begin a link; the broker tells it what is wanted here.

        What waited for an earlier incarnation waits for this one, whose kept sessions may want it.
        """
        settings = self._settings
        peer = ClusterPeer(
            self,
            seen,
            (),
            capacity_events=settings.queue_events,
            capacity_bytes=settings.queue_bytes,
            wait_us=to_us(settings.wait_s),
        )
        if before is not None:
            peer.link.inherit(before.link, now_us=self.now_us())
            self._give_up(seen.name)
        self._peers[seen.name] = peer
        self._broker.router.add_peer(peer)
        self._incoming.wanted(peer, list(peer.link.theirs.filters), ())
        peer.link.say(self._own_words())
        peer.link.begin_snapshot(self._retained.topics(), self._retained.item)
        self.send_soon(peer)
        self.moves.view_changed()

    def _give_up(self, name: str) -> None:
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        self._broker.router.remove_peer(peer)
        self._sending.forget(peer)
        self._sending.lost(name)
        account = peer.link.abandon()
        if account.abandoned:
            log.warning(
                "cluster: %d events that waited for node %s are abandoned",
                account.abandoned,
                printable(name),
            )
        self._past += account
        self._past_received += peer.received
        peer.settle(now_us=self.now_us())
        peer.asking.give_up("the node is gone")
        if not self._receiving.closing and not self._ousted:
            self.moves.view_changed()
        # It may have been killed while some nodes had its last retained messages and others had not.
        topics = self._retained.left_by(name)
        for other in self._peers.values() if topics else ():
            other.link.owe(topics)
            self.send_soon(other)

    def _own_words(self) -> About:
        clients, api = self._about()
        load = sum(1 for session in self._broker.sessions if session.attached)
        figures = msgspec.structs.astuple(self._figures())
        draining = self.draining
        return About(
            self._settings.zone,
            clients,
            api,
            load,
            VERSION,
            figures,
            draining.on,
            draining.leaving,
            msgspec.structs.astuple(self.moves.figures()),
        )

    def _figures(self) -> LinkFigures:
        """The events of all links of this node, past ones included."""
        found = figures_of(self._past, self._past_received)
        for peer in self._peers.values():
            found += figures_of(peer.link.account(), peer.received)
        return found

    # -- to the others ---------------------------------------------------------------------------------------

    def outgoing(self, event: Event) -> Outgoing | None:
        """A message of this node as it crosses links, encoded once for all of them."""
        if event is self._retained.last or event.topic.startswith(self._broker.router.own):
            return None
        last = self._last
        if last is None or last.event is not event:
            number = self.number_of(event)
            last = self._last = Outgoing(event, item_of(event, number), number=number)
        return last

    def outgoing_run(self, run: Run) -> OutgoingRun:
        """Messages of this node as they cross links, encoded once for all of them."""
        if self._last_run is None or self._last_run[0] is not run:
            self._last_run = (run, run_item_of(run, self._number + 1))
            self._number += run.count
        return self._last_run[1]

    def number_of(self, event: Event) -> int:
        """The number of an event that leaves this node, the same for all nodes."""
        if self._numbered is None or self._numbered[0] is not event:
            self._numbered = (event, self._next_number())
        return self._numbered[1]

    @property
    def number(self) -> int:
        """The number of the last event of this node."""
        return self._number

    def number_here(self, event: Event) -> int:
        """The number of an event that is published at this node now, retained ones included."""
        return self._retained.number if event is self._retained.last else self.number_of(event)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _offer_all(self, out: Outgoing) -> None:
        now_us = self.now_us()
        for peer in self._peers.values():
            peer.link.offer(out, now_us=now_us)
            self.send_soon(peer)

    def send_soon(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send at the end of this turn of the event loop."""
        self._sending.soon(peer)

    def send_now(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send within this turn, unless it is still taking over what waited."""
        self._sending.now((peer,))

    def say(self) -> None:
        """Tell all other nodes about this one."""
        self._said_us = self.now_us()
        words = self._own_words()
        for peer in self._peers.values():
            peer.link.say(words)
            self.send_soon(peer)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_us = self.now_us()
            for peer in list(self._peers.values()):
                self._sending.again(peer, peer.link.retry(now_us=now_us))
                peer.settle(now_us=now_us)
                peer.asking.expire(now_us=now_us)
            for member in self._view.overdue(now_us=now_us):
                log.warning("cluster: node %s was away for too long and is given up", printable(member.name))
                self._give_up(member.name)
                self.moves.claims.given_up(member.name)
            if now_us - self._said_us >= ABOUT_US:
                self.say()
                self.moves.roots.remind()

    # -- from the others -------------------------------------------------------------------------------------

    def received(self, sender: Sighting, frame: bytes) -> None:
        """The fabric brings a frame of another node, or one that it passes on."""
        self._receiving.received(sender, frame)

    async def drain(self, node: str, *, undo: bool, rate: int, leave: bool) -> tuple[str, int]:
        """Have a node send its clients away; returns its name and its clients. ClusterError if it cannot."""
        return await self.draining.ask(node, DrainOrder(undo, rate, leave))

    # -- sessions --------------------------------------------------------------------------------------------

    def held_back(self, session: SessionIdentity, answer: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Answer a SUBSCRIBE when the other nodes know of it: then what is published anywhere comes."""
        return when_told(self._peers.values(), answer)

    # -- what can be known -----------------------------------------------------------------------------------

    def status(self) -> ClusterStatus:
        """Take a snapshot of the cluster as this node sees it."""
        problem = (
            f"another node is named {self.own.name!r}: this one has left the cluster"
            if self._ousted
            else self._fabric.problem
        )
        return status_of(
            self.own,
            self._own_words(),
            self._view.members,
            self._peers,
            self._sending.forwarding,
            self._fabric,
            events=self._figures(),
            now_us=self.now_us(),
            sent_away=self.draining.sent_away,
            problem=problem,
        )
