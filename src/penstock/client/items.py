"""What a PUBLISH is to a program: an event, or a digest in the place of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import DigestError
from penstock.model.digest import Digest
from penstock.model.digest_wire import DIGEST_MARK, from_message
from penstock.model.event import Event

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.publish import Publish


class ReceivedDigest(Digest, frozen=True, array_like=True):
    """A digest as a node sent it: with its topic, and all the node told."""

    topic: str = ""
    told: dict[str, Any] = {}  # noqa: RUF012  # msgspec makes a new one for each
    """The node's JSON object; distinct counts and quantiles stand there as estimates."""


def item_of(message: Publish, *, now_us: Instant, seq: int) -> Event | ReceivedDigest:
    """The item of a message; what says that it is a digest and is none, is an event.

    An event's `carried` is the message itself: its QoS, RETAIN and all its properties.
    """
    if DIGEST_MARK in message.properties.user:
        found = _digest(message)
        if found is not None:
            return found
    properties = message.properties
    return Event(
        message.topic,
        message.payload,
        now_us,
        seq=seq,
        properties=properties.user,
        content_type=properties.content_type or "",
        carried=message,
    )


def _digest(message: Publish) -> ReceivedDigest | None:
    try:
        read, told = from_message(message.payload)
    except DigestError:
        return None
    fields = {name: getattr(read, name) for name in Digest.__struct_fields__}
    return ReceivedDigest(**fields, topic=message.topic, told=told)
