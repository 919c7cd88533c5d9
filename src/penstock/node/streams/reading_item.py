"""A message of a stream on its way to sessions: decoded once, and encoded once for all who get the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.streams.record import decode
from penstock.errors import MqttError, StreamError
from penstock.mqtt.fanout import forwarded, frame_qos0, head, properties_of
from penstock.mqtt.kinds import V5
from penstock.mqtt.properties import user_properties
from penstock.node.streams.carried import event_from, stamped_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.mqtt.properties import Properties
    from penstock.node.message import Message


class Item:
    """One message."""

    __slots__ = ("_frames", "event", "message", "record", "tick")

    def __init__(
        self, stream: str, tick: int, body: bytes, *, read: Callable[[bytes], Properties] = properties_of
    ) -> None:
        """StreamError if this is no message."""
        self.tick = tick
        record = self.record = decode(body)
        if not 0 <= record.qos <= 2:
            raise StreamError(f"a record of QoS {record.qos}")
        try:
            event = event_from(record, read=read)
        except MqttError as error:
            raise StreamError(f"the properties of a record cannot be read: {error}") from None
        self.event = stamped_event(event, stream, tick)
        self.message: Message = self.event.carried
        self._frames: dict[tuple[int, int, bool], tuple[bytes, bytes]] = {}

    @property
    def shareable(self) -> bool:
        """Whether those who want nothing particular get the same bytes; what expires is told how soon."""
        return not self.message.expires_us

    def frame(self, *, version: int, qos: int, retain: bool) -> tuple[bytes, bytes]:
        """What stands before and behind the packet identifier; with QoS 0 the first is everything."""
        found = self._frames.get((version, qos, retain))
        if found is None:
            payload, topic = self.record.payload, self.message.topic
            tail = self._properties() + payload if version == V5 else payload
            if qos:
                found = head(topic, len(tail), qos=qos, retain=retain), tail
            else:
                found = frame_qos0(topic, tail, retain=retain), b""
            self._frames[version, qos, retain] = found
        return found

    def _properties(self) -> bytes:
        properties = self.message.properties
        # Most messages come without any, and then there are only those of the stream.
        return forwarded(properties) if self.record.properties else user_properties(properties.user)
