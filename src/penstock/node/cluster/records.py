"""Messages as they cross a link between nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.cluster.frames import Carried, encode_item
from penstock.errors import ClusterError, MqttError
from penstock.model.event import Event
from penstock.mqtt.fields import decode_varint
from penstock.mqtt.packets.fanout import forwarded
from penstock.mqtt.packets.properties import NONE
from penstock.mqtt.topics import check_topic
from penstock.node.broker.message import Message, message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.cluster.stamps import Stamp
    from penstock.mqtt.packets.properties import Properties


def item_of(event: Event, number: int, *, stamp: Stamp | None = None, kept_only: bool = False) -> bytes:
    """A message as an item of a frame."""
    if type(event) is not Message:
        return encode_item(Carried(number, event.topic, event.payload, event.ts_us, event.sender, event.seq))
    return encode_item(
        Carried(
            number,
            event.topic,
            event.payload,
            event.ts_us,
            event.sender,
            event.seq,
            event.qos,
            event.retain,
            b"" if event.mqtt is NONE else _packed(event.mqtt),
            event.expires_us,
            None if stamp is None else (stamp.at_us, stamp.origin, stamp.number),
            kept_only,
        )
    )


def _packed(properties: Properties) -> bytes:
    """Properties without their length in front."""
    packed = forwarded(properties)
    return packed[decode_varint(packed, 0, where="properties")[1] :]


def event_from(item: Carried, read: Callable[[bytes], Properties]) -> Event:
    """A message of another node; ClusterError if it cannot be one. `read` decodes MQTT properties."""
    try:
        check_topic(item.topic, where="topic")
        if not item.qos and not item.retain and not item.properties:
            return Event(item.topic, item.payload, item.ts_us, item.sender, item.seq)
        properties = read(item.properties) if item.properties else NONE
    except MqttError as error:
        raise ClusterError(f"a message that MQTT does not allow: {error}") from None
    return message_of(
        item.topic,
        item.payload,
        topic_bytes=item.topic.encode(),
        now_us=item.ts_us,
        sender=item.sender,
        seq=item.seq,
        qos=item.qos,
        retain=item.retain,
        properties=properties,
        expires_us=item.expires_us,
    )
