"""What the API says about telling people and programs."""

from __future__ import annotations

from typing import Any

import msgspec


class TellingStatus(msgspec.Struct, frozen=True):
    """taken = told + digested + waiting + forgotten, always."""

    taken: int
    """Changes accepted for subscribers, those of an earlier run that still waited included."""
    told: int
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
    doors: dict[str, dict[str, Any]]


class WebhookKey(msgspec.Struct, frozen=True):
    """What a receiver of webhooks checks signatures with."""

    target: str
    key: str


class FeedAddress(msgspec.Struct, frozen=True):
    """Whoever knows it can read the feed."""

    url: str
