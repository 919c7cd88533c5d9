"""All channels of the node and their subscribers, within the bounds and host rules of the operator.

Channels without subscribers are remembered for a while and then forgotten. Host rules are about names;
`outbound.guard` checks the addresses that names resolve to.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from yarl import URL

from penstock import limits
from penstock.core.channels.address import topic_of
from penstock.errors import BadAddress, ChannelError, ChannelRefused, ChannelsFull, MqttError
from penstock.model.instant import SECOND_US
from penstock.mqtt.topics import check_topic
from penstock.node.channels.channel import Channel, ChannelFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.channels.subscriptions import ChannelSubscription
    from penstock.model.instant import Instant
    from penstock.node.config.channels import ChannelSettings


class HostRules:
    """The operator's lists of allowed and denied hosts."""

    def __init__(self, settings: ChannelSettings) -> None:
        self._allow = tuple(map(_spelled, settings.allow_hosts))
        self._deny = tuple(map(_spelled, settings.deny_hosts))

    def check(self, url: str) -> None:
        """Raise ChannelRefused if no request may be sent to the host of a canonical URL."""
        host = URL(url, encoded=True).raw_host or ""
        if any(_fits(host, pattern) for pattern in self._deny):
            raise ChannelRefused(
                f"{host} is not fetched by this node: its operator refuses the host (channels.deny_hosts)"
            )
        if self._allow and not any(_fits(host, pattern) for pattern in self._allow):
            raise ChannelRefused(
                f"{host} is not fetched by this node: its operator allows other hosts only "
                "(channels.allow_hosts)"
            )


def _spelled(pattern: str) -> str:
    """Spell a pattern like the hosts of canonical URLs: lower case, ASCII, short IPv6."""
    star, host = ("*.", pattern[2:]) if pattern.startswith("*.") else ("", pattern)
    with suppress(ValueError):
        host = URL.build(scheme="http", host=host.rstrip(".")).raw_host or host
    return star + host.lower()


def _fits(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) or host == pattern[2:]
    return host == pattern


MQTT_KIND = "mqtt:"
"""Prefix of an MQTT client's name as a subscriber, like the kind of other subscribers."""


