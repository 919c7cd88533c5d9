"""The cluster at one node: who is there, the links to them, and what comes over them.

A message published here goes to every node that has told interest in its topic; there it goes to the
subscribers of that node and no further. Retained messages go to all nodes. A subscription is acknowledged to
its client when the other nodes know of it, a message of QoS 1 or 2 when the nodes that want it have it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.cluster.backlog import LinkAccount, Outgoing
from penstock.core.cluster.frames import About, Carried, Told, Wants, is_data
from penstock.core.cluster.stamps import Stamp, Stamps
from penstock.core.cluster.view import Change, View
from penstock.errors import ClusterError, DigestError, MqttError, printable
from penstock.model.digest_wire import from_bytes
from penstock.model.instant import to_us
from penstock.mqtt.topics import check_filter
from penstock.node.broker.background import Background
from penstock.node.broker.broker import VERSION
from penstock.node.broker.extensions import SessionListener
from penstock.node.broker.message import Message, message_of
from penstock.node.broker.routes import Group, Member
from penstock.node.cluster.peer import ClusterPeer
from penstock.node.cluster.records import event_from, item_of
from penstock.node.cluster.status import ClusterStatus, LinkFigures, LinkRow, MemberRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.frames import Item
    from penstock.core.cluster.view import Member as ViewMember
    from penstock.core.cluster.view import Sighting
    from penstock.model.digest import Digest
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.cluster.fabric import Fabric
    from penstock.node.config.cluster import ClusterSettings

log = logging.getLogger(__name__)

TICK_S: Final = 0.1
"""How often frames without acknowledgement and nodes that are away are looked at."""

ABOUT_US: Final = 5_000_000
"""How often a node tells the others about itself."""

SEEN_MOST: Final = 100
"""Complaints about one node that are logged; the rest is counted."""


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
    ) -> None:
        """`about` returns the addresses for MQTT clients, and that of the API."""
        self._broker = broker
        self._settings = settings
        self._fabric = fabric
        self._about = about
        self.own = own
        self._view = View(own)
        self._peers: dict[str, ClusterPeer] = {}
        self._stamps = Stamps(own.name)
        self._number = 0
        """Events of this node that have left it, or would have."""
        self._last: Outgoing | None = None
        """The message that was encoded last: it goes to several nodes."""
        self._retained: Message | None = None
        """The retained message that was sent to all nodes last."""
        self._accepting = False
        """Whether a message of another node is being handled."""
        self._dirty: dict[ClusterPeer, None] = {}
        self._past = LinkAccount()
        """Account of links to nodes that were given up."""
        self._past_received = 0
        self._said_us = 0
        self._ousted = False
        self._closing = False
        self._background = Background()
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Join the cluster; NodeError if this node cannot listen, or its name is taken."""
        self._broker.listeners.append(self)
        self._broker.on_retained.append(self._retain)
        await self._fabric.open(self)
        log.info("cluster %s: this is node %s, at %s", self.own.cluster, self.own.name, self._fabric.address)
        self._background.begin(self._tick(), "the cluster resends nothing and forgets nobody")

    def stop(self) -> None:
        """Take nothing from other nodes any more: the broker is about to end."""
        self._closing = True

    async def close(self) -> None:
        """Hand over what is on its way, and leave the cluster; the broker has ended before."""
        self.stop()
        until_us = self.now_us() + to_us(self._settings.wait_s)
        while self.now_us() < until_us and not all(_idle(peer) for peer in self._peers.values()):
            await asyncio.sleep(0.01)
        await self._background.close()
        for peer in self._peers.values():
            if not peer.held:
                self._fabric.send(peer.seen, peer.link.farewell())
        await self._leave()

    @property
    def address(self) -> str:
        """Address at which other nodes join."""
        return self._fabric.address

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
                self._send(peer, peer.link.renewed(now_us=now_us))
                self.send_soon(peer)
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
            peer.settle(now_us=now_us)

    async def _leave(self) -> None:
        await self._fabric.close()
        for name in list(self._peers):
            self._give_up(name)

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
            peer.link.inherit(before.link)
            self._give_up(seen.name)
        self._peers[seen.name] = peer
        self._broker.router.add_peer(peer)
        peer.link.say(self._own_words())
        peer.link.begin_snapshot(self._kept_topics(), self._kept_item)
        self.send_soon(peer)

    def _give_up(self, name: str) -> None:
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        self._broker.router.remove_peer(peer)
        self._fabric.forget(peer.seen)
        self._dirty.pop(peer, None)
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
        # It may have been killed while some nodes had its last retained messages and others had not.
        topics = self._stamps.written_by(name)
        for other in self._peers.values() if topics else ():
            other.link.owe(topics)
            self.send_soon(other)

    def _own_words(self) -> About:
        clients, api = self._about()
        load = sum(1 for session in self._broker.sessions if session.attached)
        figures = msgspec.structs.astuple(self._figures())
        return About(self._settings.zone, clients, api, load, VERSION, figures)

    def _figures(self) -> LinkFigures:
        """The events of all links of this node, past ones included."""
        found = _figures(self._past, self._past_received)
        for peer in self._peers.values():
            found += _figures(peer.link.account(), peer.received)
        return found

    # -- to the others ---------------------------------------------------------------------------------------

    def outgoing(self, event: Event) -> Outgoing | None:
        """A message of this node as it crosses links, encoded once for all of them."""
        if event is self._retained or event.topic.startswith(self._broker.router.own):
            return None
        last = self._last
        if last is None or last.event is not event:
            self._number += 1
            last = self._last = Outgoing(event, item_of(event, self._number))
        return last

    def _retain(self, message: Message) -> None:
        """A retained message has changed at this node: all nodes get it, whether they want it or not."""
        if self._accepting or message.topic.startswith(self._broker.router.own):
            return
        if self._broker.router.find(message.topic).into is not None:
            return  # of a reliable stream, which stays at its host
        self._number += 1
        number = self._number
        stamp = self._stamps.write(
            message.topic, at_us=message.ts_us, number=number, deleted=not message.payload
        )
        out = Outgoing(message, item_of(message, number, stamp=stamp), retained=True)
        self._retained = message
        for peer in self._peers.values():
            peer.link.offer(out)
            self.send_soon(peer)

    def _kept_topics(self) -> list[str]:
        """Topics with a retained message, or whose message was deleted, for a node that has joined."""
        topics = self._broker.retained.topics("#")
        self._stamps.keep_only(topics)
        return [*topics, *(topic for topic, _ in self._stamps.deleted())]

    def _kept_item(self, topic: str) -> bytes | None:
        """The retained message of a topic as it is now, or its deletion; None if there is neither."""
        if topic.startswith(self._broker.router.own):
            return None
        message = self._broker.retained.get(topic, now_us=self.now_us())
        stamp = self._stamps.of(topic, at_us=0 if message is None else message.ts_us)
        if message is None:
            if not stamp.origin:
                return None
            message = message_of(topic, b"", topic_bytes=topic.encode(), now_us=stamp.at_us, retain=True)
        return item_of(message, 0, stamp=stamp, kept_only=True)

    def send_soon(self, peer: ClusterPeer) -> None:
        """Send what a peer has to send at the end of this turn of the event loop."""
        if not self._dirty:
            self._loop.call_soon(self._flush)
        self._dirty[peer] = None

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        now_us = self.now_us()
        for peer in dirty:
            self._send(peer, peer.link.frames(now_us=now_us))

    def _send(self, peer: ClusterPeer, frames: list[bytes]) -> None:
        for frame in frames:
            self._fabric.send(peer.seen, frame)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now_us = self.now_us()
            for peer in list(self._peers.values()):
                self._send(peer, peer.link.retry(now_us=now_us))
                peer.settle(now_us=now_us)
            for member in self._view.overdue(now_us=now_us):
                log.warning("cluster: node %s was away for too long and is given up", printable(member.name))
                self._give_up(member.name)
            if now_us - self._said_us >= ABOUT_US:
                self._said_us = now_us
                words = self._own_words()
                for peer in self._peers.values():
                    peer.link.say(words)
                    self.send_soon(peer)

    # -- from the others -------------------------------------------------------------------------------------

    def received(self, sender: Sighting, frame: bytes) -> None:
        """The fabric brings a frame of another node."""
        peer = self._peers.get(sender.name)
        if peer is None or peer.seen.incarnation != sender.incarnation:
            return  # it comes again when the view knows the sender
        now_us = self._broker.now_us = self.now_us()
        if self._closing and is_data(frame):
            return
        try:
            found = peer.link.received(frame, now_us=now_us)
        except ClusterError as error:
            self._complain(peer, str(error))
            return
        self._send(peer, found.again)
        if found.settled:
            peer.settle(now_us=now_us)
            self._send(peer, peer.link.frames(now_us=now_us))
        if found.items:
            self._take(peer, found.items, now_us)

    def _take(self, peer: ClusterPeer, items: list[Item], now_us: Instant) -> None:
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
            partial(self._acknowledge_safe, peer, upto), behind=bool(peer.held)
        ):
            peer.held += 1
        else:
            self._fabric.send(peer.seen, peer.link.acknowledgement(upto))

    def _acknowledge_safe(self, peer: ClusterPeer, upto: int) -> None:
        """Acknowledge a frame whose messages are on disk."""
        peer.held -= 1
        if self._peers.get(peer.seen.name) is peer:
            self._fabric.send(peer.seen, peer.link.acknowledgement(upto))

    def _take_one(self, peer: ClusterPeer, item: Item, now_us: Instant) -> None:
        match item:
            case Carried():
                self._deliver(peer, item, now_us)
            case Told():
                self._tell(item.filter, from_bytes(item.digest), now_us)
            case Wants():
                self._want(peer, item)
            case About():
                member = self._view.members.get(peer.seen.name)
                if member is not None:
                    member.about = item

    def _want(self, peer: ClusterPeer, wants: Wants) -> None:
        for filter_ in wants.added:
            check_filter(filter_, where="interest")
        added, removed = peer.link.theirs.apply(wants)
        peer.wants(added, removed)
        for filter_ in added:
            self._broker.router.peer_wants(peer, filter_, wanted=True)
        for filter_ in removed:
            self._broker.router.peer_wants(peer, filter_, wanted=False)

    def _deliver(self, peer: ClusterPeer, item: Carried, now_us: Instant) -> None:
        """Give a message of another node to the subscribers here."""
        broker = self._broker
        event = event_from(item, broker.properties)
        if event.topic.startswith(broker.router.own):
            raise ClusterError(f"topic '{event.topic}' is each node's own")
        if not item.kept_only:
            peer.received += 1
        fan = broker.router.find(event.topic)
        if fan.into is not None:
            broker.count_refused("stream topic of another node")
            return
        if item.stamp is not None and type(event) is Message and event.retain:
            self._keep(event, Stamp(*item.stamp))
        if item.kept_only:
            return
        for receiver in fan.all:
            receiver.deliver(event, origin=peer, now_us=now_us)

    def _keep(self, message: Message, stamp: Stamp) -> None:
        """Keep a retained message of another node if it was written last."""
        known = self._broker.retained.get(message.topic, now_us=self.now_us())
        if known is not None and self._stamps.of(message.topic, at_us=known.ts_us) >= stamp:
            return
        if not self._stamps.later(message.topic, stamp, deleted=not message.payload):
            return
        self._accepting = True
        try:
            if not self._broker.keep_retained(message):
                self._stamps.forget(message.topic)
        finally:
            self._accepting = False

    def _tell(self, filter_: str, digest: Digest, now_us: Instant) -> None:
        """Tell the subscriptions to a filter what was dropped on the way to them."""
        for each in self._broker.router.subscribed(filter_):
            if isinstance(each, Group):
                each.take_over([digest], now_us=now_us)
            elif isinstance(each, Member):
                each.session.delivery.requeue(each.subscription, digest, 0, now_us=now_us)
                each.session.drain(now_us=now_us)

    def _complain(self, peer: ClusterPeer, problem: str) -> None:
        peer.damaged += 1
        if peer.damaged <= SEEN_MOST:
            log.warning("cluster: from node %s: %s", printable(peer.seen.name), printable(problem))

    # -- sessions --------------------------------------------------------------------------------------------

    def held_back(self, session: SessionIdentity, answer: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Answer a SUBSCRIBE when the other nodes know of it: then what is published anywhere comes."""
        waiting = [peer for peer in self._peers.values() if peer.link.connected and not peer.link.told]
        if not waiting:
            return answer

        def wait() -> None:
            missing = len(waiting)

            def told() -> None:
                nonlocal missing
                missing -= 1
                if not missing:
                    answer()

            for peer in waiting:
                peer.when_told(told)

        return wait

    # -- what can be known -----------------------------------------------------------------------------------

    def status(self) -> ClusterStatus:
        """Take a snapshot of the cluster as this node sees it."""
        now_us = self.now_us()
        links = [_link_row(peer) for _, peer in sorted(self._peers.items())]
        members = [_row(one, now_us) for _, one in sorted(self._view.members.items())]
        words = self._own_words()
        events = total = self._figures()
        for row in members:
            total += row.events
        return ClusterStatus(
            cluster=self.own.cluster,
            node=self.own.name,
            incarnation=self.own.incarnation,
            zone=words.zone,
            address=self._fabric.address,
            clients=words.clients,
            load=words.load,
            members=tuple(members),
            links=tuple(links),
            events=events,
            total=total,
            balanced=events.balanced and all(row.events.balanced for row in members),
            problem=(
                f"another node is named {self.own.name!r}: this one has left the cluster"
                if self._ousted
                else self._fabric.problem
            ),
        )


def _idle(peer: ClusterPeer) -> bool:
    """Whether nothing is on its way to a node, or it is away; and nothing from it on its way to the disk."""
    return (not peer.link.connected or peer.link.idle) and not peer.held


def _row(member: ViewMember, now_us: Instant) -> MemberRow:
    about = member.about
    return MemberRow(
        name=member.name,
        incarnation=member.incarnation,
        state="away" if member.away else "here" if about is not None else "joining",
        since_us=max(0, now_us - member.since_us),
        zone="" if about is None else about.zone,
        clients=() if about is None else about.clients,
        api="" if about is None else about.api,
        load=0 if about is None else about.load,
        version="" if about is None else about.program,
        events=LinkFigures() if about is None else LinkFigures(*about.links),
    )


def _figures(account: LinkAccount, received: int) -> LinkFigures:
    return LinkFigures(
        account.accepted,
        account.handed,
        account.digested,
        account.queued,
        account.in_flight,
        account.abandoned,
        received,
    )


def _link_row(peer: ClusterPeer) -> LinkRow:
    link = peer.link
    return LinkRow(
        name=peer.seen.name,
        connected=link.connected,
        filters=len(link.theirs.filters),
        events=_figures(link.account(), peer.received),
        queued_bytes=link.backlog.bytes,
        in_flight_bytes=link.in_flight_bytes,
        resent=link.resent,
        damaged=peer.damaged,
        round_trip_us=link.round_trip_us,
    )
