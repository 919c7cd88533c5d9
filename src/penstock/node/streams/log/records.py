"""Converts an MQTT message (`Message`) to the `Record` that a log stores, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.core.streams.wire import Record
from penstock.model.event import stamped
from penstock.mqtt.codes import Kind
from penstock.mqtt.fields import decode_varint
from penstock.mqtt.packets.fanout import properties_of
from penstock.mqtt.packets.properties import NONE, encode_properties
from penstock.node.broker.message import message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.mqtt.packets.properties import Properties
    from penstock.node.broker.message import Message


def record_of(message: Message, *, origin: str = "", number: int = 0) -> Record:
    """The record of a message; `origin` and `number` identify it if its publisher may send it again."""
    properties = message.mqtt
    return Record(
        message.topic,
        message.payload,
        message.ts_us,
        message.sender,
        message.seq,
        message.qos,
        message.retain,
        b"" if properties is NONE else encode_properties(properties, Kind.PUBLISH, packet="PUBLISH"),
        message.expires_us,
        origin,
        number,
    )


def message_from(record: Record, *, read: Callable[[bytes], Properties] = properties_of) -> Message:
    """The message of a record; `read` decodes MQTT properties (for example `Broker.properties`)."""
    raw = record.properties
    properties = NONE
    if raw:
        length, at = decode_varint(raw, 0, where="record's properties")
        properties = read(raw[at : at + length])
    return message_of(
        record.topic,
        record.payload,
        topic_bytes=record.topic.encode(),
        now_us=record.ts_us,
        sender=record.sender,
        seq=record.seq,
        qos=record.qos,
        retain=record.retain,
        properties=properties,
        expires_us=record.expires_us,
    )


def stamped_message(message: Message, stream: str, tick: int) -> Message:
    """The message with its stream and tick among its user properties."""
    user = stamped(message.properties, stream, tick)
    return replace(message, properties=user, mqtt=replace(message.mqtt, user=user))
