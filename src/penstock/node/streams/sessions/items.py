"""A message of a stream on its way to sessions, and the subscriptions of a session that it is for.

A message is decoded once, and encoded once for all sessions that get the same frame. Subscriptions of a
session with different filters share one copy (on ordinary topics each gets its own). So each tick is sent to
a session only once, and the client can acknowledge a message, and recognise a repeated one, by its tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.core.streams.wire import decode_record
from penstock.errors import MqttError, StreamError
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.fanout import forwarded, frame_qos0, head, properties_of
from penstock.mqtt.packets.properties import user_properties
from penstock.node.streams.log.records import message_from, stamped_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.model.instant import Instant
    from penstock.mqtt.packets.properties import Properties
    from penstock.node.broker.subscription import Subscription


class StreamItem:
    """One message of a stream, decoded."""

    __slots__ = ("_frames", "event", "record", "tick")

    def __init__(
        self, stream: str, tick: int, body: bytes, *, read: Callable[[bytes], Properties] = properties_of
    ) -> None:
        """Decode a message; StreamError if that is not possible. `read` decodes MQTT properties."""
        self.tick = tick
        record = self.record = decode_record(body)
        if not 0 <= record.qos <= 2:
            raise StreamError(f"record with QoS {record.qos}")
        try:
            message = message_from(record, read=read)
        except MqttError as error:
            raise StreamError(f"properties of the record cannot be decoded: {error}") from None
        self.event = stamped_message(message, stream, tick)
        self._frames: dict[tuple[int, int, bool], tuple[bytes, bytes]] = {}

    @property
    def shareable(self) -> bool:
        """Whether sessions can get the same bytes. A message that expires carries the remaining time."""
        return not self.event.expires_us

    def frame(self, *, version: int, qos: int, retain: bool) -> tuple[bytes, bytes]:
        """The PUBLISH packet before and behind the packet identifier; QoS 0: all of it, and nothing."""
        found = self._frames.get((version, qos, retain))
        if found is None:
            payload, topic = self.record.payload, self.event.topic_bytes
            tail = self._properties() + payload if version == V5 else payload
            if qos:
                found = head(topic, len(tail), qos=qos, retain=retain), tail
            else:
                found = frame_qos0(topic, tail, retain=retain), b""
            self._frames[version, qos, retain] = found
        return found

    def _properties(self) -> bytes:
        properties = self.event.mqtt
        # Most publishers send no properties; then there are only the user properties of the stream.
        return forwarded(properties) if self.record.properties else user_properties(properties.user)


class Choice(NamedTuple):
    """The copy of a message that a session gets: its subscription, QoS and subscription identifiers."""

    subscription: Subscription
    """The subscription with the highest QoS."""
    qos: int
    ids: tuple[int, ...]
    """Subscription identifiers of all subscriptions that the message is for."""


def chosen(subscriptions: Sequence[Subscription]) -> Choice | None:
    """One copy for all of these subscriptions; None if there are none."""
    if not subscriptions:
        return None
    first = max(subscriptions, key=lambda one: one.options.qos)
    if len(subscriptions) == 1:
        return Choice(first, first.options.qos, first.ids)
    ids = tuple(dict.fromkeys(number for one in subscriptions for number in one.ids))
    return Choice(first, first.options.qos, ids)


def plain(subscriptions: Sequence[Subscription]) -> bool:
    """Whether the topic alone decides if a message is for these subscriptions."""
    return not any(one.content is not None or one.options.no_local for one in subscriptions)


def choose(
    subscriptions: Sequence[Subscription], item: StreamItem, starts: Mapping[str, int], *, now_us: Instant
) -> Choice | None:
    """The copy of a message for those subscriptions to its topic that want it; None if none does.

    `starts` has the tick at which each subscription begins, by filter.
    """
    never = item.tick + 1
    wanting = [
        one
        for one in subscriptions
        if starts.get(one.filter, never) <= item.tick
        and not (one.options.no_local and item.record.sender == one.client_id)
        and (one.content is None or one.content.wants(item.event, now_us=now_us))
    ]
    return chosen(wanting)
