"""The lanes of a session: messages of served flows that wait ahead of or behind the queues of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.slots.lanes import Lane, Lanes
from penstock.node.broker.extensions import SessionSource
from penstock.node.broker.runs import RunQueue
from penstock.node.broker.subscription import head_us

if TYPE_CHECKING:
    from penstock.core.slots.lanes import Assigned
    from penstock.core.slots.links import Link
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that waits in a lane."""

    subscription: Subscription
    event: Event
    place: int
    """Place of the message in the journal; 0: it is not there."""


class SessionLanes(SessionSource):
    """Lanes of one session; a message in them counts as queued at its subscription."""

    def __init__(self, session: Session, link: Link, *, most: int, late_share: float) -> None:
        self.link = link
        self.lanes: Lanes[Entry] = Lanes(most=most, late_share=late_share)
        self._session = session
        self._sent_before = 0
        """Messages the session had sent when the lanes were last drained."""

    @property
    def blocks(self) -> bool:
        """Whether messages wait in lanes."""
        return bool(self.lanes)

    @property
    def behind(self) -> bool:
        """Whether messages wait in lanes."""
        return bool(self.lanes)

    def drain_before_queues(self, *, now_us: Instant) -> None:
        """Send what goes before the queues; late messages only in their share, unless no queue waits."""
        if self.lanes:
            self._drain(now_us)

    def drain_after_queues(self, *, now_us: Instant) -> None:
        """Send what was late, if the queues are empty now."""
        if self.lanes:
            self._drain(now_us)

    def _drain(self, now_us: Instant) -> None:
        delivery = self._session.delivery
        self.lanes.passed(delivery.sent - self._sent_before)
        while (
            not delivery.blocked
            and (entry := self.lanes.head(others_wait=bool(delivery.waiting))) is not None
        ):
            subscription, event = entry.subscription, entry.event
            if not delivery.exchange.outgoing.room and delivery.wants_window(subscription, event):
                break
            self.lanes.take()
            subscription.laned -= 1
            subscription.direct += 1
            self._session.send_waiting(subscription, event, entry.place, now_us)
        self._sent_before = delivery.sent

    def offer(
        self, subscription: Subscription, event: Event, place: int, flow: Assigned, *, now_us: Instant
    ) -> bool:
        """Put a message of a flow into a lane; return False if it belongs in the subscription's queue."""
        taken = self.lanes.put(
            Entry(subscription, event, place),
            (id(subscription), flow.flow.key),
            flow.flow,
            flow.lane if flow.flow.goes_ahead_on(self.link, now_us) else Lane.BEST_EFFORT,
            oldest_us=_oldest_us(subscription),
            beside_us=subscription.beside_us,
            pick=lambda: _picked(subscription, event),
            now_us=now_us,
        )
        subscription.laned += taken
        return taken

    def flush(self, *, now_us: Instant) -> None:
        """Give all messages back to the queues of their subscriptions."""
        found = self.lanes.clear()
        for entry in found:
            entry.subscription.laned -= 1
            entry.subscription.beside_us = now_us
        for entry in found:
            self._session.delivery.requeue(entry.subscription, entry.event, entry.place, now_us=now_us)


def _picked(subscription: Subscription, event: Event) -> list[Entry]:
    """Take the events of the same flow from the queue: from now on they wait in a lane."""
    queue = subscription.queue
    if queue is None:
        return []
    found = queue.pick(lambda one: one.topic == event.topic and one.sender == event.sender)
    subscription.laned += len(found)
    return [Entry(subscription, one, subscription.places.pop(id(one), 0)) for one in found]


def _oldest_us(subscription: Subscription) -> Instant | None:
    """Return when the first item of the queue was queued; None if the queue is empty."""
    queue = subscription.queue
    if queue is None or not len(queue):
        return None
    return queue.oldest_us if isinstance(queue, RunQueue) else head_us(queue.head())
