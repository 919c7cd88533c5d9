"""Makes a PUBLISH packet of what a program publishes; raises an error for what no node would accept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import InputError
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.topics import check_topic

if TYPE_CHECKING:
    from collections.abc import Mapping


def message(  # noqa: PLR0913  # each is a part of the message
    topic: str,
    payload: bytes | str,
    *,
    qos: int,
    retain: bool,
    properties: Mapping[str, str] | None,
    content_type: str | None,
    expiry_s: int | None,
    response_topic: str | None = None,
    correlation_data: bytes | None = None,
) -> Publish:
    """Make the packet, without an identifier; raises InputError or MqttError for a wrong argument."""
    if qos not in (0, 1, 2) or not isinstance(qos, int):
        raise InputError(f"qos is {qos}; it is 0, 1 or 2")
    if expiry_s is not None and not 0 <= expiry_s <= 0xFFFF_FFFF:
        raise InputError(f"expiry_s is {expiry_s}; from 0 to 4,294,967,295 seconds")
    check_topic(topic, where="topic")
    if not isinstance(payload, bytes | str):
        raise InputError(f"a payload is bytes or a text, found {type(payload).__name__}; encode it first")
    if response_topic is not None:
        check_topic(response_topic, where="response_topic")
    if properties and len(properties) > limits.MQTT_USER_PROPERTIES:
        raise InputError(f"{len(properties)} properties; at most {limits.MQTT_USER_PROPERTIES} are allowed")
    if properties and not all(isinstance(part, str) for pair in properties.items() for part in pair):
        raise InputError("names and values of properties are texts")
    found = NONE
    if properties or content_type or expiry_s is not None or response_topic or correlation_data:
        found = Properties(
            user=tuple((properties or {}).items()),
            content_type=content_type,
            message_expiry_s=expiry_s,
            response_topic=response_topic,
            correlation_data=correlation_data,
        )
    data = payload.encode() if isinstance(payload, str) else payload
    return Publish(topic, data, qos=qos, retain=retain, properties=found)
