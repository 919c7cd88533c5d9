"""Messages received with QoS 1 and 2 until they are settled: what is new, and how many there may be.

A QoS 2 message is handed on when its PUBLISH arrives and its identifier kept until PUBREL (method A of figure
4-3), so a repeated PUBLISH is recognised, also over a new connection. The answer may be given later, when the
message is on disk.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.acks import Ack, Puback, Pubcomp, Pubrec
from penstock.mqtt.packet_ids import MOST
from penstock.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Arrival(Enum):
    """What to do with a PUBLISH of QoS 1 or 2."""

    NEW = "hand it on, then answer"
    AGAIN = "it was handed on and answered: answer again"
    PENDING = "it was handed on, its answer is still to come: do nothing"


class Incoming:
    """One direction of a session; lives longer than a connection."""

    __slots__ = ("_current", "_first", "_second", "maximum")

    def __init__(self, *, maximum: int = MOST) -> None:
        self.maximum = maximum
        """Our receive maximum: how many may be unsettled on one connection."""
        self._first: dict[int, None] = {}
        """QoS 1 messages not answered yet."""
        self._second: dict[int, bool] = {}
        """QoS 2 messages not released yet, and whether they were answered."""
        self._current: set[int] = set()
        """Those of QoS 2 that came over this connection: only they count (section 4.9)."""

    @property
    def in_flight(self) -> int:
        """Messages of this connection that are not settled."""
        return len(self._first) + len(self._current)

    def arrive(self, packet_id: int, *, qos: int) -> Arrival:
        """A PUBLISH has come."""
        if packet_id in self._second or packet_id in self._first:
            return self._repeated(packet_id, qos)
        if len(self._first) + len(self._current) >= self.maximum:
            raise MqttError(
                f"{self.in_flight} messages wait for their answers; at most {self.maximum} may",
                where="PUBLISH",
                reason=Reason.RECEIVE_MAXIMUM_EXCEEDED,
            )
        if qos == 1:
            self._first[packet_id] = None
        else:
            self._second[packet_id] = False
            self._current.add(packet_id)
        return Arrival.NEW

    def arrive_many(self, packet_ids: Sequence[int]) -> bool:
        """QoS 1 messages have come, all of them new and not too many; False: look at each."""
        first = self._first
        before = len(first)
        if before + len(packet_ids) + len(self._current) > self.maximum:
            return False
        if self._second and not self._second.keys().isdisjoint(packet_ids):
            return False
        if not first.keys().isdisjoint(packet_ids):
            return False
        first.update(dict.fromkeys(packet_ids))
        if len(first) == before + len(packet_ids):
            return True
        for packet_id in packet_ids:  # one stood there twice
            first.pop(packet_id, None)
        return False

    def answer_many(self, packet_ids: Iterable[int]) -> None:
        """The PUBACKs of messages that came by `arrive_many`, or by `arrive` with QoS 1, are sent."""
        for packet_id in packet_ids:
            self._first.pop(packet_id, None)

    def owes(self, packet_id: int) -> bool:
        """Whether a message is not settled: a sender may release it before it is answered."""
        return packet_id in self._first or packet_id in self._second

    def settle(self, packet_id: int) -> bool:
        """The answer to a message is sent, or as good as sent; False: nobody waits for it any more."""
        if packet_id in self._second:
            self._second[packet_id] = True
            return True
        if packet_id in self._first:
            del self._first[packet_id]
            return True
        return False

    def came_again(self, packet_id: int) -> bool:
        """Whether this connection has brought a message that is not settled."""
        return packet_id in self._current or packet_id in self._first

    def add_received(self, packet_ids: Iterable[int]) -> None:
        """QoS 2 messages were handed on and are safe, as somebody else has kept in mind."""
        self._second.update(dict.fromkeys(packet_ids, True))

    def _repeated(self, packet_id: int, qos: int) -> Arrival:
        if qos == 2 and packet_id in self._second:
            self._current.add(packet_id)
            return Arrival.AGAIN if self._second[packet_id] else Arrival.PENDING
        if qos == 1 and packet_id in self._first:
            return Arrival.PENDING
        raise ProtocolError(
            f"packet {packet_id} is in use with another QoS", where="PUBLISH packet identifier"
        )

    def answer(self, packet_id: int, *, reason: int = Reason.SUCCESS) -> Ack:
        """The PUBACK or PUBREC of a message that `arrive` called NEW or AGAIN."""
        if packet_id in self._first:
            del self._first[packet_id]
            return Puback(packet_id, reason)
        assert packet_id in self._second, f"packet {packet_id} did not arrive"
        if reason >= Reason.UNSPECIFIED:
            del self._second[packet_id]
            self._current.discard(packet_id)
        else:
            self._second[packet_id] = True
        return Pubrec(packet_id, reason)

    def pubrel(self, packet_id: int) -> Pubcomp:
        """The sender releases a QoS 2 message; the answer."""
        self._current.discard(packet_id)
        known = self._second.pop(packet_id, None)
        return Pubcomp(packet_id, Reason.SUCCESS if known is not None else Reason.PACKET_ID_NOT_FOUND)

    def resume(self) -> None:
        """The session goes on over a new connection: QoS 1 messages not answered will come again."""
        self._first.clear()
        self._current.clear()

    def received(self) -> list[int]:
        """Identifiers of QoS 2 messages handed on and not released, in order; to be kept."""
        return list(self._second)

    def restore(self, received: Iterable[int]) -> None:
        """Put back what `received` gave before a restart: those messages are safe, so they are answered."""
        assert not self._second, "only into an empty one"
        self._second = dict.fromkeys(received, True)
