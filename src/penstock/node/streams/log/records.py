"""Converts an MQTT message (`Event` with its `Message`) to the `Record` that a log stores, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.core.streams.wire import Record
from penstock.model.event import stamped
from penstock.mqtt.codes import Kind
from penstock.mqtt.fields import decode_varint
from penstock.mqtt.packets.fanout import properties_of
from penstock.mqtt.packets.properties import NONE, encode_properties
from penstock.node.broker.message import Message, event_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.event import Event
    from penstock.mqtt.packets.properties import Properties


def record_of(event: Event, *, origin: str = "", number: int = 0) -> Record:
    """What is logged of a publication that was read as a whole."""
    message: Message = event.carried
    properties = message.properties
    return Record(
        event.topic,
        event.payload,
        event.ts_us,
        event.sender,
        event.seq,
        message.qos,
        message.retain,
        b"" if properties is NONE else encode_properties(properties, Kind.PUBLISH, packet="PUBLISH"),
        message.expires_us,
        origin,
        number,
    )


def event_from(record: Record, *, read: Callable[[bytes], Properties] = properties_of) -> Event:
    """The publication that was logged; `read` decodes properties (as `Broker.properties`)."""
    raw = record.properties
    properties = NONE
    if raw:
        length, at = decode_varint(raw, 0, where="record's properties")
        properties = read(raw[at : at + length])
    return event_of(
        Message(record.topic.encode(), record.qos, record.retain, properties, record.expires_us),
        record.payload,
        topic=record.topic,
        now_us=record.ts_us,
        sender=record.sender,
        seq=record.seq,
    )


def stamped_event(event: Event, stream: str, tick: int) -> Event:
    """The same with its place in a stream."""
    user = stamped(event.properties, stream, tick)
    message = replace(event.carried, properties=replace(event.carried.properties, user=user))
    return replace(event, properties=user, carried=message)
