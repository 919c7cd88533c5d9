"""The lanes of a session: messages of served flows that wait ahead of or behind the queues of policies.

A lane helps only as far as messages wait in the node. So while flows go to a receiver, its lanes look at what
waits for the link outside: in the transport and in the kernel. If that takes long, the session is *metered*:
every message for it waits in a queue or a lane, and no more leaves than the link takes soon.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.slots.lanes import Lane, Lanes
from penstock.node.broker.extensions import SessionSource
from penstock.node.broker.runs import RunQueue
from penstock.node.broker.subscription import head_us

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def __init__(
        self, session: Session, link: Link, *, most: int, late_share: float, clock: Callable[[], Instant]
    ) -> None:
        self.link = link
        self.lanes: Lanes[Entry] = Lanes(most=most, late_share=late_share)
        self._session = session
        self._clock = clock
        self._sent_before = 0
        """Messages the session had sent when the lanes were last drained."""
        self._used_us: Instant = 0
        """When a message of a flow came for the session."""
        self._looked_us: Instant = 0
        self._taken = self._unsent = 0
        """Bytes that the receiver had taken at the last look, and bytes that waited for the link."""
        self._scheduled = False
        """Whether the session will be drained at the end of this turn."""

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
        self.watch(now_us)
        if taken and self._session.delivery.metered is not None:
            self._soon()
        return taken

    # -- what is outside -------------------------------------------------------------------------------------

    def watch(self, now_us: Instant) -> None:
        """A message of a flow is on its way to the receiver: see how long it will wait for the link."""
        self._used_us = now_us
        since_us = now_us - self._looked_us
        delivery = self._session.delivery
        link = delivery.link
        if delivery.metered is not None or link is None or since_us < limits.FLOW_LOOK_US:
            return
        unsent, least = link.output.unsent(), limits.TIMED_FLUSH_BYTES
        taken = link.output.progress()[0] if unsent else self._taken
        slow = unsent * since_us > (taken - self._taken) * limits.FLOW_WAIT_US
        if slow and unsent > least and self._unsent > least:
            delivery.metered = self._soon
            delivery.keeping_up = False
            link.output.be_slow()
        self._looked_us, self._taken, self._unsent = now_us, taken, unsent

    def _soon(self) -> None:
        """Drain the session at the end of this turn, unless its connection is full: that will tell."""
        if not self._scheduled and not self._session.delivery.blocked:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._drain_session)

    def _drain_session(self) -> None:
        self._scheduled = False
        now_us = self._clock()
        if now_us - self._used_us > limits.FLOW_REST_US:
            self._session.delivery.metered = None
        self._session.drain(now_us=now_us)

    def lost_link(self) -> None:
        """The session has lost its connection, and the next one may be fast."""
        self._session.delivery.metered = None
        self._looked_us = self._taken = self._unsent = 0

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
