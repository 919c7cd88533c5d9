"""What the store's rows mean: sessions, messages and digests to bytes and back."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import DigestError, StoreError
from penstock.model.digest import Digest
from penstock.model.digest_wire import from_bytes, to_bytes
from penstock.mqtt.packets.connect import Will  # noqa: TC001  # msgspec reads annotations at run time
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.subscribe import Subscription as Options  # noqa: TC001
from penstock.node.broker.message import Message, message_of

if TYPE_CHECKING:
    from penstock.model.event import Event


class MessageState(IntEnum):
    """Where a message of a session stands."""

    QUEUED = 0
    SENT_QOS1 = 1
    SENT_QOS2 = 2
    RELEASED = 3
    """The client has it, its PUBCOMP is missing."""
    DIGEST = 4
    """No message but a digest, queued."""


class SubscriptionFacts(msgspec.Struct, frozen=True, array_like=True):
    """A subscription as it was asked for."""

    options: Options
    subscription_id: int = 0
    policy: str = ""
    """As the client wrote it."""
    content: str = ""
    """Its content filter, the same."""


class SessionFacts(msgspec.Struct, frozen=True, array_like=True):
    """A session apart from its messages."""

    user: str
    version: int
    expiry_s: int
    detached_us: int
    """0: it was attached when this was written."""
    published: int
    will: Will | None
    subscriptions: tuple[SubscriptionFacts, ...]
    born_us: int = 0


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """A message."""

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
    """A session's facts as they are stored."""
    return _encoder.encode(facts)


def session_facts(data: bytes) -> SessionFacts:
    """The same, read."""
    try:
        return _session.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"a damaged session: {error}", "store") from None


def event_bytes(event: Event) -> bytes:
    """A message."""
    if not isinstance(event, Message):
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
    """The same, read."""
    try:
        body = _body.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"a damaged message: {error}", "store") from None
    return message_of(
        body.topic,
        body.payload,
        topic_bytes=body.topic.encode(),
        now_us=body.ts_us,
        sender=body.sender,
        seq=body.seq,
        qos=body.qos,
        retain=body.retain,
        properties=body.properties or NONE,
        expires_us=body.expires_us,
    )


def item_bytes(item: Event | Digest) -> bytes:
    """A message or a digest."""
    return to_bytes(item) if isinstance(item, Digest) else event_bytes(item)


def digest_from(data: bytes) -> Digest:
    """A digest, read."""
    try:
        return from_bytes(data)
    except DigestError as error:
        raise StoreError(str(error), "store") from None
