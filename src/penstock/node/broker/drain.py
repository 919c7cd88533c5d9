"""Draining a session: sends what waits for its client, as far as connection and window take it.

The order is: messages in flight once more, what sources send before the queues, queues in order of
arrival, what sources send behind them, retained messages, and what sources send last.
"""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.digest import Digest
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.publish import Puback, Pubrec
from penstock.mqtt.topics import matches
from penstock.node.broker.message import Message, frame_of, qos_of, unstamped_message
from penstock.node.broker.runs import RunQueue
from penstock.node.broker.subscription import head_us

if TYPE_CHECKING:
    from penstock.core.queues import BoundedQueue
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.node.broker.acknowledgements import Acknowledgements
    from penstock.node.broker.delivery import Delivery
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.message import Retained
    from penstock.node.broker.runs import Run
    from penstock.node.broker.subscription import Subscription


class Drain:
    """The part of a session that sends what waits for its client."""

    __slots__ = ("_acks", "_gathering", "_held", "_journal", "_out", "_owed", "_retained", "_timer")

    def __init__(
        self,
        delivery: Delivery,
        acks: Acknowledgements,
        held: dict[str, Subscription],
        *,
        retained: Retained,
        journal: Journal | None,
    ) -> None:
        """`held` are the subscriptions of the session by filter; the session adds and removes them."""
        self._out = delivery
        self._acks = acks
        self._held = held
        self._journal = journal
        self._retained = retained
        self._owed: dict[Subscription, deque[str] | None] | None = None
        """Subscriptions whose retained messages are still to be sent; the first one's topics, once found."""
        self._gathering: dict[Subscription, None] = {}
        """Subscriptions in whose queues nothing but a digest is left, which waits for its time."""
        self._timer: asyncio.TimerHandle | None = None

    def run(self, *, now_us: Instant) -> None:
        """Send what waits, as much as connection and window take."""
        out = self._out
        if out.blocked:
            return
        pacing = out.pacing
        if pacing is not None and out.waiting:
            pacing.look(now_us)
        self._send(now_us)
        if pacing is not None and not out.waiting:
            pacing.drained(now_us)

    def _send(self, now_us: Instant) -> None:
        out = self._out
        if self._gathering:
            for subscription in self._gathering:
                if self._held.get(subscription.filter) is subscription and subscription.queue:
                    self._out.waiting[subscription] = None
            self._gathering.clear()
        sources = self._out.sources
        if not (sources and any(source.unsafe for source in sources)):
            self._send_again(now_us)
        for source in sources:
            source.drain_before_queues(now_us=now_us)
        if len(self._out.waiting) == 1:
            self._drain_one(next(iter(self._out.waiting)), now_us)
        elif self._out.waiting:
            self._drain_merged(now_us)
        for source in sources:
            source.drain_after_queues(now_us=now_us)
        while self._owed and not self._out.waiting and self._send_retained(now_us):
            pass
        for source in sources:
            source.drain(now_us=now_us)
        again = self._out.exchange.outgoing.resending
        blocked = sources and any(source.blocks for source in sources)
        behind = out.waiting or self._owed or again or blocked or out.blocked
        out.keeping_up = not behind and out.metered is None

    def _send_again(self, now_us: Instant) -> None:
        """Send again what was in flight when the previous connection was lost.

        It may be so short ago that the disk does not have it yet.
        """
        behind = self._journal is not None and self._journal.behind
        while found := self._out.exchange.outgoing.again():
            for packet_id, qos, sent in found:
                # The client may have come back with another version of MQTT, or have asked for another form.
                event = self._out.in_form(self._held.get(sent.filter), sent.event)
                fits, aliases = True, self._out.aliases
                if self._out.most_bytes:
                    fits, aliases = self._out.fit(
                        event, qos=qos, ids=sent.ids, now_us=now_us, aliases=aliases
                    )
                if not fits:  # it took larger ones before, or was never sent this one
                    self._acks.receive(
                        Puback(packet_id) if qos == 1 else Pubrec(packet_id, Reason.PACKET_TOO_LARGE)
                    )
                    subscription = self._held.get(sent.filter)
                    if subscription is not None:
                        self._out.too_large(subscription, event, now_us)
                    continue
                frame = frame_of(
                    event,
                    version=self._out.version,
                    now_us=now_us,
                    packet_id=packet_id,
                    qos=qos,
                    retain=sent.retain,
                    dup=True,
                    subscription_ids=sent.ids,
                    aliases=aliases,
                )
                if behind and sent.place:
                    self._out.hold(frame, now_us=now_us)
                else:
                    out = self._out.out
                    assert out is not None
                    out.write(frame)

    def _drain_one(self, subscription: Subscription, now_us: Instant) -> None:
        out, queue = self._out, subscription.queue
        assert queue is not None
        runs = queue if isinstance(queue, RunQueue) and self._takes_runs(subscription) else None
        # One at a time where time counts: no policy reaches what is taken, and nothing overtakes it.
        timed = out.pacing is not None or out.metered is not None
        while not out.blocked and len(queue):
            most = 1 if timed else limits.DRAIN_ITEMS
            if runs is not None:
                run = runs.take_run(most_bytes=limits.TIMED_FLUSH_BYTES if timed else None)
                if run is not None:
                    self._send_run(subscription, run, now_us)
                    continue
                most = min(most, runs.ahead)
            if subscription.options.qos:
                most = min(most, self._out.exchange.outgoing.room)
                if not most:
                    if self._out.wants_window(subscription, queue.head()):
                        return
                    most = 1
            if not self._send_some(subscription, queue, most, now_us):
                self._gather(subscription, queue, now_us)
                return
        if not len(queue):
            self._out.waiting.pop(subscription, None)

    def _send_some(self, subscription: Subscription, queue: BoundedQueue, most: int, now_us: Instant) -> bool:
        """Send the next items; False if nothing is left but a digest that waits for its time."""
        taken = queue.take(most, most_bytes=limits.RUN_BYTES, now_us=now_us)
        counted = False
        for item in taken:
            self._send_item(subscription, item, now_us)
            counted |= isinstance(item, Digest)
        # What a digest counts must not come again, and digests that were merged give way to the result. Only
        # now that all was sent: to the journal, what has left the queue is settled.
        if (
            self._journal is not None
            and subscription.places
            and (queue.gathered or (counted and queue.dropped > subscription.dropped_before))
        ):
            self._journal.packed(subscription, merged=True)
        return bool(taken)

    def _gather(self, subscription: Subscription, queue: BoundedQueue, now_us: Instant) -> None:
        """Leave a digest in its queue until its time has come; meanwhile the session keeps up."""
        self._out.waiting.pop(subscription, None)
        self._gathering[subscription] = None
        due_us = queue.due_us
        assert due_us is not None, "only time holds back a digest that is alone"
        loop = asyncio.get_running_loop()
        at_s = loop.time() + max(0, due_us - now_us) / SECOND_US
        if self._timer is not None and self._timer.when() > at_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(at_s, self._due, due_us)

    def _due(self, due_us: Instant) -> None:
        """The time of a digest has come."""
        self._timer = None
        self.run(now_us=due_us)

    def _takes_runs(self, subscription: Subscription) -> bool:
        """Whether messages go out as they came; the client may want more on them than when they did."""
        return not (self._out.particular or subscription.ids)

    def _send_run(self, subscription: Subscription, run: Run, now_us: Instant) -> None:
        out = self._out.out
        assert out is not None
        self._out.sent += run.count
        subscription.latency.add(now_us - run.now_us)
        out.write(run.bytes_for(self._out.version))

    def _drain_merged(self, now_us: Instant) -> None:
        """Several queues: urgent events first, then always the item that came first."""
        heads = [
            (_turn(each.queue), number, each)
            for number, each in enumerate(self._out.waiting)
            if each.queue is not None
        ]
        heapify(heads)
        while heads and not self._out.blocked:
            _, number, subscription = heads[0]
            queue = subscription.queue
            assert queue is not None
            if not self._out.exchange.outgoing.room and self._out.wants_window(subscription, queue.head()):
                return
            sent = self._send_some(subscription, queue, 1, now_us)
            if queue.head() is None:
                heappop(heads)
                self._out.waiting.pop(subscription, None)
            elif not sent:
                heappop(heads)
                self._gather(subscription, queue, now_us)
            else:
                heapreplace(heads, (_turn(queue), number, subscription))

    def _send_item(self, subscription: Subscription, item: Item, now_us: Instant) -> None:
        place = subscription.places.pop(id(item), 0) if subscription.places else 0
        if type(item) is Message or type(item) is Event:
            self.send_waiting(subscription, item, place, now_us)
            return
        assert isinstance(item, Digest)
        self._out.tell(subscription, item, now_us)
        if place and self._journal is not None:
            self._journal.settled(place)

    def send_waiting(self, subscription: Subscription, event: Event, place: int, now_us: Instant) -> None:
        """Send an event that has waited."""
        qos, retain = 0, False
        if type(event) is Message:
            qos = min(event.qos, subscription.options.qos)
            retain = event.retain and subscription.options.retain_as_published
        ids = self._ids_for(subscription, event.topic)
        if self._out.send(subscription, event, qos=qos, retain=retain, ids=ids, place=place, now_us=now_us):
            subscription.latency.add(now_us - event.ts_us)

    def _ids_for(self, subscription: Subscription, topic: str) -> tuple[int, ...]:
        """Identifiers of all subscriptions that one copy is sent for."""
        if subscription.alone or len(self._held) == 1:
            return subscription.ids
        together = [
            number
            for each in self._held.values()
            if each.ids and not each.alone and matches(each.filter, topic)
            for number in each.ids
        ]
        return tuple(dict.fromkeys(together)) or subscription.ids

    # -- retained messages -----------------------------------------------------------------------------------

    def owe_retained(self, subscription: Subscription) -> None:
        """Send the retained messages that match as soon as there is room for each; `drain` follows."""
        if self._owed is None:
            self._owed = {}
        self._owed[subscription] = None
        self._out.keeping_up = False

    def _send_retained(self, now_us: Instant) -> bool:
        """Send the next retained message; False if it has to wait for the connection or the window."""
        if self._out.blocked:
            return False
        owed = self._owed
        assert owed
        subscription, topics = next(iter(owed.items()))
        if topics is None:
            topics = owed[subscription] = deque(self._retained.topics(subscription.filter))
        if not topics or self._held.get(subscription.filter) is not subscription:
            del owed[subscription]
            if not owed:
                self._owed = None
            return True
        topic = topics[0]
        event = self._retained.get(topic, now_us=now_us)
        content = subscription.content
        if (
            event is None
            or (content is not None and not content.wants(event, now_us=now_us))
            or any(source.covers(subscription, event) for source in self._out.sources)
        ):
            topics.popleft()
            return True
        qos = min(qos_of(event), subscription.options.qos)
        if qos and not self._out.exchange.outgoing.room:
            return False
        topics.popleft()
        event = unstamped_message(event)
        place = self._out.journalled(subscription, event, qos)
        subscription.direct += 1
        ids = subscription.ids
        self._out.send(subscription, event, qos=qos, retain=True, ids=ids, place=place, now_us=now_us)
        return True


def _turn(queue: BoundedQueue) -> Instant:
    """Key by which the queues of a session take turns: since when the next item of a queue waits."""
    return 0 if queue.urgent else head_us(queue.head()) or 0
