"""A publication: the event that queues hold, what MQTT adds to it, and the retained message of each topic.

Retained messages are bounded in number and bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, final

from msgspec.structs import replace

from penstock import limits
from penstock.model.digest_wire import (
    COMPACT_MARK,
    COMPACT_TYPE,
    JSON_MARK,
    JSON_TYPE,
    digest_in,
    to_message,
)
from penstock.model.event import Event, unstamped
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.fanout import NO_PROPERTIES, assemble, forwarded, frame_qos0, head, properties_of
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.trees import RetainedTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.slots.lanes import Assigned
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant
    from penstock.mqtt.sessions.identifiers import AliasesOut

LONGEST_S: Final = 0xFFFF_FFFF
"""The longest expiry MQTT can say; more is left if the clock of the publisher's node is ahead."""


@final
class Message(Event, frozen=True, gc=False, eq=False):
    """An event with what MQTT says beyond it. Plain QoS 0 messages of a run are an `Event` and no more.

    A subclass and no second object: every message that is not part of a run is one of these. It is final,
    so `type(event) is Message` is enough; `isinstance` takes several times as long for structs.
    """

    topic_bytes: bytes = b""
    """The topic as it is sent."""
    qos: int = 0
    retain: bool = False
    """The retain flag of the publisher."""
    mqtt: Properties = NONE
    """MQTT properties as they came; alias and subscription identifiers are each connection's own."""
    expires_us: int = 0
    """When the message expires; 0: never."""
    flow: Assigned | None = None
    """Flow and lane, if the message is part of a flow with reserved slots."""


def message_of(  # noqa: PLR0913 (each is a part of the message)
    topic: str,
    payload: bytes,
    *,
    topic_bytes: bytes,
    now_us: Instant,
    sender: str = "",
    seq: int = 0,
    qos: int = 0,
    retain: bool = False,
    properties: Properties = NONE,
    expires_us: int = 0,
    flow: Assigned | None = None,
) -> Message:
    """A publication with these MQTT properties; its user properties and content type are the event's."""
    return Message(
        topic,
        payload,
        now_us,
        sender,
        seq,
        properties.user,
        properties.content_type or "",
        None,
        None,
        None,
        0 if properties is NONE else properties_bytes(properties),
        topic_bytes,
        qos,
        retain,
        properties,
        expires_us,
        flow,
    )


