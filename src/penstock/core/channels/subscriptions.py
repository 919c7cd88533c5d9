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
    """One subscription of somebody."""

    who: str
    """Address with its kind in front: xmpp:ann@example.org, webhook:https://…, apprise:…, feed:ann."""
    url: str
    """Canonical."""
    policy: str = ""
    """Name of a registered policy, or its text; empty: none."""
    paused: bool = False
    since_us: Instant = 0


class ChannelApi(Protocol):
    """Channels, as seen by who subscribes to them; every refusal is a ChannelError with a sentence."""

    async def subscribe(self, who: str, url: str, *, policy: str = "") -> str:
        """Subscribe and return a sentence that says so; the URL may be in any spelling."""
        ...

    async def unsubscribe(self, who: str, url: str) -> str:
        """End a subscription and return a sentence."""
        ...

    async def pause(self, who: str, url: str | None, *, paused: bool) -> str:
        """Hold or resume one subscription, or all of them; what changes meanwhile is told by one digest."""
        ...

    def subscriptions(self, who: str | None = None) -> Sequence[ChannelSubscription]:
        """Of one subscriber, or all."""
        ...

    def subscribers(self, url: str) -> Sequence[ChannelSubscription]:
        """Of one channel."""
        ...

    def why(self, url: str) -> str:
        """Why the channel is polled when it is, in sentences."""
        ...

    def deltas(self, url: str, *, most: int = 20) -> Sequence[Delta]:
        """The newest deltas of a channel, newest first."""
        ...


class Notifier(Protocol):
    """Where the channels send what changed."""

    def check(self, who: str) -> str:
        """A subscriber in its one spelling; ChannelError if nobody of that name can be told."""
        ...

    def tell(
        self, subscribed: ChannelSubscription, delta: Delta, *, now_us: Instant, again: bool = False
    ) -> None:
        """Take a delta for one subscriber; it is queued, bounded, and sent when they can be reached.

        `again`: it may have been taken before a restart; what still waits is not taken twice.
        """
        ...

    async def safe(self) -> None:
        """Return when everything told so far is on disk."""
        ...

    def released(self, who: str, url: str) -> None:
        """A subscription is paused no more: what came meanwhile may be told by one digest."""
        ...

    def forget(self, who: str, url: str) -> None:
        """A subscription ended: nothing of it is sent any more."""
        ...
