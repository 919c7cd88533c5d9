"""The lanes of a session: messages of served flows that wait ahead of or behind the queues of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.slots.lanes import Lanes
from penstock.node.broker.runs import RunQueue
from penstock.node.broker.subscription import head_us

if TYPE_CHECKING:
    from penstock.core.slots.flows import Flow
    from penstock.core.slots.lanes import Lane
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Assigned:
    """A message's flow and lane; travels with the message."""

    flow: Flow
    lane: Lane


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that waits in a lane."""

    subscription: Subscription
    event: Event
    place: int
    """In the journal; 0: it is not there."""


class SessionLanes(Lanes[Entry]):
    """Of one receiver; a message in them counts as queued at its subscription."""

    def add(
        self, subscription: Subscription, event: Event, place: int, assigned: Assigned, *, now_us: Instant
    ) -> bool:
        """Take a message; False: it belongs in the subscription's queue."""
        taken = self.put(
            Entry(subscription, event, place),
            (id(subscription), assigned.flow.key),
            assigned.flow,
            assigned.lane,
            oldest_us=_oldest_us(subscription),
            beside_us=subscription.beside_us,
            pick=lambda: _picked(subscription, event),
            now_us=now_us,
        )
        subscription.laned += taken
        return taken

    def flush(self, *, now_us: Instant) -> list[Entry]:
        """Take all that waits; its owner queues it."""
        found = self.clear()
        for entry in found:
            entry.subscription.laned -= 1
            entry.subscription.beside_us = now_us
        return found


def _picked(subscription: Subscription, event: Event) -> list[Entry]:
    """What the queue holds of the same flow; from now on it waits in a lane."""
    queue = subscription.queue
    if queue is None:
        return []
    found = queue.pick(lambda one: one.topic == event.topic and one.sender == event.sender)
    subscription.laned += len(found)
    return [Entry(subscription, one, subscription.places.pop(id(one), 0)) for one in found]


def _oldest_us(subscription: Subscription) -> Instant | None:
    """Since when the first item of the queue waits."""
    queue = subscription.queue
    if queue is None or not len(queue):
        return None
    return queue.oldest_us if isinstance(queue, RunQueue) else head_us(queue.head())
