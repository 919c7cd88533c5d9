"""MQTT clients as subscribers of channels: a subscription to `web/<url>` is a subscription to that page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.channels.address import TOPIC_ROOT, topic_of, url_of
from penstock.errors import BadAddress
from penstock.mqtt.topics import shared_of
from penstock.node.broker.extensions import SessionListener
from penstock.node.channels.registry import MQTT_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.model.instant import Instant
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.subscription import Subscription
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.registry import ChannelRegistry


class ChannelTopics(SessionListener):
    """Follows the subscriptions of MQTT clients. Filters with wildcards do not make the node poll a page."""

    def __init__(
        self,
        registry: ChannelRegistry,
        *,
        clock: Callable[[], Instant],
        wanted: Callable[[Channel, str, int], None],
    ) -> None:
        """`wanted` is called with a channel, a kind of subscriber, and +1 or -1: one more or one less."""
        self._registry = registry
        self._clock = clock
        self._wanted = wanted

    def check(self, client_id: str, filter_: str, asked: Mapping[str, str]) -> None:  # noqa: ARG002
        """Raise ChannelError if a filter names a page that cannot be, or may not be, a channel."""
        topic = _topic(filter_)
        if topic is None:
            return
        url = url_of(topic)
        if topic_of(url) != topic:
            raise BadAddress(
                topic.removeprefix(TOPIC_ROOT), f"this page has its changes on the topic {topic_of(url)}"
            )
        self._registry.check_subscriber(MQTT_KIND + client_id, url)

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:  # noqa: ARG002
        """Count the filter of a client, unless it was subscribed by that filter before."""
        if not again:
            self.began(subscription.client_id, subscription.filter)

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:
        """Count one filter of a client less: it unsubscribed, or its session ended."""
        url = _url(filter_)
        if url is None:
            return
        channel = self._registry.client_ended(session.client_id, url, now_us=self._clock())
        if channel is not None:
            self._wanted(channel, "mqtt", -1)

    def began(self, client_id: str, filter_: str) -> None:
        """Count the filter of a client, which may be older than the start of channels."""
        url = _url(filter_)
        if url is None:
            return
        channel = self._registry.client_began(client_id, url, now_us=self._clock())
        if channel.clients[client_id] == 1:
            self._wanted(channel, "mqtt", +1)


def _url(filter_: str) -> str | None:
    """Return the page of a filter; None if it names none (it is unchecked if channels were off)."""
    topic = _topic(filter_)
    if topic is None:
        return None
    try:
        url = url_of(topic)
    except BadAddress:
        return None
    return url if topic_of(url) == topic else None


def _topic(filter_: str) -> str | None:
    """Return the topic of a filter; None if the filter is not for one page."""
    topic = shared_of(filter_).filter
    if not topic.startswith(TOPIC_ROOT) or "+" in topic or "#" in topic:
        return None
    return topic
