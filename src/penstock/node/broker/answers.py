"""Deferred acknowledgements: PUBACK and PUBREC of messages that a stream has not stored yet, in order.

Answers go out in the order in which messages came over a connection (MQTT 4.6), so answers to other
messages wait behind deferred ones. If the session continues over another connection, a message that the
client sends again is recognised and is answered there. `Owed` stops reading from a connection that has
too many messages or bytes without acknowledgement.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from struct import pack
from typing import TYPE_CHECKING, Final, Protocol, cast

from msgspec.structs import replace

from penstock import limits
from penstock.errors import MqttError
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.properties import Properties
from penstock.node.broker.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.mqtt.sessions.exchange import Exchange
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Sent


class PublishingLink(Link, Protocol):
    """A connection, as seen by code that acknowledges its messages late."""

    owed: Owed

    def hold_reading(self) -> None:
        """Stop reading until `release_reading`."""
        ...

    def release_reading(self) -> None:
        """Release one hold on reading; resume when none is left."""
        ...


class PublishingSession(Protocol):
    """A session, as seen by code that acknowledges its client's messages late."""

    client_id: str
    published: int
    """Messages the client has published: the last one's sequence number."""
    exchange: Exchange[Sent]
    unanswered: deque[Deferred]
    """Answers that wait, in the order of their messages."""
    orphans: list[DeferredAcks]
    """Messages that wait since an earlier connection."""

    @property
    def origin(self) -> str:
        """Names this session among all of its client."""
        ...

    @property
    def link(self) -> Link | None:
        """The connection of the session; None while the client is away."""
        ...

    @property
    def version(self) -> int:
        """The version of MQTT that the session speaks."""
        ...


class Owed:
    """Slows whoever publishes without waiting for answers, by QoS 0 above all, to the pace of the stream."""

    __slots__ = ("_bytes", "_messages", "_slowed")

    def __init__(self) -> None:
        self._messages = 0
        self._bytes = 0
        self._slowed = False

    def add(self, connection: PublishingLink, messages: int, size: int) -> None:
        """Count messages that wait for their acknowledgement; stop reading if they are too many."""
        self._messages += messages
        self._bytes += size
        if not self._slowed and (
            self._messages > limits.STREAM_UNLOGGED or self._bytes > limits.STREAM_UNLOGGED_BYTES
        ):
            self._slowed = True
            connection.hold_reading()

    def settle(self, connection: PublishingLink, messages: int, size: int) -> None:
        """Count messages that may be acknowledged; read on when few enough are left."""
        self._messages -= messages
        self._bytes -= size
        if (
            self._slowed
            and self._messages <= limits.STREAM_UNLOGGED // 2
            and self._bytes <= limits.STREAM_UNLOGGED_BYTES // 2
        ):
            self._slowed = False
            connection.release_reading()


