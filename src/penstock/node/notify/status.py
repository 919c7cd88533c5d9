"""Snapshots of notifications for the API, the node's status and metrics.

Always: taken = sent + digested + waiting + forgotten.
"""

from __future__ import annotations

from typing import Any

import msgspec


class NotifyFigures(msgspec.Struct, frozen=True):
    """taken = sent + digested + waiting + forgotten, always; the numbers are changes."""

    taken: int
    """Accepted for subscribers, those of an earlier run that still waited included."""
    sent: int
    """Sent one by one."""
    digested: int
    """Counted in digests that were sent."""
    waiting: int
    """Not sent yet, one by one or in digests."""
    forgotten: int
    """Their subscription ended first."""
    subscribers: int
    """For whom something waits."""
    failing: int
    """Subscribers that could not be reached at the last attempt."""


class NotifyStatus(msgspec.Struct, frozen=True):
    """taken = sent + digested + waiting + forgotten, always."""

    taken: int
    """Changes accepted for subscribers, those of an earlier run that still waited included."""
    sent: int
    """Sent one by one."""
    digested: int
    """Counted in digests that were sent."""
    waiting: int
    forgotten: int
    """Their subscription ended first."""
    subscribers: int
    """For whom something waits."""
    fault: str
    """Why the outbox is not on disk; empty if it is."""
    sending: dict[str, Any]
    transports: dict[str, dict[str, Any]]


class WebhookKey(msgspec.Struct, frozen=True):
    """What a receiver of webhooks checks signatures with."""

    target: str
    key: str


class FeedAddress(msgspec.Struct, frozen=True):
    """Whoever knows it can read the feed."""

    url: str
