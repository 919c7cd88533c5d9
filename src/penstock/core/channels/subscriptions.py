"""Interfaces between channels and notifications: a subscription, the channel API, the notifier.

Chat, webhooks, feeds and the dashboard call a `ChannelApi`; channels hand changes of subscribers to a
`Notifier`. Neither side imports the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.model.instant import Instant  # noqa: TC001  # msgspec reads annotations at run time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.delta import Delta


@dataclass(frozen=True, slots=True)
class ChannelSubscription:
    """One subscription to a channel."""

    who: str
    """Address with its kind in front: xmpp:ann@example.org, webhook:https://…, apprise:…, feed:ann."""
    url: str
    """Canonical URL."""
    policy: str = ""
    """Name of a registered policy, or its text; empty: none."""
    paused: bool = False
    since_us: Instant = 0


class ChannelApi(Protocol):
    """Channels as their subscribers use them; every refusal is a ChannelError with a sentence."""

    async def subscribe(self, who: str, url: str, *, policy: str = "") -> str:
        """Subscribe; returns a confirmation sentence. The URL may be in any spelling."""
        ...

    async def unsubscribe(self, who: str, url: str) -> str:
        """Unsubscribe; returns a confirmation sentence."""
        ...

    async def pause(self, who: str, url: str | None, *, paused: bool) -> str:
        """Pause or resume one subscription, or all; changes meanwhile are delivered as one digest."""
        ...

    def subscriptions(self, who: str | None = None) -> Sequence[ChannelSubscription]:
        """Subscriptions of one subscriber, or all."""
        ...

    def subscribers(self, url: str) -> Sequence[ChannelSubscription]:
        """Subscriptions of one channel."""
        ...

    def why(self, url: str) -> str:
        """Why the channel is polled when it is, in sentences."""
        ...

    def deltas(self, url: str, *, most: int = 20) -> Sequence[Delta]:
        """The newest deltas of a channel, newest first."""
        ...


class Notifier(Protocol):
    """Receiver of the channels' changes."""

    def check(self, who: str) -> str:
        """Canonical form of a subscriber; ChannelError if no configured transport can reach it."""
        ...

    def notify(
        self, subscribed: ChannelSubscription, delta: Delta, *, now_us: Instant, again: bool = False
    ) -> None:
        """Queue a delta for one subscriber; the queue is bounded, and sent when the subscriber can be
        reached.

        `again`: the delta may have been queued before a restart; one that still waits is not queued twice.
        """
        ...

    async def flush(self) -> None:
        """Wait until everything passed to `notify` so far is on disk."""
        ...

    def resumed(self, who: str, url: str) -> None:
        """A subscription was resumed: changes during the pause may be sent as one digest."""
        ...

    def forget(self, who: str, url: str) -> None:
        """A subscription ended: send nothing more for it."""
        ...
