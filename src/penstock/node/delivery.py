"""How messages reach a session: sent at once, or queued until they can be drained (`draining`).

    attached, keeping up ──transport or window full──► attached, behind ──all drained──► keeping up
            └──────────────connection gone──────► detached ──expiry──► departed

While a session keeps up, messages go straight to its connection. As soon as one cannot, all that follow wait
in the queues of their subscriptions, where policies reach them, and drain from there in order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt import session as rules
from penstock.mqtt.kinds import V5
from penstock.mqtt.varint import MOST as LONGEST
from penstock.node.link import PASSING, Sent
from penstock.node.message import digest_in, expired, frame_of

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.aliases import AliasesOut
    from penstock.node.journal import Journal
    from penstock.node.link import Link
    from penstock.node.message import Message
    from penstock.node.runs import Run
    from penstock.node.slots.lanes import SessionLanes
    from penstock.node.streams.reading_session import SessionReading
    from penstock.node.subscription import Subscription


class Delivery(rules.Session[Sent]):
    """A session as its receivers' side sees it."""

    def __init__(self, client_id: str, *, journal: Journal | None) -> None:
        super().__init__(client_id)
        self.version = V5
        self.link: Link | None = None
        self.keeping_up = False
        """Attached, nothing waits, and the transport takes more."""
        self.held: dict[str, Subscription] = {}
        """Subscriptions by filter."""
        self.waiting: dict[Subscription, None] = {}
        """Those whose queues hold something."""
        self.aliases: AliasesOut | None = None
        """For topics we send, where the client takes aliases."""
        self.particular = False
        """Whether the client takes no message as it is: it wants aliases, or small packets only."""
        self.sent = 0
        """Messages sent to the client."""
        self.lanes: SessionLanes | None = None
        """Ahead of and behind all queues; None: the node reserves no slots."""
        self.streams: SessionReading | None = None
        """The reliable streams it reads; None: it reads none."""
        self._journal = journal

    # -- a message comes -------------------------------------------------------------------------------------

    def deliver_run(self, subscription: Subscription, run: Run) -> None:
        """Plain QoS 0 messages for this session."""
        if self.keeping_up:
            link = self.link
            assert link is not None
            subscription.direct += run.count
            self.sent += run.count
            link.sampled = subscription
            link.write(run.bytes_for(self.version))
            return
        subscription.offer_run(run)
        self.waiting[subscription] = None

    def takes_qos1(self, subscription: Subscription, count: int) -> bool:
        """Whether so many QoS 1 messages can be sent at once, and need not be remembered."""
        # A session that ends with its connection never sends anything again.
        return (
            self.keeping_up
            and not self.expiry_s
            and bool(subscription.options.qos)
            and self.exchange.outgoing.room >= count
        )

    def deliver_qos1(self, subscription: Subscription, heads: list[bytes], tails: list[bytes]) -> None:
        """Messages that `takes_qos1`, as they came in but with packet identifiers of our own."""
        link = self.link
        assert link is not None
        count = len(heads)
        packet_ids = self.exchange.outgoing.send_many(PASSING, count)
        subscription.direct += count
        self.sent += count
        link.sampled = subscription
        parts: list[bytes] = [b""] * (3 * count)
        parts[0::3] = heads
        parts[1::3] = [packet_id.to_bytes(2, "big") for packet_id in packet_ids]
        parts[2::3] = tails
        link.write(b"".join(parts))

    def deliver(
        self, subscription: Subscription, event: Event, *, ids: tuple[int, ...], now_us: Instant
    ) -> None:
        """A message for this session: sent, or queued."""
        message: Message | None = event.carried
        qos, retain = 0, False
        if message is not None:
            qos = min(message.qos, subscription.options.qos)
            retain = message.retain and subscription.options.retain_as_published
        place = self._journalled(subscription, event, qos)
        if self.keeping_up and (not qos or self.exchange.outgoing.room):
            subscription.direct += 1
            self._send(subscription, event, qos=qos, retain=retain, ids=ids, place=place, now_us=now_us)
            return
        self.keeping_up = False
        if message is not None and message.flow is not None:
            if self.lanes is None or self.link is None:
                subscription.beside_us = now_us
            elif self.lanes.add(subscription, event, place, message.flow, now_us=now_us):
                return
        self.waiting[subscription] = None
        self._queue(subscription, event, place, now_us=now_us)

    def _queue(
        self, subscription: Subscription, item: Event | Digest, place: int, *, now_us: Instant
    ) -> None:
        if isinstance(item, Event) and item.properties and subscription.chosen.plan is not None:
            item = digest_in(item) or item  # to the policy it is what it stands for, not one event more
        journal = self._journal
        if place and journal is not None:
            before = subscription.places.pop(id(item), 0)
            if before:  # of an event that was dropped, whose identity is free again
                journal.settled(before)
            subscription.places[id(item)] = place
        subscription.offer(item, now_us=now_us)
        if subscription.places and journal is not None:
            queue = subscription.queue
            merged = isinstance(item, Digest) and queue is not None and queue.newest is not item
            journal.packed(self, subscription, merged=merged)

    def _journalled(self, subscription: Subscription, event: Event, qos: int) -> int:
        """Write down a message that must not be lost; its place."""
        if not qos or not self.expiry_s or self._journal is None:
            return 0
        return self._journal.accepted(self, subscription, event)

    def _send(
        self,
        subscription: Subscription,
        event: Event,
        *,
        qos: int,
        retain: bool,
        ids: tuple[int, ...],
        place: int = 0,
        now_us: Instant,
    ) -> bool:
        """Hand a message to the connection, the window has room; whether it could be sent."""
        link = self.link
        assert link is not None
        if expired(event, now_us) or not self.fits(event, ids, now_us):
            subscription.withheld += 1
            if place and self._journal is not None:
                self._journal.settled(place)
            return False
        packet_id = 0
        if qos:
            sent = Sent(event, retain, ids, place, filter=subscription.filter)
            packet_id = self.exchange.outgoing.send(sent, qos=qos)
            if place and self._journal is not None:
                self._journal.sent(place, packet_id=packet_id, qos=qos)
        elif place and self._journal is not None:
            self._journal.settled(place)
        self.sent += 1
        link.sampled = subscription
        link.write(
            frame_of(
                event,
                version=self.version,
                now_us=now_us,
                packet_id=packet_id,
                qos=qos,
                retain=retain,
                subscription_ids=ids,
                aliases=self.aliases,
            )
        )
        return True

    def fits(self, event: Event, ids: tuple[int, ...], now_us: Instant) -> bool:
        """Whether the client takes a packet that large."""
        link = self.link
        assert link is not None
        if link.maximum_packet_bytes > LONGEST:
            return True
        frame = frame_of(event, version=self.version, now_us=now_us, packet_id=1, qos=1, subscription_ids=ids)
        return len(frame) + 3 <= link.maximum_packet_bytes  # an alias may be added
