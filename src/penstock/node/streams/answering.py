"""Messages of a client that wait until a stream acknowledges them, and the answers then.

Answers go out in the order in which messages came (MQTT 4.6), so those of other messages wait behind them.
"""

from __future__ import annotations

from functools import partial
from struct import pack
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock.errors import MqttError
from penstock.mqtt.kinds import V5
from penstock.mqtt.properties import Properties
from penstock.node.streams.owed import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.node.connection import Connection
    from penstock.node.journal import Journal
    from penstock.node.session import Session

_PUBACK: Final = 0x4002
_PUBREC: Final = 0x5002
"""How the acknowledgements begin, whose packet identifier is all that follows."""


class Answering:
    """Messages that came together, in order. The session may go on over another connection meanwhile."""

    __slots__ = (
        "_adopted",
        "_at",
        "_batch",
        "_connection",
        "_free",
        "_journal",
        "_packet_ids",
        "_qos",
        "_session",
    )

    def __init__(
        self,
        session: Session,
        connection: Connection,
        packet_ids: Sequence[int],
        *,
        qos: int,
        size: int,
        journal: Journal | None,
    ) -> None:
        """`journal`: what it holds now must be on disk, too, before the client is told."""
        self._qos = qos
        self._session = session
        self._connection = connection
        self._packet_ids = packet_ids
        self._journal = journal
        self._at = 0
        """So many are answered."""
        self._free = 0
        """So many may be."""
        self._adopted: set[int] = set()
        """Packet identifiers of QoS 1 that came again over another connection."""
        self._batch = Batch(connection, len(packet_ids), size)

    def begin(self) -> None:
        """They are taken."""
        self._batch.begin()
        self._session.unanswered.append(self)

    def adopt(self, packet_id: int) -> bool:
        """A QoS 1 message came again: whether it is one of these, and will be answered with them."""
        if self._qos != 1 or packet_id not in self._packet_ids[self._at :]:
            return False
        self._adopted.add(packet_id)
        return True

    def released(self, count: int) -> None:
        """So many more may be acknowledged."""
        self._batch.released(count)
        journal = self._journal
        if journal is not None and journal.behind:
            journal.hold(partial(self._allow, count), behind=True)
        else:
            self._allow(count)

    def _allow(self, count: int) -> None:
        self._free += count
        queue = self._session.unanswered
        while queue and queue[0].send():
            queue.popleft()

    def send(self) -> bool:
        """Answer those that may be; whether these are all."""
        if self._free > self._at:
            packet_ids = self._packet_ids[self._at : self._free]
            self._at = self._free
            self._answer(packet_ids)
        return self._at == len(self._packet_ids)

    def _answer(self, packet_ids: Sequence[int]) -> None:
        session = self._session
        incoming = session.exchange.incoming
        link = session.link
        if link is not self._connection:  # what did not come again, the client will send again
            packet_ids = [
                packet_id
                for packet_id in packet_ids
                if (self._qos == 2 or packet_id in self._adopted)
                and self._settle_later(packet_id)
                and link is not None
            ]
        elif self._qos == 1:
            incoming.answer_many(packet_ids)
        else:
            packet_ids = [packet_id for packet_id in packet_ids if incoming.settle(packet_id)]
        if packet_ids and link is not None:
            start = _PUBACK if self._qos == 1 else _PUBREC
            words = [word for packet_id in packet_ids for word in (start, packet_id)]
            link.write(pack(f">{len(words)}H", *words))

    def _settle_later(self, packet_id: int) -> bool:
        """The same over another connection, or none; whether that one has brought the message again."""
        incoming = self._session.exchange.incoming
        again = incoming.came_again(packet_id)
        if self._qos == 2 or again:
            incoming.settle(packet_id)
        return again


class Later:
    """Another answer, whose turn comes."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer

    def adopt(self, packet_id: int) -> bool:  # noqa: ARG002
        """See Answering: no."""
        return False

    def send(self) -> bool:
        """See Answering."""
        self._answer()
        return True


def in_turn(session: Session, answer: Callable[[], None]) -> None:
    """Answer a message, behind those whose answers wait."""
    if session.unanswered:
        session.unanswered.append(Later(answer))
    else:
        answer()


def refuse(connection: Connection, session: Session, packet_id: int, *, reason: int, why: str) -> None:
    """Answer that a message is not taken; MqttError, which ends the connection, if MQTT has no word for it.

    An MQTT 3.1.1 acknowledgement could only say that the message is safe.
    """
    if session.version != V5:
        raise MqttError(why, where="PUBLISH", reason=reason)
    in_turn(session, partial(_refuse, connection, session, packet_id, reason, why))


def _refuse(connection: Connection, session: Session, packet_id: int, reason: int, why: str) -> None:
    incoming = session.exchange.incoming
    again = incoming.came_again(packet_id)
    if not incoming.owes(packet_id):
        return
    ack = incoming.answer(packet_id, reason=reason)
    link = session.link
    if link is not None and (link is connection or again):
        link.send(replace(ack, properties=Properties(reason_string=why[:1024])))
