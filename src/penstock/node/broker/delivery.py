"""How messages reach a session: sent at once, or queued and drained later.

    attached, keeping up ──transport or window full──► attached, behind ──all drained──► keeping up
            └──────────────connection gone──────► detached ──expiry──► departed

While a session keeps up, messages go straight to its connection. As soon as one cannot, all that follow
wait in the queues of their subscriptions, where policies reach them. Draining sends, as far as connection
and window take them: messages in flight again, lanes, queues in order of arrival, digests, retained
messages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt.codes import V4, V5, Reason
from penstock.mqtt.fields import MOST_VARINT as LONGEST
from penstock.mqtt.packets.publish import Puback, Pubrec
from penstock.mqtt.sessions import session as rules
from penstock.mqtt.topics import DIGEST_TOPICS, matches
from penstock.node.broker.link import PASSING, Sent
from penstock.node.broker.message import (
    digest_event,
    digest_in,
    expired,
    frame_of,
    qos_of,
    unstamped_event,
)
from penstock.node.broker.runs import RunQueue
from penstock.node.broker.subscription import head_us

if TYPE_CHECKING:
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.publish import Ack
    from penstock.mqtt.sessions.identifiers import AliasesOut
    from penstock.node.broker.extensions import SessionSource
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Link
    from penstock.node.broker.message import Message, Retained
    from penstock.node.broker.runs import Run
    from penstock.node.broker.subscription import Subscription


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
        self.sources: tuple[SessionSource, ...] = ()
        """What feeds it besides its queues."""
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
            if self.link is None:
                subscription.beside_us = now_us
            elif any(source.offer(subscription, event, place, now_us=now_us) for source in self.sources):
                return
        self.requeue(subscription, event, place, now_us=now_us)

    def requeue(
        self, subscription: Subscription, item: Event | Digest, place: int, *, now_us: Instant
    ) -> None:
        """Queue something; it has its place in the journal already, or 0."""
        self.waiting[subscription] = None
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


class Draining(Delivery):
    """A session whose queues are drained."""

    def __init__(self, client_id: str, *, journal: Journal | None, retained: Retained) -> None:
        super().__init__(client_id, journal=journal)
        self._retained = retained
        self._owed: dict[Subscription, deque[str] | None] = {}
        """Subscriptions whose retained messages are still to be sent; the first one's topics, once found."""

    @abstractmethod
    def receive(self, ack: Ack) -> Ack | None:
        """Any acknowledgement; the answer."""

    def drain(self, *, now_us: Instant) -> None:
        """Send what waits, as much as connection and window take."""
        link = self.link
        if link is None or link.paused:
            return
        sources = self.sources
        if not any(source.unsafe for source in sources):
            self._send_again(now_us)
        for source in sources:
            source.drain_before_queues(now_us=now_us)
        if len(self.waiting) == 1:
            self._drain_one(next(iter(self.waiting)), now_us)
        elif self.waiting:
            self._drain_merged(now_us)
        for source in sources:
            source.drain_after_queues(now_us=now_us)
        while self._owed and not self.waiting and self._send_retained(now_us):
            pass
        for source in sources:
            source.drain(now_us=now_us)
        again = self.exchange.outgoing.resending
        blocked = any(source.blocks for source in sources)
        self.keeping_up = not (self.waiting or self._owed or again or blocked or link.paused)

    def flush_sources(self, *, now_us: Instant) -> None:
        """Queue what waits in sources: nobody is there that it could go ahead to."""
        for source in self.sources:
            source.flush(now_us=now_us)

    def _send_again(self, now_us: Instant) -> None:
        """What was in flight when the connection before this one was lost."""
        link = self.link
        assert link is not None
        while found := self.exchange.outgoing.again():
            for packet_id, qos, sent in found:
                if not self.fits(sent.event, sent.ids, now_us):  # it took larger ones before
                    self.receive(
                        Puback(packet_id) if qos == 1 else Pubrec(packet_id, Reason.PACKET_TOO_LARGE)
                    )
                    continue
                link.write(
                    frame_of(
                        sent.event,
                        version=self.version,
                        now_us=now_us,
                        packet_id=packet_id,
                        qos=qos,
                        retain=sent.retain,
                        dup=True,
                        subscription_ids=sent.ids,
                        aliases=self.aliases,
                    )
                )

    def _drain_one(self, subscription: Subscription, now_us: Instant) -> None:
        link, queue = self.link, subscription.queue
        assert link is not None
        assert queue is not None
        runs = queue if isinstance(queue, RunQueue) and self._takes_runs(subscription) else None
        while not link.paused and len(queue):
            most = limits.DRAIN_ITEMS
            if runs is not None:
                run = runs.take_run()
                if run is not None:
                    self._send_run(subscription, run, now_us)
                    continue
                most = min(most, runs.ahead)
            if subscription.options.qos:
                most = min(most, self.exchange.outgoing.room)
                if not most:
                    if self.wants_window(subscription, queue.head()):
                        return
                    most = 1
            for item in queue.take(most, most_bytes=limits.RUN_BYTES):
                self._send_item(subscription, item, now_us)
        if not len(queue):
            self.waiting.pop(subscription, None)

    def _takes_runs(self, subscription: Subscription) -> bool:
        """Whether messages go out as they came; the client may want more on them than when they did."""
        return not (self.particular or subscription.ids)

    def _send_run(self, subscription: Subscription, run: Run, now_us: Instant) -> None:
        link = self.link
        assert link is not None
        self.sent += run.count
        subscription.latency.add(now_us - run.now_us)
        link.write(run.bytes_for(self.version))

    def _drain_merged(self, now_us: Instant) -> None:
        """Several queues: always the item that came first."""
        link = self.link
        assert link is not None
        heads = [
            (head_us(each.queue.head()) or 0, number, each)
            for number, each in enumerate(self.waiting)
            if each.queue is not None
        ]
        heapify(heads)
        while heads and not link.paused:
            _, number, subscription = heads[0]
            queue = subscription.queue
            assert queue is not None
            if not self.exchange.outgoing.room and self.wants_window(subscription, queue.head()):
                return
            for item in queue.take(1):
                self._send_item(subscription, item, now_us)
            following = queue.head()
            if following is None:
                heappop(heads)
                self.waiting.pop(subscription, None)
            else:
                heapreplace(heads, (head_us(following) or 0, number, subscription))

    def wants_window(self, subscription: Subscription, item: Item | None) -> bool:
        """Whether an item takes a place in the window."""
        if not subscription.options.qos:
            return False
        return isinstance(item, Digest) or (isinstance(item, Event) and bool(qos_of(item)))

    def _send_item(self, subscription: Subscription, item: Item, now_us: Instant) -> None:
        place = subscription.places.pop(id(item), 0) if subscription.places else 0
        if isinstance(item, Digest):
            self._send_digest(subscription, item, now_us)
            if place and self._journal is not None:
                self._journal.settled(place)
            return
        assert isinstance(item, Event)
        self.send_waiting(subscription, item, place, now_us)

    def send_waiting(self, subscription: Subscription, event: Event, place: int, now_us: Instant) -> None:
        """Send an event that has waited."""
        message: Message | None = event.carried
        qos = 0 if message is None else min(message.qos, subscription.options.qos)
        retain = message is not None and message.retain and subscription.options.retain_as_published
        ids = self._ids_for(subscription, event.topic)
        if self._send(subscription, event, qos=qos, retain=retain, ids=ids, place=place, now_us=now_us):
            subscription.latency.add(now_us - event.ts_us)

    def _ids_for(self, subscription: Subscription, topic: str) -> tuple[int, ...]:
        """Identifiers of all subscriptions that one copy is sent for."""
        if subscription.alone or len(self.held) == 1:
            return subscription.ids
        together = [
            number
            for each in self.held.values()
            if each.ids and not each.alone and matches(each.filter, topic)
            for number in each.ids
        ]
        return tuple(dict.fromkeys(together)) or subscription.ids

    def _send_digest(self, subscription: Subscription, digest: Digest, now_us: Instant) -> None:
        """In its place among the events; MQTT 3.1.1 gets it on a topic of its own, if it subscribed to it."""
        topic = subscription.digest_topic()
        to = subscription
        if self.version == V4:
            topic = DIGEST_TOPICS + topic
            listening = [each for each in self.held.values() if matches(each.filter, topic)]
            if not listening:
                return
            to = max(listening, key=lambda one: one.options.qos)
        qos = to.options.qos if self.exchange.outgoing.room else 0
        event = digest_event(digest, topic=topic, filter_=subscription.filter, qos=qos, now_us=now_us)
        if not self.fits(event, to.ids, now_us):
            return
        place = self._journalled(subscription, event, qos)
        self._send(subscription, event, qos=qos, retain=False, ids=to.ids, place=place, now_us=now_us)
        subscription.digests += 1

    # -- retained messages -----------------------------------------------------------------------------------

    def owe_retained(self, subscription: Subscription) -> None:
        """Send the retained messages that match as soon as there is room for each; `drain` follows."""
        self._owed[subscription] = None
        self.keeping_up = False

    def _send_retained(self, now_us: Instant) -> bool:
        """The next retained message; False if it has to wait for the connection or the window."""
        if self.link is None or self.link.paused:
            return False
        subscription, topics = next(iter(self._owed.items()))
        if topics is None:
            topics = self._owed[subscription] = deque(self._retained.topics(subscription.filter))
        if not topics or self.held.get(subscription.filter) is not subscription:
            del self._owed[subscription]
            return True
        topic = topics[0]
        event = self._retained.get(topic, now_us=now_us)
        content = subscription.content
        if (
            event is None
            or (content is not None and not content.wants(event, now_us=now_us))
            or any(source.covers(subscription, event) for source in self.sources)
        ):
            topics.popleft()
            return True
        qos = min(qos_of(event), subscription.options.qos)
        if qos and not self.exchange.outgoing.room:
            return False
        topics.popleft()
        event = unstamped_event(event)
        place = self._journalled(subscription, event, qos)
        subscription.direct += 1
        ids = subscription.ids
        self._send(subscription, event, qos=qos, retain=True, ids=ids, place=place, now_us=now_us)
        return True