class StoredMessage(Protocol):
    """The parts of a message as a store or another node has them, but for its MQTT properties."""

    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def ts_us(self) -> Instant: ...
    @property
    def sender(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def qos(self) -> int: ...
    @property
    def retain(self) -> bool: ...
    @property
    def expires_us(self) -> int: ...


def restored(stored: StoredMessage, properties: Properties) -> Message:
    """Make the message again that was stored, or sent by another node."""
    return message_of(
        stored.topic,
        stored.payload,
        topic_bytes=stored.topic.encode(),
        now_us=stored.ts_us,
        sender=stored.sender,
        seq=stored.seq,
        qos=stored.qos,
        retain=stored.retain,
        properties=properties,
        expires_us=stored.expires_us,
    )


def properties_bytes(properties: Properties) -> int:
    """Approximate bytes that properties take in memory."""
    return (
        64
        + sum(len(name) + len(value) + 64 for name, value in properties.user)
        + len(properties.correlation_data or b"")
        + len(properties.response_topic or "")
        + len(properties.content_type or "")
    )


def unstamped_properties(properties: Properties) -> Properties:
    """A publisher's properties without a stamp: where a message is in a stream, only a node says."""
    user = unstamped(properties.user)
    return properties if user is properties.user else replace(properties, user=user)


class PropertySets:
    """Reads the properties of PUBLISH packets; those that repeat are decoded once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Properties] = {}

    def read(self, raw: bytes) -> Properties:
        """The properties of one packet."""
        found = self._known.get(raw)
        if found is None:
            found = unstamped_properties(properties_of(raw))
            if len(raw) <= limits.PROPERTY_BYTES:
                if len(self._known) >= limits.PROPERTY_SETS:
                    self._known.clear()
                self._known[raw] = found
        return found


def expiry_of(properties: Properties, now_us: Instant) -> int:
    """When a message with these properties expires; 0: never."""
    expiry_s = properties.message_expiry_s
    return 0 if expiry_s is None else now_us + expiry_s * 1_000_000


def expired(event: Event, now_us: Instant) -> bool:
    """Whether a message has outlived its expiry."""
    return type(event) is Message and 0 < event.expires_us <= now_us


def qos_of(event: Event) -> int:
    """The QoS that an event was published with."""
    return event.qos if type(event) is Message else 0


def unstamped_message(message: Message) -> Message:
    """A retained message as it was published: its place in a stream tells the subscriber nothing."""
    user = unstamped(message.properties)
    if user is message.properties:
        return message
    properties = replace(message.mqtt, user=user)
    return replace(message, properties=user, mqtt=NONE if properties == NONE else properties)


def frame_of(  # noqa: PLR0913 (each is a part of the packet)
    event: Event,
    *,
    version: int,
    now_us: Instant,
    packet_id: int = 0,
    qos: int = 0,
    retain: bool = False,
    dup: bool = False,
    subscription_ids: tuple[int, ...] = (),
    aliases: AliasesOut | None = None,
) -> bytes:
    """The PUBLISH for one receiver."""
    message = event if type(event) is Message else None
    topic = event.topic.encode() if message is None else message.topic_bytes
    if version == V5:
        alias = None
        if aliases is not None:
            topic, alias = aliases.shorten(topic)
        properties = NONE if message is None else message.mqtt
        if properties is NONE and not subscription_ids and alias is None:
            tail = NO_PROPERTIES + event.payload
        else:
            left_s = None
            if message is not None and message.expires_us:
                left_s = min(max(0, -((now_us - message.expires_us) // 1_000_000)), LONGEST_S)
            tail = (
                forwarded(
                    properties, subscription_ids=subscription_ids, message_expiry_s=left_s, topic_alias=alias
                )
                + event.payload
            )
    else:
        tail = event.payload
    if not qos:
        return frame_qos0(topic, tail, retain=retain)
    return assemble(head(topic, len(tail), qos=qos, retain=retain, dup=dup), packet_id, tail)


def with_json_digest(event: Event) -> Event:
    """A publication with a publisher's compact digest in it as JSON; any other as it is."""
    if type(event) is not Message or COMPACT_MARK not in event.properties:
        return event
    digest = digest_in(event)
    if digest is None:
        return event
    told = to_message(digest, filter_=event.topic, compact=False)
    user = tuple(JSON_MARK if pair == COMPACT_MARK else pair for pair in event.properties)
    mqtt = replace(event.mqtt, payload_format_indicator=1, content_type=JSON_TYPE, user=user)
    return replace(
        event, payload=told.payload, properties=user, content_type=JSON_TYPE, mqtt=mqtt, root=None, cells=None
    )


def digest_message(
    digest: Digest, *, topic: str, filter_: str, compact: bool, qos: int, now_us: Instant
) -> Message:
    """A digest as a publication, in the compact form or as JSON, marked by a user property."""
    told = to_message(digest, filter_=filter_, compact=compact)
    return message_of(
        topic,
        told.payload,
        topic_bytes=topic.encode(),
        now_us=now_us,
        seq=digest.seq_last,
        qos=qos,
        properties=_COMPACT_PROPERTIES if told.mark == COMPACT_MARK else _JSON_PROPERTIES,
    )


_COMPACT_PROPERTIES: Final = Properties(content_type=COMPACT_TYPE, user=(COMPACT_MARK,))
_JSON_PROPERTIES: Final = Properties(payload_format_indicator=1, content_type=JSON_TYPE, user=(JSON_MARK,))


class Retained:
    """The retained message of each topic."""

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.bytes = 0
        """Bytes of all payloads and topics."""
        self._tree: RetainedTree[Message] = RetainedTree()

    def __len__(self) -> int:
        """Number of topics with a retained message."""
        return len(self._tree)

    def keep(self, event: Message) -> bool:
        """Keep a message as its topic's last one, or forget the topic's if it is empty; False: no room."""
        before = self._tree.get(event.topic)
        if not event.payload:
            self.forget(event.topic)
            return True
        freed = before.size if before is not None else 0
        if (before is None and len(self._tree) >= self.most) or (
            self.bytes + event.size - freed > self.most_bytes
        ):
            return False
        self._tree.set(event.topic, event)
        self.bytes += event.size - freed
        return True

    def forget(self, topic: str) -> bool:
        """Delete the message of a topic; returns whether there was one."""
        before = self._tree.discard(topic)
        if before is not None:
            self.bytes -= before.size
        return before is not None

    def get(self, topic: str, *, now_us: Instant) -> Message | None:
        """A topic's message, unless it has expired."""
        event = self._tree.get(topic)
        if event is not None and expired(event, now_us):
            self.forget(topic)
            return None
        return event

    def topics(self, filter_: str) -> list[str]:
        """Topics with a message that a filter (not a shared one) matches."""
        return [topic for topic, _ in self._tree.match(filter_)]

    def all(self) -> Iterator[Message]:
        """Every message; do not change them meanwhile."""
        for filter_ in ("#", "$SYS/#"):
            for _, event in self._tree.match(filter_):
                yield event
