"""Snapshots of notifications for the API, the node's status and metrics.

Always: taken = sent + digested + waiting + forgotten.
"""

from __future__ import annotations

from typing import Any

import msgspec


class OutboxStatistics(msgspec.Struct, frozen=True):
    """Numbers of changes in all queues of the outbox together."""

    taken: int
    """Changes accepted for subscribers, including those that waited when the node started."""
    sent: int
    """Changes sent one by one."""
    digested: int
    """Changes sent as part of a digest."""
    waiting: int
    """Changes not sent yet, one by one or in digests."""
    forgotten: int
    """Changes whose subscription ended before they were sent."""
    subscribers: int
    """Subscribers for whom something waits."""

    @property
    def conserved(self) -> bool:
        """Whether every change is accounted for."""
        return self.taken == self.sent + self.digested + self.waiting + self.forgotten


class NotifyFigures(OutboxStatistics, frozen=True):
    """The part of the node's status about notifications."""

    failing: int
    """Subscribers that could not be reached at the last attempt."""


class NotifyStatus(OutboxStatistics, frozen=True):
    """Answer of the API about notifications, with the state of each transport."""

    fault: str
    """Why the outbox cannot be written to disk; empty if it can."""
    sending: dict[str, Any]
    transports: dict[str, dict[str, Any]]


class NotifySubscriber(msgspec.Struct, frozen=True):
    """Somebody who is told of the changes of a page."""

    who: str
    """Address with its kind in front, as webhook:https://example.org/hook."""
    url: str
    policy: str
    """Policy for changes that wait; empty: none."""
    paused: bool
    since_us: int


class NotifySubscribers(msgspec.Struct, frozen=True):
    """A page of the subscriptions of people and programs, by subscriber."""

    total: int
    offset: int
    subscribers: tuple[NotifySubscriber, ...]
    kinds: tuple[str, ...]
    """Kinds of subscribers that this node can tell: webhook, xmpp, apprise, feed."""


class WebhookKey(msgspec.Struct, frozen=True):
    """Key by which the receiver of a webhook checks signatures."""

    target: str
    key: str


class FeedAddress(msgspec.Struct, frozen=True):
    """URL of a feed; whoever knows it can read the feed."""

    url: str
