"""The sending half of a client: messages go to the connection, or wait for it in a bounded buffer.

Without a policy nothing is dropped: `publish` waits when the buffer is full, `publish_nowait` raises an
error. With a policy the buffer packs, and a digest is sent in place of the dropped messages.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock.client.buffer import Buffer
from penstock.client.statistics import SendStatistics
from penstock.core.queues import PackingQueue, QueueOptions
from penstock.errors import MqttError, PublishRefused, printable
from penstock.model.digest import Digest
from penstock.model.digest_wire import to_message
from penstock.model.event import Event
from penstock.mqtt.codes import Reason, explained
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Puback, Publish, Pubrec

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.errors import ClientError
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.packet import Packet
    from penstock.mqtt.sessions.client import ClientSession, Settled
    from penstock.policy.columns import Plan

SEVERAL: Final = "*"
"""Stands in a digest's topic for levels in which the topics of its events differ."""


@dataclass(frozen=True, slots=True)
class Published:
    """Result of `Client.publish`.

        answer = await client.publish("ward/1", "71", qos=1)
        print(answer.reason == 0x10)  # no subscribers

    With QoS 0 there is no answer, and the reason is 0.
    """

    reason: int = Reason.SUCCESS
    """The node's reason code: 0, or 0x10 if the topic has no subscribers."""
    digested: bool = False
    """Whether the client's policy dropped it; it is counted in a digest."""


class QueuedMessage:
    """A message to be sent, and the call that waits for its answer."""

    __slots__ = ("done", "expires_us", "packet")

    def __init__(self, packet: Publish, done: asyncio.Future[Published] | None, expires_us: Instant) -> None:
        self.packet = packet
        self.done = done
        self.expires_us = expires_us
        """When the message expires; 0: never."""

    def answer(self, found: Published | Exception) -> None:
        """Pass the answer to the waiting call."""
        if self.done is None or self.done.done():
            return
        if isinstance(found, Published):
            self.done.set_result(found)
        else:
            self.done.set_exception(found)


class WaitingEvent(Event, frozen=True, gc=False, eq=False, kw_only=True):
    """A message in the send buffer, as the policy sees it."""

    waiting: QueuedMessage