class ChannelRegistry:
    """All channels by canonical URL. It does no I/O: the caller stores what changed."""

    def __init__(self, settings: ChannelSettings, hosts: HostRules) -> None:
        self._settings = settings
        self._hosts = hosts
        self._channels: dict[str, Channel] = {}
        self._of: dict[str, dict[str, None]] = {}
        """Channels of each subscriber, MQTT clients included."""
        self.subscriptions = 0

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels.values())

    def get(self, url: str) -> Channel | None:
        """Return the channel of a canonical URL, or None."""
        return self._channels.get(url)

    def known(self, url: str) -> Channel:
        """Return the channel of a canonical URL; ChannelError if there is none."""
        found = self._channels.get(url)
        if found is None:
            raise ChannelError(f"{url} is no channel of this node: subscribe to it, or add it")
        return found

    def of(self, who: str) -> list[Channel]:
        """Return the channels of a subscriber."""
        return [self._channels[url] for url in self._of.get(who, ())]

    # -- checks ----------------------------------------------------------------------------------------

    def check(self, url: str) -> None:
        """Raise ChannelError if a page cannot be, or may not be, a channel of this node."""
        self._hosts.check(url)
        try:
            check_topic(topic_of(url))
        except MqttError as error:
            raise BadAddress(url, f"its topic would have {error.problem}") from None
        if (
            url not in self._channels
            and len(self._channels) - self._idle_count() >= self._settings.max_channels
        ):
            raise ChannelsFull(
                f"this node watches {self._settings.max_channels} pages already (channels.max_channels); "
                "it can take another when one is given up"
            )

    def check_subscriber(self, who: str, url: str) -> None:
        """Raise ChannelError if a subscriber may not subscribe to a page."""
        self.check(url)
        own = self._of.get(who, {})
        if url in own:
            return
        if len(own) >= self._settings.max_per_subscriber:
            raise ChannelsFull(f"you have {len(own)} channels, which is the most; unsubscribe from one first")
        if self.subscriptions >= self._settings.max_subscriptions:
            raise ChannelsFull(f"this node has {self.subscriptions} subscriptions, which is the most")

    def _idle_count(self) -> int:
        if len(self._channels) < self._settings.max_channels:
            return 0
        return sum(not each.wanted for each in self._channels.values())

    # -- changes ---------------------------------------------------------------------------------------

    def restore(self, url: str, known: ChannelFacts) -> None:
        """Add a channel that was stored before a restart."""
        self._channels[url] = Channel(url, known)

    def add(self, url: str, *, now_us: Instant) -> Channel:
        """Return the channel of a page, made if there is none. The caller has checked the URL."""
        found = self._channels.get(url)
        if found is None:
            found = self._channels[url] = Channel(url, ChannelFacts(since_us=now_us))
        found.known.idle_us = 0
        return found

    def remove(self, url: str) -> None:
        """Remove a channel and its subscriptions."""
        channel = self._channels.pop(url)
        for who in (*channel.people, *(MQTT_KIND + name for name in channel.clients)):
            self._unlink(who, url)
        channel.people.clear()
        channel.clients.clear()
        channel.known.kept = False

    def subscribe(self, subscribed: ChannelSubscription, *, now_us: Instant) -> Channel:
        """Add a subscription, or replace it."""
        channel = self.add(subscribed.url, now_us=now_us)
        channel.people[subscribed.who] = subscribed
        self._link(subscribed.who, subscribed.url)
        return channel

    def unsubscribe(self, who: str, url: str, *, now_us: Instant) -> Channel | None:
        """End a subscription; return its channel, or None if there was no such subscription."""
        channel = self._channels.get(url)
        if channel is None or channel.people.pop(who, None) is None:
            return None
        self._unlink(who, url)
        self._look(channel, now_us)
        return channel

    def client_began(self, client_id: str, url: str, *, now_us: Instant) -> Channel:
        """Count one filter of an MQTT client for a page."""
        channel = self.add(url, now_us=now_us)
        channel.clients[client_id] = channel.clients.get(client_id, 0) + 1
        self._link(MQTT_KIND + client_id, url)
        return channel

    def client_ended(self, client_id: str, url: str, *, now_us: Instant) -> Channel | None:
        """Count one filter less; return the channel if that was the client's last one."""
        channel = self._channels.get(url)
        left = channel.clients.get(client_id, 0) - 1 if channel is not None else -1
        if channel is None or left < 0:
            return None
        if left:
            channel.clients[client_id] = left
            return None
        del channel.clients[client_id]
        self._unlink(MQTT_KIND + client_id, url)
        self._look(channel, now_us)
        return channel

    def _look(self, channel: Channel, now_us: Instant) -> None:
        if not channel.wanted and not channel.known.idle_us:
            channel.known.idle_us = now_us

    def settle(self, *, now_us: Instant) -> None:
        """Find out, after a restart, which channels nobody has subscribed to again."""
        for channel in self._channels.values():
            self._look(channel, now_us)

    def forgettable(self, *, now_us: Instant) -> list[str]:
        """Return channels without subscribers for long, or the oldest ones if there are too many."""
        before_us = now_us - limits.CHANNEL_IDLE_S * SECOND_US
        idle = sorted((each.known.idle_us, each.url) for each in self if not each.wanted)
        over = len(self._channels) - self._settings.max_channels
        return [url for place, (idle_us, url) in enumerate(idle) if idle_us <= before_us or place < over]

    def _link(self, who: str, url: str) -> None:
        own = self._of.setdefault(who, {})
        self.subscriptions += url not in own
        own[url] = None

    def _unlink(self, who: str, url: str) -> None:
        own = self._of[who]
        del own[url]
        self.subscriptions -= 1
        if not own:
            del self._of[who]
