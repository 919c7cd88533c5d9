"""A session's subscriptions with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.errors import MqttError
from penstock.mqtt.reasons import Reason
from penstock.mqtt.topics import shared_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.mqtt.subscribe import Subscription


class Subscribed(NamedTuple):
    """A subscription in force."""

    options: Subscription
    subscription_id: int = 0
    """0: none was given."""


class Subscriptions:
    """By filter; subscribing again to a filter takes the place of what was there."""

    def __init__(self, *, most: int = limits.MQTT_SUBSCRIPTIONS) -> None:
        self.most = most
        self._held: dict[str, Subscribed] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._held)

    def __iter__(self) -> Iterator[Subscribed]:
        """In the order they were first made."""
        return iter(self._held.values())

    def get(self, filter_: str) -> Subscribed | None:
        """The one with this very filter."""
        return self._held.get(filter_)

    def add(self, options: Subscription, *, subscription_id: int = 0) -> bool:
        """Subscribe; whether retained messages are to be sent now."""
        known = options.filter in self._held
        if not known and len(self._held) >= self.most:
            raise MqttError(
                f"{self.most} subscriptions are held already", where="SUBSCRIBE", reason=Reason.QUOTA_EXCEEDED
            )
        self._held[options.filter] = Subscribed(options, subscription_id)
        if shared_of(options.filter).group:
            return False  # section 4.8.2
        return options.retain_handling == 0 or (options.retain_handling == 1 and not known)

    def remove(self, filter_: str) -> Subscribed | None:
        """Unsubscribe; what was there."""
        return self._held.pop(filter_, None)