class Sender:
    """Sends what a client publishes."""

    def __init__(self, session: ClientSession, *, options: QueueOptions, plan: Plan | None) -> None:
        self._session = session
        self._options = options
        self._packs = plan is not None
        self._buffer: Buffer[QueuedMessage] = Buffer(PackingQueue(plan, options))
        self._connection: Connection | None = None
        self._flying: dict[int, QueuedMessage | None] = {}
        """QoS 1 and 2 messages without an answer, by packet identifier; None for a digest."""
        self._queue_for_room: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._topic = ""
        """Topic that the waiting events have in common, with `*` where they differ."""
        self._qos = 0
        """Highest QoS of the waiting messages."""
        self._draining = False
        self._published = self._sent = self._digested = self._packs_before = 0
        self._expired = self._early = self._abandoned = 0
        self._acknowledged = self._refused = 0

    def pack_by(self, plan: Plan | None) -> None:
        """Pack what waits by another policy from now on; None: the buffer takes no more than it holds."""
        self._packs = plan is not None
        self._packs_before += self._buffer.queue.statistics().packs
        now_us = _now_us()
        for each in self._buffer.use(PackingQueue(plan, self._options), now_us=now_us):
            each.answer(Published(digested=True))

    # -- from the program ------------------------------------------------------------------------------------

    def offer(self, packet: Publish, done: asyncio.Future[Published] | None) -> bool:
        """Send a message or put it into the send buffer; return False if the buffer is full.

        Raises MqttError if the node does not accept such messages.
        """
        connection = self._connection
        if connection is not None and not len(self._buffer) and self._takes(connection, packet):
            self._published += 1
            self._send(connection, QueuedMessage(packet, done, 0))
            return True
        if not self._packs and not self._has_room(packet):
            return False
        self._published += 1
        self._wait(packet, done)
        return True

    def _takes(self, connection: Connection, packet: Publish) -> bool:
        return not connection.blocked and (not packet.qos or self._session.room > 0)

    def _has_room(self, packet: Publish) -> bool:
        held = len(self._buffer)
        size = self._buffer.queue.bytes + len(packet.payload) + len(packet.topic)
        options = self._options
        return not held or (held < options.capacity_events and size <= options.capacity_bytes)

    def _wait(self, packet: Publish, done: asyncio.Future[Published] | None) -> None:
        now_us = _now_us()
        expiry_s = packet.properties.message_expiry_s
        if not len(self._buffer):
            self._topic, self._qos = packet.topic, packet.qos
        else:
            self._topic, self._qos = common_topic(self._topic, packet.topic), max(self._qos, packet.qos)
        waiting = QueuedMessage(packet, done, 0 if expiry_s is None else now_us + expiry_s * 1_000_000)
        event = WaitingEvent(
            packet.topic,
            packet.payload,
            now_us,
            seq=self._published,
            properties=packet.properties.user,
            content_type=packet.properties.content_type or "",
            waiting=waiting,
        )
        for each in self._buffer.offer(event, waiting, now_us=now_us):
            each.answer(Published(digested=True))

    @property
    def behind(self) -> bool:
        """Whether the send buffer holds messages."""
        return len(self._buffer) > 0

    def room(self) -> asyncio.Future[None]:
        """Return a future that is done when the send buffer may have room."""
        turn = asyncio.get_running_loop().create_future()
        self._queue_for_room.append(turn)
        return turn

    def idle(self) -> asyncio.Future[None]:
        """Return a future that is done when nothing waits to be sent or acknowledged."""
        turn = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        self._tell()
        return turn

    # -- to the node -----------------------------------------------------------------------------------------

    def attach(self, connection: Connection, again: list[Packet]) -> None:
        """Use a new connection: send again what the session needs, then what waits."""
        self._connection = connection
        for packet in again:
            self.send_again(packet)
        self.drain()

    def detach(self) -> None:
        """Forget the connection, which is lost."""
        self._connection = None

    def send_again(self, packet: Packet) -> None:
        """Send a packet of the session: an acknowledgement, or a message again."""
        assert self._connection is not None
        try:
            self._connection.send(packet)
        except MqttError as error:  # the node accepts less than before the reconnect
            assert isinstance(packet, Publish)
            self._withdraw(packet.packet_id, packet.qos, error)

    def drain(self) -> None:
        """Send waiting messages until the connection is full."""
        connection = self._connection
        if connection is None or self._draining:
            return
        self._draining = True
        try:
            while self._connection is connection and self._next_fits(connection):
                found = self._buffer.take()
                assert found is not None
                item, waiting = found
                if isinstance(item, Digest):
                    self._send_digest(connection, item)
                else:
                    assert waiting is not None
                    self._send_late(connection, waiting)
        finally:
            self._draining = False
        self._tell()

    def _next_fits(self, connection: Connection) -> bool:
        head = self._buffer.queue.head()
        if head is None or connection.blocked:
            return False
        qos = head.waiting.packet.qos if isinstance(head, WaitingEvent) else self._qos
        return not qos or self._session.room > 0

    def _send_late(self, connection: Connection, waiting: QueuedMessage) -> None:
        """Return a message that has waited, with what is left of its expiry time."""
        if waiting.expires_us:
            left_us = waiting.expires_us - _now_us()
            if left_us <= 0:
                self._expired += 1
                waiting.answer(PublishRefused("expired before it could be sent", reason=Reason.UNSPECIFIED))
                return
            packet = waiting.packet
            properties = replace(packet.properties, message_expiry_s=-(-left_us // 1_000_000))
            waiting.packet = replace(packet, properties=properties)
        try:
            self._send(connection, waiting)
        except MqttError as error:
            waiting.answer(error)

    def _send_digest(self, connection: Connection, digest: Digest) -> None:
        """Send a digest; leave out its attributes if it is too large for the node."""
        for shown in (digest, replace(digest, attributes=())):
            told = to_message(shown, filter_=self._topic, compact=True)
            properties = Properties(
                payload_format_indicator=1 if told.is_text else None,
                content_type=told.content_type,
                user=(told.mark,),
            )
            packet = self._session.publish(
                Publish(self._topic, told.payload, qos=self._qos, properties=properties)
            )
            try:
                connection.send(packet)
            except MqttError as error:
                if packet.qos:
                    self._withdraw(packet.packet_id, packet.qos, error)
                continue
            self._digested += digest.count
            if packet.qos:
                self._flying[packet.packet_id] = None
            return
        self._early += digest.count

    def _send(self, connection: Connection, waiting: QueuedMessage) -> None:
        packet = self._session.publish(waiting.packet)
        try:
            connection.send(packet)
        except MqttError as error:
            self._early += 1
            if packet.qos:
                self._withdraw(packet.packet_id, packet.qos, error)
            raise
        self._sent += 1
        if packet.qos:
            self._flying[packet.packet_id] = waiting
        else:
            waiting.answer(Published())

    def _withdraw(self, packet_id: int, qos: int, error: MqttError) -> None:
        """Release the identifier of a message that cannot be sent."""
        ack = Puback(packet_id) if qos == 1 else Pubrec(packet_id, Reason.UNSPECIFIED)
        self._session.receive(ack)
        waiting = self._flying.pop(packet_id, None)
        if waiting is not None:
            self._refused += 1
            waiting.answer(error)

    def settled(self, found: Settled) -> None:
        """Handle the answer of the node to a message."""
        waiting = self._flying.pop(found.packet_id, None)
        if waiting is None:
            return
        if found.reason < Reason.UNSPECIFIED:
            self._acknowledged += 1
            waiting.answer(Published(found.reason))
        else:
            self._refused += 1
            waiting.answer(
                PublishRefused(
                    f"'{waiting.packet.topic}': {explained(found.reason)}"
                    f"{f', {printable(found.words)}' if found.words else ''}",
                    reason=found.reason,
                )
            )

    def _tell(self) -> None:
        """Wake calls that wait for room, and those that wait until all is sent."""
        free = self._options.capacity_events - len(self._buffer)
        while self._queue_for_room and free > 0:
            turn = self._queue_for_room.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
        if not len(self._buffer) and not self._flying:
            for each in self._idle:
                if not each.done():
                    each.set_result(None)
            self._idle.clear()

    def abandon(self, error: ClientError) -> None:
        """Fail all waiting calls: nothing more will be sent."""
        self._connection = None
        before, owed = self._buffer.clear()
        self._abandoned += before.queued + before.queued_digested
        for waiting in [*owed, *self._flying.values()]:
            if waiting is not None:
                waiting.answer(error)
        for turn in [*self._queue_for_room, *self._idle]:
            if not turn.done():
                turn.set_result(None)
        self._queue_for_room.clear()
        self._idle.clear()

    # -- what can be known -----------------------------------------------------------------------------------

    def statistics(self) -> SendStatistics:
        """Return the counts of what was published."""
        queue = self._buffer.queue.statistics()
        return SendStatistics(
            published=self._published,
            sent=self._sent,
            digested=self._digested,
            waiting=queue.queued + queue.queued_digested,
            expired=self._expired,
            refused_early=self._early,
            abandoned=self._abandoned,
            acknowledged=self._acknowledged,
            refused=self._refused,
            in_flight=sum(each is not None for each in self._flying.values()),
            packs=self._packs_before + queue.packs,
        )


def common_topic(one: str, other: str) -> str:
    """Merge two topics: `*` where levels differ, and for the rest where one has more levels."""
    if one == other:
        return one
    levels, others = one.split("/"), other.split("/")
    if len(levels) == len(others):
        return "/".join(a if a == b else SEVERAL for a, b in zip(levels, others, strict=True))
    shared: list[str] = []
    for a, b in zip(levels, others, strict=False):
        if a != b:
            break
        shared.append(a)
    return "/".join([*shared, SEVERAL])


def _now_us() -> Instant:
    return time.time_ns() // 1_000
