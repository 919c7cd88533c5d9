"""Gives messages to a session: sends them at once, or queues them to be drained later.

    attached, keeping up ──transport or window full──► attached, behind ──all drained──► keeping up
            └──────────────connection gone──────► detached ──expiry──► departed

While a session keeps up, messages go straight to its connection, or wait a few milliseconds in an `Outbox`
until the disk has them. As soon as one cannot be sent, all that follow wait in the queues of their
subscriptions, where policies reach them, until `drain` has sent them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.digest import TOO_LARGE, Digest
from penstock.model.digest_wire import digest_in
from penstock.model.event import Event
from penstock.mqtt.codes import V5
from penstock.mqtt.topics import SHARE
from penstock.node.broker.link import PASSING, Sent
from penstock.node.broker.message import (
    Message,
    digest_message,
    expired,
    frame_of,
    qos_of,
    with_json_digest,
)
from penstock.node.broker.outbox import Outbox
from penstock.node.broker.pacing import Pacing
from penstock.node.broker.subscription import DigestForm

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.mqtt.sessions.identifiers import AliasesOut
    from penstock.mqtt.sessions.session import Session
    from penstock.node.broker.extensions import SessionSource
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Link, Writer
    from penstock.node.broker.runs import Run
    from penstock.node.broker.subscription import Subscription


class Delivery:
    """The part of a session that takes routed messages and sends them, or queues them."""

    __slots__ = (
        "_journal",
        "_rules",
        "_tell_others",
        "aliases",
        "exchange",
        "keeping_up",
        "link",
        "metered",
        "most_bytes",
        "out",
        "outbox",
        "pacing",
        "particular",
        "sent",
        "sources",
        "version",
        "waiting",
    )

    def __init__(
        self,
        rules: Session[Sent],
        *,
        journal: Journal | None,
        tell: Callable[[Subscription, Digest], None] | None = None,
    ) -> None:
        """`rules` is the session as MQTT defines it: its messages in flight and its expiry.

        `tell` gets the digests that do not come in the stream.
        """
        self._rules = rules
        self._tell_others = tell
        self.exchange = rules.exchange
        self.version = V5
        self.link: Link | None = None
        self.out: Writer | None = None
        """Where messages are written: the connection, or its outbox while something there waits."""
        self.outbox: Outbox | None = None
        """Holds what leaves when the disk has it; None: nothing waits."""
        self.keeping_up = False
        """Attached, nothing waits, and the transport takes more."""
        self.waiting: dict[Subscription, None] = {}
        """Subscriptions whose queues hold something, in the order in which they fell behind."""
        self.aliases: AliasesOut | None = None
        """Aliases of the topics sent to the client; None if the client takes no aliases."""
        self.particular = False
        """Whether the client takes no message as it is: it wants aliases, or small packets only."""
        self.most_bytes = 0
        """Largest packet the client takes; 0: any."""
        self.sent = 0
        """Messages sent to the client."""
        self.pacing: Pacing | None = None
        """The pace of the client, if a queue keeps time."""
        self.metered: Callable[[], None] | None = None
        """Schedules the draining of a metered session, of which little may be outside its queues."""
        self.sources: list[SessionSource] = []
        """Feed the session besides its queues."""
        self._journal = journal

    @property
    def in_flight(self) -> int:
        """Messages sent and not acknowledged."""
        return self.exchange.outgoing.in_flight

    def paced(self) -> Pacing:
        """Measure the client's pace from now on, for a queue that keeps time."""
        if self.pacing is None:
            self.pacing = Pacing(self)
            if self.link is not None:
                self.link.output.keep_little()
        return self.pacing

    # -- a message comes -------------------------------------------------------------------------------------

    def deliver_run(self, subscription: Subscription, run: Run, *, alone: bool = False) -> None:
        """Plain QoS 0 messages for this session; those that come `alone` are not kept back for others."""
        if self.keeping_up:
            out = self.out
            assert out is not None
            subscription.direct += run.count
            self.sent += run.count
            if alone:
                out.write_now(run.bytes_for(self.version))
                return
            out.sampled = subscription
            out.write(run.bytes_for(self.version))
            return
        subscription.offer_run(run)
        self.waiting[subscription] = None
        if self.metered is not None:
            self.metered()

    def takes_qos1(self, subscription: Subscription, count: int) -> bool:
        """Whether so many QoS 1 messages can be sent at once, and need not be remembered."""
        # A session that ends with its connection never sends anything again.
        return (
            self.keeping_up
            and not self._rules.expiry_s
            and bool(subscription.options.qos)
            and self.exchange.outgoing.room >= count
        )

    def deliver_qos1(self, subscription: Subscription, heads: list[bytes], tails: list[bytes]) -> None:
        """Messages that `takes_qos1`, as they came in but with packet identifiers of our own."""
        out = self.out
        assert out is not None
        count = len(heads)
        packet_ids = self.exchange.outgoing.send_many(PASSING, count)
        subscription.direct += count
        self.sent += count
        out.sampled = subscription
        parts: list[bytes] = [b""] * (3 * count)
        parts[0::3] = heads
        parts[1::3] = [packet_id.to_bytes(2, "big") for packet_id in packet_ids]
        parts[2::3] = tails
        out.write(b"".join(parts))

    def deliver(
        self, subscription: Subscription, event: Event, *, ids: tuple[int, ...], now_us: Instant
    ) -> None:
        """A message for this session: sent, or queued."""
        qos, retain, flow = 0, False, None
        if type(event) is Message:
            qos = min(event.qos, subscription.options.qos)
            retain = event.retain and subscription.options.retain_as_published
            flow = event.flow
        place = self.journalled(subscription, event, qos)
        if self.keeping_up and (not qos or self.exchange.outgoing.room):
            subscription.direct += 1
            self.send(subscription, event, qos=qos, retain=retain, ids=ids, place=place, now_us=now_us)
            return
        self.keeping_up = False
        if place:
            self.reserve(subscription, event, place, qos=qos, retain=retain)
        if flow is not None:
            if self.link is None:
                subscription.beside_us = now_us
            elif any(
                source.offer(subscription, event, place, flow, now_us=now_us) for source in self.sources
            ):
                return
        self.requeue(subscription, event, place, now_us=now_us)

    def reserve(
        self, subscription: Subscription, event: Event, place: int, *, qos: int, retain: bool
    ) -> None:
        """Give a message that has to wait its packet identifier, unless it may be dropped or given to others.

        Those with identifiers go first after a crash, so within a subscription none follows one without.
        """
        assert self._journal is not None
        if subscription not in self.waiting:
            subscription.numbered = True
        if (
            subscription.chosen.plan is not None
            or subscription.filter.startswith(SHARE)
            or (type(event) is Message and event.expires_us)
            or len(self.exchange.ids) >= limits.RESERVED_IDS
        ):
            subscription.numbered = False
        if subscription.numbered:
            self._journal.reserve(place, self.exchange.ids, qos=qos, retain=retain)

    def requeue(
        self, subscription: Subscription, item: Event | Digest, place: int, *, now_us: Instant
    ) -> None:
        """Queue an event or a digest; `place` is its place in the journal, 0 if it has none."""
        self.waiting[subscription] = None
        if subscription.chosen.plan is not None and isinstance(item, Event) and item.properties:
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
            journal.packed(subscription, merged=merged)
        if self.metered is not None:
            self.metered()

    def take_digest(self, subscription: Subscription, digest: Digest, *, now_us: Instant) -> None:
        """Queue a digest of what another node could not send; a session that is kept has it on disk, too."""
        place = 0
        if subscription.options.qos and self._rules.expiry_s and self._journal is not None:
            place = self._journal.kept(subscription, digest)
        self.requeue(subscription, digest, place, now_us=now_us)

    def journalled(self, subscription: Subscription, event: Event, qos: int) -> int:
        """Write down a message that must not be lost; its place."""
        if not qos or not self._rules.expiry_s or self._journal is None:
            return 0
        return self._journal.accepted(subscription, event)

    def send(
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
        """Send a message, the window has room; whether it could be sent.

        A message with a place in the journal leaves when the disk has it with its packet identifier.
        """
        if event.properties:
            event = self.in_form(subscription, event)
        if expired(event, now_us):
            subscription.withheld += 1
            self._forget(place)
            return False
        fits, aliases = True, self.aliases
        if self.most_bytes:
            fits, aliases = self.fit(event, qos=qos, ids=ids, now_us=now_us, aliases=aliases)
        if not fits:
            self._forget(place)
            self.too_large(subscription, event, now_us)
            return False
        packet_id, safe = 0, False
        if qos:
            sent = Sent(event, retain, ids, place, filter=subscription.filter)
            outgoing, journal = self.exchange.outgoing, self._journal
            if place and journal is not None:
                packet_id, safe = journal.take_reserved(place, qos)
            if packet_id:
                outgoing.send_as(packet_id, sent, qos=qos)
            else:
                packet_id = outgoing.send(sent, qos=qos)
                if place and journal is not None:
                    journal.sent(place, packet_id=packet_id, qos=qos, retain=retain)
        elif place and self._journal is not None:
            self._journal.settled(place)
            place = 0
        self.sent += 1
        frame = frame_of(
            event,
            version=self.version,
            now_us=now_us,
            packet_id=packet_id,
            qos=qos,
            retain=retain,
            subscription_ids=ids,
            aliases=aliases,
        )
        out = self.out
        assert out is not None
        if place and not safe:
            out = self.hold(frame, now_us=now_us)
        else:
            out.write(frame)
        out.sampled = subscription
        return True

    def in_form(self, subscription: Subscription | None, event: Event) -> Event:
        """A message as the client reads it: with MQTT 3.1.1, or if asked for, a compact digest as JSON."""
        if self.version != V5 or (subscription is not None and subscription.form is DigestForm.JSON):
            return with_json_digest(event)
        return event

    def hold(self, frame: bytes, *, now_us: Instant) -> Writer:
        """Send a frame when all that was noted in the journal so far is on disk; returns what holds it."""
        outbox = self.outbox
        if outbox is None:
            assert self.link is not None
            assert self._journal is not None
            outbox = self.outbox = Outbox(self, self.link.output, self._journal)
        outbox.hold(frame, now_us=now_us)
        return outbox

    @property
    def blocked(self) -> bool:
        """Whether nothing more can be sent: no connection, or it takes nothing, or too much waits for the
        disk."""
        link, outbox = self.link, self.outbox
        if link is None:
            return True
        output = link.output
        return (
            output.paused
            or (outbox is not None and outbox.full)
            or (self.metered is not None and output.full)
        )

    # -- a message does not come -----------------------------------------------------------------------------

    def _forget(self, place: int) -> None:
        """Remove from the journal a message that is not sent."""
        if place and self._journal is not None:
            self._journal.settled(place)

    def fit(
        self,
        event: Event,
        *,
        qos: int,
        ids: tuple[int, ...],
        now_us: Instant,
        aliases: AliasesOut | None,
    ) -> tuple[bool, AliasesOut | None]:
        """Whether a client with a largest packet takes a message, and the aliases to make its packet with.

        The packet is made to see its size. A topic alias may make it smaller or larger: the client gets the
        message if it fits with one or without.
        """
        for tried in (aliases, None) if aliases is not None else (None,):
            frame = frame_of(
                event,
                version=self.version,
                now_us=now_us,
                packet_id=1 if qos else 0,
                qos=qos,
                subscription_ids=ids,
                aliases=None if tried is None else tried.copy(),
            )
            if len(frame) <= self.most_bytes:
                return True, tried
        return False, None

    def too_large(self, subscription: Subscription, event: Event, now_us: Instant) -> None:
        """Count a message that the client does not take, and tell of it in a digest."""
        subscription.oversized += 1
        self.tell(subscription, subscription.digest_of(event, TOO_LARGE), now_us)

    def tell(self, subscription: Subscription, digest: Digest, now_us: Instant) -> None:
        """Send a digest in the stream of its subscription if it wants that; else count it and tell others."""
        ids = subscription.ids
        if self.digests_in_stream(subscription):
            qos = subscription.options.qos if self.exchange.outgoing.room else 0
            event = digest_message(
                digest,
                topic=subscription.digest_topic(),
                filter_=subscription.filter,
                compact=subscription.form is not DigestForm.JSON,
                qos=qos,
                now_us=now_us,
            )
            if (
                not self.most_bytes
                or self.fit(event, qos=qos, ids=ids, now_us=now_us, aliases=self.aliases)[0]
            ):
                place = self.journalled(subscription, event, qos)
                self.send(subscription, event, qos=qos, retain=False, ids=ids, place=place, now_us=now_us)
                subscription.digests += 1
                return
        subscription.counted += digest.count
        if self._tell_others is not None:
            self._tell_others(subscription, digest)

    def digests_in_stream(self, subscription: Subscription) -> bool:
        """Whether the client gets digests in the stream of a subscription.

        MQTT 3.1.1 has no user properties to mark a digest, so there they are never in the stream.
        """
        return self.version == V5 and subscription.digests_in_stream

    def wants_window(self, subscription: Subscription, item: Item | None) -> bool:
        """Whether an item takes a place in the window."""
        if not subscription.options.qos:
            return False
        if isinstance(item, Digest):
            return self.digests_in_stream(subscription)
        return isinstance(item, Event) and bool(qos_of(item))
