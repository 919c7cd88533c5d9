"""A client's session inside the node, from its first connection until it departs.

The session is made of parts: `delivery` takes routed messages, `acks` takes acknowledgements, and a `Drain`
sends what waits. What MQTT says about a session, whatever server keeps it, is in `mqtt.sessions`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.mqtt.fields import MOST_VARINT as LONGEST
from penstock.mqtt.sessions.session import NEVER_S
from penstock.mqtt.sessions.session import Session as MqttSession
from penstock.node.broker.acknowledgements import Acknowledgements
from penstock.node.broker.answers import NO_ORPHANS, NOTHING, orphan
from penstock.node.broker.delivery import Delivery
from penstock.node.broker.drain import Drain
from penstock.node.broker.link import Sent
from penstock.node.broker.records import SessionFacts, SubscriptionFacts
from penstock.node.broker.status import ClientStatus

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator, Mapping

    from penstock.model.digest import Digest
    from penstock.model.event import Event, Item
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect
    from penstock.mqtt.packets.publish import Pubrel
    from penstock.mqtt.sessions.server import ServerConnection
    from penstock.node.broker.answers import Deferred, DeferredAcks
    from penstock.node.broker.extensions import SessionSource
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Link
    from penstock.node.broker.message import Retained
    from penstock.node.broker.status import SubscriptionStatus
    from penstock.node.broker.subscription import Subscription

NOTHING_CARRIED: Final[Mapping[str, bytes]] = MappingProxyType({})
"""The empty state that most sessions carry, shared by all of them."""


class Session(MqttSession[Sent]):
    """One client identifier's state.

    A node has many of them that do nothing: what most of them do not need is made when it is needed.
    """

    __slots__ = (
        "_drain",
        "_journal",
        "acks",
        "born_us",
        "carried",
        "delivery",
        "held",
        "orphans",
        "published",
        "since_us",
        "unanswered",
        "user",
        "written",
    )

    def __init__(
        self,
        client_id: str,
        *,
        user: str,
        now_us: Instant,
        retained: Retained,
        journal: Journal | None = None,
        tell: Callable[[Subscription, Digest], None] | None = None,
    ) -> None:
        """`tell` gets the digests that do not come in the client's stream."""
        super().__init__(client_id)
        self.user = user
        self.published = 0
        """Messages the client has published: the last one's sequence number."""
        self.since_us = now_us
        """When the session attached or detached."""
        self.born_us = now_us
        """When the session began; tells it from an earlier session of the same client."""
        self.carried: Mapping[str, bytes] = NOTHING_CARRIED
        """State of the session in parts of the node it came from that are off at this node."""
        self.held: dict[str, Subscription] = {}
        """Subscriptions by filter."""
        self.unanswered: deque[Deferred] = NOTHING
        """Answers that wait for reliable streams, or behind such, in the order of their messages."""
        self.orphans: list[DeferredAcks] = NO_ORPHANS
        """Messages that wait since an earlier connection."""
        self._journal = journal
        self.written = False
        """Whether the session is on disk, or on its way there."""
        self.delivery = Delivery(self, journal=journal, tell=tell)
        self.acks = Acknowledgements(self, self.delivery, journal=journal)
        self._drain = Drain(self.delivery, self.acks, self.held, retained=retained, journal=journal)

    @property
    def origin(self) -> str:
        """Names this session among all of its client: packet identifiers in streams belong to an origin."""
        return f"c:{self.client_id}/{self.born_us}"

    @property
    def link(self) -> Link | None:
        """The connection of the session; None while the client is away."""
        return self.delivery.link

    @property
    def version(self) -> int:
        """The version of MQTT of the present connection, or of the last one."""
        return self.delivery.version

    @property
    def sources(self) -> list[SessionSource]:
        """Feed the session besides its queues."""
        return self.delivery.sources

    # -- connections -----------------------------------------------------------------------------------------

    def attach_to(
        self, link: Link, agreed: ServerConnection, connect: Connect, *, most_expiry_s: int, now_us: Instant
    ) -> list[Pubrel]:
        """Attach to a connection; returns the PUBRELs to send first. Then the caller calls `drain`."""
        delivery = self.delivery
        delivery.link, delivery.out = link, link.output
        delivery.outbox = None
        delivery.version = connect.version
        delivery.aliases = agreed.aliases_out if agreed.aliases_out.maximum else None
        most_bytes = agreed.maximum_packet_bytes
        delivery.most_bytes = most_bytes if most_bytes <= LONGEST else 0
        delivery.particular = delivery.aliases is not None or delivery.most_bytes > 0
        delivery.keeping_up = False
        if delivery.pacing is not None:
            link.output.keep_little()
        self.since_us = now_us
        pubrels = self.attach(
            connect,
            window=agreed.receive_maximum,
            maximum=agreed.terms.receive_maximum,
            most_expiry_s=most_expiry_s,
        )
        for source in self.sources:
            pubrels = source.safe(pubrels)
        return self.acks.safe(pubrels)

    def lose_link(self, *, now_us: Instant) -> None:
        """The connection is gone: all that comes waits. `detach` follows."""
        self._flush_sources(now_us=now_us)
        self.delivery.link = self.delivery.out = self.delivery.outbox = None
        if self.unanswered:
            orphan(self)
        self.delivery.aliases = None
        for source in self.sources:
            source.lost_link()
        self.delivery.keeping_up = False
        if self.delivery.pacing is not None:
            self.delivery.pacing.lost()
        self.since_us = now_us

    # -- sending ---------------------------------------------------------------------------------------------

    def drain(self, *, now_us: Instant) -> None:
        """Send what waits, as much as connection and window take."""
        self._drain.run(now_us=now_us)

    def owe_retained(self, subscription: Subscription) -> None:
        """Send the retained messages that match as soon as there is room for each; `drain` follows."""
        self._drain.owe_retained(subscription)

    def send_waiting(self, subscription: Subscription, event: Event, place: int, now_us: Instant) -> None:
        """Send an event that has waited in a source; the connection takes it, and the window if it must."""
        self._drain.send_waiting(subscription, event, place, now_us)

    def _flush_sources(self, *, now_us: Instant) -> None:
        """Have sources give their messages back to the queues of subscriptions."""
        for source in self.sources:
            source.flush(now_us=now_us)

    # -- on disk ---------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Note in the journal that expiry, subscriptions or connection have changed."""
        if self._journal is None:
            return
        if self.expiry_s:
            self._journal.session_changed(self.client_id, self.facts())
            self.written = True
        else:
            self.unsave()

    def unsave(self) -> None:
        """Remove the session from disk: it departs, or will with its connection."""
        if self.written and self._journal is not None:
            self.written = False
            self._journal.session_ended(self.client_id)

    def facts(self) -> SessionFacts:
        """The session without its messages."""
        return SessionFacts(
            user=self.user,
            version=self.version,
            expiry_s=self.expiry_s,
            detached_us=0 if self.attached else self.since_us,
            published=self.published,
            will=self.will,
            subscriptions=tuple(
                SubscriptionFacts(
                    options=each.options,
                    subscription_id=each.ids[0] if each.ids else 0,
                    policy=each.chosen.asked,
                    content=each.content.text if each.content is not None else "",
                    digests=each.form.value,
                    fresh_us=each.fresh_us or 0,
                )
                for each in self.held.values()
            ),
            born_us=self.born_us,
        )

    def restore(self, facts: SessionFacts, *, now_us: Instant) -> None:
        """Take over stored facts; the session is detached since then, or since now if it was attached."""
        self.written = True
        self.delivery.version = facts.version
        self.expiry_s = facts.expiry_s
        self.published = facts.published
        self.born_us = facts.born_us
        self.will = facts.will
        self.since_us = self._detached_us = facts.detached_us or now_us

    # -- subscriptions ---------------------------------------------------------------------------------------

    def left_of(self, subscription: Subscription, *, departed: bool, now_us: Instant) -> list[Item]:
        """List what a subscription that ends leaves to the others of its group: all that was not sent.

        Of a session that departs also what was sent with QoS 1 and not acknowledged; a message of QoS 2 that
        was sent is nobody else's ([MQTT-4.8.2-5]).
        """
        self._flush_sources(now_us=now_us)
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
        self._flush_sources(now_us=now_us)
        del self.held[subscription.filter]
        self.delivery.waiting.pop(subscription, None)
        if self._journal is not None:
            for place in subscription.places.values():
                self._journal.settled(place)
        subscription.abandon()

    # -- what can be known -----------------------------------------------------------------------------------

    def subscription_statuses(self, *, now_us: Instant) -> Iterator[SubscriptionStatus]:
        """Each subscription at this moment."""
        for each in self.held.values():
            yield each.status(now_us=now_us, digests_in_stream=self.delivery.digests_in_stream(each))

    def status(self, *, now_us: Instant) -> ClientStatus:
        """The session at this moment."""
        due_us = None
        if not self.attached and self.expiry_s != NEVER_S:
            due_us = self.since_us + self.expiry_s * 1_000_000
        link = self.link
        return ClientStatus(
            client_id=self.client_id,
            user=self.user,
            state="attached" if self.attached else "detached",
            address=link.address if link is not None else "",
            protocol=self.version,
            since_us=self.since_us,
            expires_us=due_us or 0,
            in_flight=self.exchange.outgoing.in_flight,
            behind=link is not None and link.output.paused,
            received=self.published,
            sent=self.delivery.sent,
            subscriptions=tuple(self.subscription_statuses(now_us=now_us)),
        )
