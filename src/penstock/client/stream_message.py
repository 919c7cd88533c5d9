"""A message of a stream as a program sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.streams import record
from penstock.mqtt.kinds import Kind
from penstock.mqtt.properties import NONE, decode_properties
from penstock.mqtt.reader import Reader

if TYPE_CHECKING:
    from penstock.mqtt.properties import Properties


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One message; by stream and tick it is known for ever."""

    stream: str
    tick: int
    topic: str
    payload: bytes
    ts_us: int
    """When the node accepted it, or what its writer gave."""
    sender: str = ""
    """Client id of its publisher, or name of its writer."""
    seq: int = 0
    """The publisher's count."""
    qos: int = 1
    content_type: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """User properties, in order."""


def message_of(stream: str, tick: int, body: bytes) -> StreamMessage:
    """The message that a record is; StreamError if it is none."""
    found = record.decode(body)
    more = properties_of(found.properties)
    return StreamMessage(
        stream,
        tick,
        found.topic,
        found.payload,
        found.ts_us,
        found.sender,
        found.seq,
        found.qos,
        more.content_type or "",
        more.user,
    )


def properties_of(data: bytes) -> Properties:
    """The MQTT 5 properties of a record."""
    return decode_properties(Reader(data, packet="record"), Kind.PUBLISH) if data else NONE
