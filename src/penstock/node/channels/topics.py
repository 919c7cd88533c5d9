"""MQTT clients as subscribers of channels: a subscription to `web/<url>` is a subscription to that page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.core.channels.address import TOPIC_ROOT, topic_of, url_of
from penstock.errors import BadAddress
from penstock.mqtt.topics import shared_of
from penstock.node.broker.extensions import SessionListener

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.subscription import Subscription
    from penstock.node.channels.status import ChannelsStatus


class ClientSubscriptions(Protocol):
    """Where channels are kept."""

    def check_client(self, client_id: str, url: str) -> None:
        """ChannelError if the client may not subscribe to the page."""
        ...

    def client_began(self, client_id: str, url: str) -> None:
        """A client subscribed."""
        ...

    def client_ended(self, client_id: str, url: str) -> None:
        """It did, and does no more."""
        ...

    def status(self) -> ChannelsStatus:
        """All channels together."""
        ...


class ChannelTopics(SessionListener):
    """Between the broker's filters and the channels' addresses. Filters with wildcards only look on."""

    def __init__(self, wanted: ClientSubscriptions) -> None:
        self._wanted = wanted

    def check(self, client_id: str, filter_: str, asked: Mapping[str, str]) -> None:  # noqa: ARG002
        """ChannelError if a filter names a page that cannot be, or may not be, a channel."""
        topic = _topic(filter_)
        if topic is None:
            return
        url = url_of(topic)
        if topic_of(url) != topic:
            raise BadAddress(
                topic.removeprefix(TOPIC_ROOT), f"this page has its changes on the topic {topic_of(url)}"
            )
        self._wanted.check_client(client_id, url)

    def status(self) -> ChannelsStatus:
        """All channels together, at this moment."""
        return self._wanted.status()

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:  # noqa: ARG002
        """A client subscribed; nothing changes if it was subscribed to the page before."""
        if not again:
            self.began(subscription.client_id, subscription.filter)

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:
        """The client unsubscribed, or its session has ended."""
        url = _url(filter_)
        if url is not None:
            self._wanted.client_ended(session.client_id, url)

    def began(self, client_id: str, filter_: str) -> None:
        """A subscription is there, perhaps since before channels were started."""
        url = _url(filter_)
        if url is not None:
            self._wanted.client_began(client_id, url)


def _url(filter_: str) -> str | None:
    """The page of a filter; None also for one made while web channels were off, and not checked."""
    topic = _topic(filter_)
    if topic is None:
        return None
    try:
        url = url_of(topic)
    except BadAddress:
        return None
    return url if topic_of(url) == topic else None


def _topic(filter_: str) -> str | None:
    """The topic a filter stands for; None if it is not about one page."""
    topic = shared_of(filter_).filter
    if not topic.startswith(TOPIC_ROOT) or "+" in topic or "#" in topic:
        return None
    return topic
