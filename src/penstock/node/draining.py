"""How what waits for a session is sent: messages in flight again, lanes, queues in order of arrival, digests,
retained messages; as much of each as connection and window take."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.mqtt.acks import Puback, Pubrec
from penstock.mqtt.kinds import V4
from penstock.mqtt.reasons import Reason
from penstock.mqtt.topics import matches
from penstock.node.delivery import Delivery
from penstock.node.message import DIGEST_TOPICS, digest_event, frame_of, qos_of, unstamped_event
from penstock.node.run_queue import RunQueue
from penstock.node.subscription import head_us

if TYPE_CHECKING:
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.mqtt.acks import Ack
    from penstock.node.journal import Journal
    from penstock.node.message import Message
    from penstock.node.retained import Retained
    from penstock.node.runs import Run
    from penstock.node.slots.lanes import SessionLanes
    from penstock.node.subscription import Subscription


class Draining(Delivery):
    """A session whose queues are drained."""

    def __init__(self, client_id: str, *, journal: Journal | None, retained: Retained) -> None:
        super().__init__(client_id, journal=journal)
        self._retained = retained
        self._sent_before = 0
        """Messages sent when lanes were last looked at."""
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
        streams = self.streams
        if streams is None or not streams.unsafe:
            self._send_again(now_us)
        lanes = self.lanes
        if lanes:
            self._drain_lanes(lanes, now_us)
        if len(self.waiting) == 1:
            self._drain_one(next(iter(self.waiting)), now_us)
        elif self.waiting:
            self._drain_merged(now_us)
        if lanes:
            self._drain_lanes(lanes, now_us)
        while self._owed and not self.waiting and self._send_retained(now_us):
            pass
        if streams is not None:
            streams.drain(now_us=now_us)
        again = self.exchange.outgoing.resending
        self.keeping_up = not (self.waiting or self._owed or again or lanes or link.paused)

    def _drain_lanes(self, lanes: SessionLanes, now_us: Instant) -> None:
        """What goes before the queues; late messages only in their share, unless no queue waits."""
        link = self.link
        assert link is not None
        lanes.passed(self.sent - self._sent_before)
        while not link.paused and (entry := lanes.head(others_wait=bool(self.waiting))) is not None:
            subscription, event = entry.subscription, entry.event
            if not self.exchange.outgoing.room and self._wants_window(subscription, event):
                break
            lanes.take()
            subscription.laned -= 1
            subscription.direct += 1
            self._send_placed(subscription, event, entry.place, now_us)
        self._sent_before = self.sent

    def flush_lanes(self, *, now_us: Instant) -> None:
        """Queue what waits in lanes: there is nobody it could go ahead to."""
        if self.lanes:
            for entry in self.lanes.flush(now_us=now_us):
                self.waiting[entry.subscription] = None
                self._queue(entry.subscription, entry.event, entry.place, now_us=now_us)

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
                    if self._wants_window(subscription, queue.head()):
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
            if not self.exchange.outgoing.room and self._wants_window(subscription, queue.head()):
                return
            for item in queue.take(1):
                self._send_item(subscription, item, now_us)
            following = queue.head()
            if following is None:
                heappop(heads)
                self.waiting.pop(subscription, None)
            else:
                heapreplace(heads, (head_us(following) or 0, number, subscription))

    def _wants_window(self, subscription: Subscription, item: Item | None) -> bool:
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
        self._send_placed(subscription, item, place, now_us)

    def _send_placed(self, subscription: Subscription, event: Event, place: int, now_us: Instant) -> None:
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
            or (self.streams is not None and self.streams.covers(subscription, event))
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
