"""The bytes in the rows of the store: sessions, messages and digests, encoded and decoded."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from penstock.errors import DigestError, StoreError
from penstock.model.digest import Digest
from penstock.model.digest_wire import from_bytes, to_bytes
from penstock.mqtt.packets.connect import Will  # noqa: TC001  # msgspec reads annotations at run time
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.subscribe import Subscription as Options  # noqa: TC001
from penstock.node.broker.message import Message, restored

if TYPE_CHECKING:
    from penstock.model.event import Event


RETAINED: Final = 1 << 16
"""Added to the packet identifier of a message that was sent with RETAIN."""


class MessageState(IntEnum):
    """Stages of the delivery of a session's message."""

    QUEUED = 0
    SENT_QOS1 = 1
    SENT_QOS2 = 2
    RELEASED = 3
    """The client has the message (QoS 2); its PUBCOMP has not come."""
    DIGEST = 4
    """A queued digest, not a message."""


class SubscriptionFacts(msgspec.Struct, frozen=True, array_like=True):
    """A subscription as the client asked for it."""

    options: Options
    subscription_id: int = 0
    policy: str = ""
    """The policy as the client wrote it; empty: none."""
    content: str = ""
    """The content filter as the client wrote it; empty: none."""
    digests: Literal["", "on", "off", "compact", "json"] = ""
    """Whether and in which form the client asked for digests; empty: it did not say."""
    fresh_us: int = 0
    """Time that no event should wait longer, as the client asked; 0: it did not."""


class SessionFacts(msgspec.Struct, frozen=True, array_like=True):
    """A session without its messages."""

    user: str
    version: int
    expiry_s: int
    detached_us: int
    """When the connection ended; 0: the client was connected when this was written."""
    published: int
    will: Will | None
    subscriptions: tuple[SubscriptionFacts, ...]
    born_us: int = 0


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """A message as it is stored."""

    topic: str
    payload: bytes
    ts_us: int
    sender: str
    seq: int
    qos: int = 0
    retain: bool = False
    expires_us: int = 0
    properties: Properties | None = None


_encoder = msgspec.msgpack.Encoder()
_session = msgspec.msgpack.Decoder(SessionFacts)
_body = msgspec.msgpack.Decoder(_Body)


def session_bytes(facts: SessionFacts) -> bytes:
    """Encode a session."""
    return _encoder.encode(facts)


def session_facts(data: bytes) -> SessionFacts:
    """Decode a session; StoreError if the bytes are damaged."""
    try:
        return _session.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"a damaged session: {error}", "store") from None


def event_bytes(event: Event) -> bytes:
    """Encode a message."""
    if type(event) is not Message:
        return _encoder.encode(_Body(event.topic, event.payload, event.ts_us, event.sender, event.seq))
    return _encoder.encode(
        _Body(
            event.topic,
            event.payload,
            event.ts_us,
            event.sender,
            event.seq,
            event.qos,
            event.retain,
            event.expires_us,
            None if event.mqtt is NONE else event.mqtt,
        )
    )


def message_from(data: bytes) -> Message:
    """Decode a message; StoreError if the bytes are damaged."""
    body = _body_from(data)
    return restored(body, body.properties or NONE)


def stored_qos(data: bytes) -> int:
    """The QoS of a message, of which nothing else is needed; StoreError if the bytes are damaged."""
    return _body_from(data).qos


def _body_from(data: bytes) -> _Body:
    try:
        return _body.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"a damaged message: {error}", "store") from None


def item_bytes(item: Event | Digest) -> bytes:
    """Encode a message or a digest."""
    return to_bytes(item) if isinstance(item, Digest) else event_bytes(item)


def digest_from(data: bytes) -> Digest:
    """Decode a digest; StoreError if the bytes are damaged."""
    try:
        return from_bytes(data)
    except DigestError as error:
        raise StoreError(str(error), "store") from None
