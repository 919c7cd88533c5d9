"""A client's session inside the node, from its first connection until it departs.

How the session gets messages is in `delivery`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.mqtt.fields import MOST_VARINT as LONGEST
from penstock.mqtt.packets.publish import Puback, Pubcomp, Pubrec, Pubrel
from penstock.mqtt.sessions.session import NEVER_S
from penstock.node.broker.answers import orphan
from penstock.node.broker.delivery import Draining
from penstock.node.broker.status import ClientStatus

if TYPE_CHECKING:
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect
    from penstock.mqtt.packets.publish import Ack
    from penstock.mqtt.sessions.server import ServerConnection
    from penstock.node.broker.answers import Deferred, DeferredAcks
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Link
    from penstock.node.broker.message import Retained
    from penstock.node.broker.records import SessionFacts
    from penstock.node.broker.subscription import Subscription


class Session(Draining):
    """One client identifier's state."""

    def __init__(
        self,
        client_id: str,
        *,
        user: str,
        now_us: Instant,
        retained: Retained,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(client_id, journal=journal, retained=retained)
        self.user = user
        self.published = 0
        """Messages the client has published: the last one's sequence number."""
        self.since_us = now_us
        """When it attached or detached."""
        self.born_us = now_us
        """Tells it from an earlier session of the same client."""
        self.unanswered: deque[Deferred] = deque()
        """Answers that wait for reliable streams, or behind such, in the order of their messages."""
        self.orphans: list[DeferredAcks] = []
        """Messages that wait since an earlier connection."""
        self.written = False
        """Whether the journal knows it."""
        self._releasing: dict[int, int] = {}
        """Places in the journal of QoS 2 messages the client has and did not complete."""

    @property
    def origin(self) -> str:
        """Whose packet identifiers those are that its messages in streams carry."""
        return f"c:{self.client_id}/{self.born_us}"

    # -- connections -----------------------------------------------------------------------------------------

    def attach_to(
        self, link: Link, agreed: ServerConnection, connect: Connect, *, most_expiry_s: int, now_us: Instant
    ) -> list[Pubrel]:
        """A connection carries it from now on; what to send first. `drain` follows when that is sent."""
        self.link = link
        self.version = connect.version
        self.aliases = agreed.aliases_out if agreed.aliases_out.maximum else None
        self.particular = self.aliases is not None or agreed.maximum_packet_bytes <= LONGEST
        self.since_us = now_us
        self.keeping_up = False
        pubrels = self.attach(
            connect,
            window=agreed.receive_maximum,
            maximum=agreed.terms.receive_maximum,
            most_expiry_s=most_expiry_s,
        )
        for source in self.sources:
            pubrels = source.safe(pubrels)
        return pubrels

    def lose_link(self, *, now_us: Instant) -> None:
        """The connection is gone: all that comes waits. `detach` follows."""
        self.flush_sources(now_us=now_us)
        self.link = None
        if self.unanswered:
            orphan(self)
        self.aliases = None
        for source in self.sources:
            source.lost_link()
        self.keeping_up = False
        self.since_us = now_us

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledged(self, packet_id: int) -> None:
        """A PUBACK without a word, which nearly all are."""
        sent = self.exchange.outgoing.puback(packet_id)
        if sent is None:
            return
        if sent.reader is not None:
            sent.reader.acknowledged(sent.tick, packet_id)
        elif sent.place and self._journal is not None:
            self._journal.settled(sent.place)

    def acknowledged_many(self, packet_ids: list[int]) -> None:
        """The same for many."""
        for sent in self.exchange.outgoing.pubacks(packet_ids):
            if sent.reader is not None:
                sent.reader.acknowledged(sent.tick, 0)
            elif sent.place and self._journal is not None:
                self._journal.settled(sent.place)

    def receive(self, ack: Ack) -> Ack | None:
        """Any acknowledgement; the answer."""
        step = self.exchange.receive(ack)
        for source in self.sources:
            if source.settles(ack, step):
                return None if source.holds_pubrel(ack.packet_id) else step.reply
        if self._journal is not None:
            self._write_down(ack, step.settled.place if step.settled is not None else 0, step.reply)
        return step.reply

    def _write_down(self, ack: Ack, place: int, reply: Ack | None) -> None:
        assert self._journal is not None
        match ack:
            case Puback() if place:
                self._journal.settled(place)
            case Pubrec() if place and isinstance(reply, Pubrel):
                self._releasing[ack.packet_id] = place
                self._journal.released(place, ack.packet_id)
            case Pubrec() if place:
                self._journal.settled(place)
            case Pubcomp() | Pubrec():
                place = self._releasing.pop(ack.packet_id, 0)
                if place and not isinstance(reply, Pubrel):
                    self._journal.settled(place)
                elif place:
                    self._releasing[ack.packet_id] = place
            case Pubrel() if self.expiry_s:
                self._journal.completed(self, ack.packet_id)

    # -- after a restart -------------------------------------------------------------------------------------

    def restore(self, facts: SessionFacts, *, now_us: Instant) -> None:
        """What the store held of it; detached since then, or since now if it was attached."""
        self.written = True
        self.version = facts.version
        self.expiry_s = facts.expiry_s
        self.published = facts.published
        self.born_us = facts.born_us
        self.will = facts.will
        self.since_us = self._detached_us = facts.detached_us or now_us

    def restore_released(self, packet_id: int, place: int) -> None:
        """A QoS 2 message that was released before a restart."""
        self._releasing[packet_id] = place

    def supersede(self, packet_id: int, *, released: bool) -> None:
        """A message of a reliable stream has this identifier: what the journal says of it is older."""
        before = self.exchange.outgoing.supersede(packet_id, released=released)
        place = self._releasing.pop(packet_id, 0) if before is None else before.place
        if place and self._journal is not None:
            self._journal.settled(place)

    # -- subscriptions ---------------------------------------------------------------------------------------

    def left_of(self, subscription: Subscription, *, departed: bool, now_us: Instant) -> list[Item]:
        """What a subscription that ends leaves to the others of its group: all that was not sent.

        Of a session that departs also what was sent with QoS 1 and not acknowledged; a message of QoS 2 that
        was sent is nobody else's ([MQTT-4.8.2-5]).
        """
        self.flush_sources(now_us=now_us)
        left: list[Item] = []
        if departed:
            left.extend(
                each.message.event
                for each in self.exchange.outgoing.unanswered()
                if each.qos == 1 and each.message.filter == subscription.filter
            )
        if subscription.queue is not None:
            left.extend(subscription.queue.items())
        return left

    def drop(self, subscription: Subscription, *, now_us: Instant) -> None:
        """End a subscription; what waited there is abandoned."""
        self.flush_sources(now_us=now_us)
        del self.held[subscription.filter]
        self.waiting.pop(subscription, None)
        if self._journal is not None:
            for place in subscription.places.values():
                self._journal.settled(place)
        subscription.abandon()

    # -- what can be known -----------------------------------------------------------------------------------

    def status(self, *, now_us: Instant) -> ClientStatus:
        """The session at this moment."""
        due_us = None
        if not self.attached and self.expiry_s != NEVER_S:
            due_us = self.since_us + self.expiry_s * 1_000_000
        return ClientStatus(
            client_id=self.client_id,
            user=self.user,
            state="attached" if self.attached else "detached",
            address=self.link.address if self.link is not None else "",
            protocol=self.version,
            since_us=self.since_us,
            expires_us=due_us or 0,
            in_flight=self.exchange.outgoing.in_flight,
            behind=self.link is not None and self.link.paused,
            received=self.published,
            sent=self.sent,
            subscriptions=tuple(each.status(now_us=now_us) for each in self.held.values()),
        )