class OwedBatch:
    """Messages of one connection that are logged together, each taken for as large as the average."""

    __slots__ = ("_connection", "_each", "_messages")

    def __init__(self, connection: PublishingLink, messages: int, size: int) -> None:
        self._connection = connection
        self._messages = messages
        self._each = -(-size // messages)

    def begin(self) -> None:
        """Count the messages as waiting for their acknowledgement."""
        self._connection.owed.add(self._connection, self._messages, self._messages * self._each)

    def released(self, count: int) -> None:
        """Count messages that may be acknowledged."""
        self._connection.owed.settle(self._connection, count, count * self._each)


_PUBACK: Final = 0x4002
_PUBREC: Final = 0x5002
"""How the acknowledgements begin, whose packet identifier is all that follows."""


class Deferred(Protocol):
    """One or several answers in the queue of a session's connection."""

    def send(self) -> bool:
        """Send the answers that may be sent; returns whether none is left."""
        ...

    def orphan(self) -> None:
        """The connection is gone."""
        ...


NOTHING: Final = cast("deque[Deferred]", ())
"""Stands for the queue of a session in which no answer had to wait yet: an empty deque has 760 bytes."""


class DeferredAcks:
    """Messages that came together, in order, and are logged together."""

    __slots__ = (
        "_adopted",
        "_at",
        "_batch",
        "_free",
        "_journal",
        "_orphan",
        "_packet_ids",
        "_qos",
        "_session",
    )

    def __init__(
        self,
        session: PublishingSession,
        connection: PublishingLink,
        packet_ids: Sequence[int],
        *,
        qos: int,
        size: int,
        journal: Journal | None,
    ) -> None:
        """`journal`: what it holds now must be on disk, too, before the client is told."""
        self._session = session
        self._packet_ids = packet_ids
        self._qos = qos
        self._journal = journal
        self._at = 0
        """How many of the messages are answered."""
        self._free = 0
        """How many of the messages may be answered."""
        self._orphan = False
        self._adopted: dict[int, _Again] = {}
        self._batch = OwedBatch(connection, len(packet_ids), size)

    def begin(self) -> None:
        """Queue the acknowledgements behind those of earlier messages."""
        self._batch.begin()
        _queue(self._session).append(self)

    def released(self, count: int) -> None:
        """Acknowledge more messages, in their turn, once the journal is on disk."""
        self._batch.released(count)
        journal = self._journal
        if journal is not None and journal.behind:
            journal.hold(partial(self._allow, count), behind=True)
        else:
            self._allow(count)

    def _allow(self, count: int) -> None:
        self._free += count
        if self._orphan:
            self._hand_over()
        _flush(self._session)

    def send(self) -> bool:
        """Acknowledge the messages that may be; returns whether none is left."""
        if self._free > self._at:
            packet_ids = self._packet_ids[self._at : self._free]
            self._at = self._free
            incoming = self._session.exchange.incoming
            if self._qos == 1:
                incoming.answer_many(packet_ids)
            else:
                packet_ids = [packet_id for packet_id in packet_ids if incoming.settle(packet_id)]
            _acknowledge(self._session, self._qos, packet_ids)
        return self._at == len(self._packet_ids)

    def orphan(self) -> None:
        """The connection is gone: what may be acknowledged is handed over to where it comes again."""
        self._orphan = True
        self._session.orphans = [*self._session.orphans, self]
        self._hand_over()

    def adopt(self, packet_id: int, qos: int) -> bool:
        """A message came again over another connection: whether it is one of these, and has its turn."""
        if qos != self._qos or packet_id not in self._packet_ids[self._at :]:
            return False
        again = self._adopted[packet_id] = _Again(self._session, packet_id, qos)
        _queue(self._session).append(again)
        return True

    def _hand_over(self) -> None:
        """Note messages that may be answered as safe; answer those that came again elsewhere."""
        incoming = self._session.exchange.incoming
        for packet_id in self._packet_ids[self._at : self._free]:
            if self._qos == 2:
                incoming.settle(packet_id)
            again = self._adopted.pop(packet_id, None)
            if again is not None:
                again.ready = True
        self._at = self._free
        if self._at == len(self._packet_ids):
            self._session.orphans.remove(self)


NO_ORPHANS: Final = cast("list[DeferredAcks]", ())
"""Stands for the list of a session that has none."""


class _Again:
    """A message that came again while its acknowledgement is still held back."""

    __slots__ = ("_packet_id", "_qos", "_session", "ready")

    def __init__(self, session: PublishingSession, packet_id: int, qos: int) -> None:
        self._session = session
        self._packet_id = packet_id
        self._qos = qos
        self.ready = False

    def send(self) -> bool:
        """Acknowledge the message if that is allowed by now; returns whether it is."""
        if self.ready and self._session.exchange.incoming.settle(self._packet_id):
            _acknowledge(self._session, self._qos, (self._packet_id,))
        return self.ready

    def orphan(self) -> None:
        """Nothing to do: the message is still one of a `DeferredAcks`, or known as safe."""


class DeferredAnswer:
    """An answer that waits only for the answers before it."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer

    def send(self) -> bool:
        """Send the answer; nothing else holds it back."""
        self._answer()
        return True

    def orphan(self) -> None:
        """Answer without a connection: the session notes what was answered."""
        self._answer()


def in_turn(session: PublishingSession, answer: Callable[[], None]) -> None:
    """Answer a message, behind those whose answers wait. `answer` is called without a connection, too."""
    if session.unanswered:
        session.unanswered.append(DeferredAnswer(answer))
    else:
        answer()


def _queue(session: PublishingSession) -> deque[Deferred]:
    """The queue of answers of a session, made when the first one has to wait."""
    if session.unanswered is NOTHING:
        session.unanswered = deque()
    return session.unanswered


def adopt(session: PublishingSession, packet_id: int, qos: int) -> bool:
    """A message came again: whether it waits since an earlier connection; it is answered in its turn."""
    return any(each.adopt(packet_id, qos) for each in session.orphans)


def orphan(session: PublishingSession) -> None:
    """A session has lost its connection, and with it the order of answers."""
    while session.unanswered:
        session.unanswered.popleft().orphan()


def refuse(
    connection: PublishingLink, session: PublishingSession, packet_id: int, *, reason: int, why: str
) -> None:
    """Answer that a message is not taken; MqttError, which ends the connection, if MQTT has no word for it.

    An MQTT 3.1.1 acknowledgement could only say that the message is safe.
    """
    if session.version != V5:
        session.exchange.incoming.answer(packet_id, reason=reason)  # when it comes again, it is new
        raise MqttError(why, where="PUBLISH", reason=reason)
    in_turn(session, partial(_refuse, connection, session, packet_id, reason, why))


def _refuse(
    connection: PublishingLink, session: PublishingSession, packet_id: int, reason: int, why: str
) -> None:
    incoming = session.exchange.incoming
    if incoming.owes(packet_id):
        ack = incoming.answer(packet_id, reason=reason)
        if session.link is connection:
            connection.send(replace(ack, properties=Properties(reason_string=why[:1024])))


def _flush(session: PublishingSession) -> None:
    queue = session.unanswered
    while queue and queue[0].send():
        queue.popleft()


def _acknowledge(session: PublishingSession, qos: int, packet_ids: Sequence[int]) -> None:
    if packet_ids and session.link is not None:
        start = _PUBACK if qos == 1 else _PUBREC
        words = [word for packet_id in packet_ids for word in (start, packet_id)]
        session.link.output.write(pack(f">{len(words)}H", *words))
