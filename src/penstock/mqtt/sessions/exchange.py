"""QoS 1 and 2 in both directions of one end of a session: messages in flight and their acknowledgements.

Outgoing: a message is *unanswered* until PUBACK or PUBREC; a QoS 2 message is then *released* (PUBREL sent)
until PUBCOMP. Both take a place in the window (section 4.9). After a new connection PUBRELs are sent again
first, being older, then unanswered messages in their order with DUP, as many at a time as the window has
places.

Incoming: a QoS 2 message is handed on when its PUBLISH arrives, and its identifier kept until PUBREL (method
A of figure 4-3), so a repeated PUBLISH is recognised, also over a new connection. The owner may acknowledge
later, when the message is on disk.

Server and client use the same `Exchange`. It knows no connection: the caller sends the returned packets, and
calls `resume` when a new connection takes over.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from penstock.errors import MqttError, ProtocolError
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.publish import Ack, Puback, Pubcomp, Pubrec, Pubrel
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID, PacketIds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class _Nothing(dict[Any, Any]):
    """Stands for a dictionary of a session until something is put into it: most sessions need none."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> None:
        raise AssertionError("it is shared by all sessions")

    update = setdefault = __setitem__  # type: ignore[assignment]


_NOTHING: Final = _Nothing()


class Arrival(Enum):
    """Tells the owner what to do with a PUBLISH of QoS 1 or 2."""

    NEW = "hand it on, then acknowledge"
    AGAIN = "handed on and acknowledged before: acknowledge again"
    PENDING = "handed on, acknowledgement still to come: do nothing"


class Incoming:
    """Messages the peer sends to us; outlives connections."""

    __slots__ = ("_current", "_first", "_second", "maximum")

    def __init__(self, *, maximum: int = MOST_PACKET_ID) -> None:
        self.maximum = maximum
        """Our receive maximum: messages that may be unsettled on one connection."""
        self._first: dict[int, None] = _NOTHING
        """QoS 1 messages without a PUBACK, as an ordered set."""
        self._second: dict[int, bool] = _NOTHING
        """QoS 2 messages without a PUBREL; True: PUBREC sent."""
        self._current: dict[int, None] = _NOTHING
        """QoS 2 messages received on this connection: only these count against the maximum (section 4.9)."""

    @property
    def in_flight(self) -> int:
        """Messages of this connection that are not settled."""
        return len(self._first) + len(self._current)

    def arrive(self, packet_id: int, *, qos: int) -> Arrival:
        """Register a PUBLISH; MqttError if it exceeds the receive maximum."""
        if packet_id in self._second or packet_id in self._first:
            return self._repeated(packet_id, qos)
        if len(self._first) + len(self._current) >= self.maximum:
            raise MqttError(
                f"{self.in_flight} messages are unacknowledged; receive maximum is {self.maximum}",
                where="PUBLISH",
                reason=Reason.RECEIVE_MAXIMUM_EXCEEDED,
            )
        if qos == 1:
            if self._first is _NOTHING:
                self._first = {}
            self._first[packet_id] = None
        else:
            if self._second is _NOTHING:
                self._second = {}
            self._second[packet_id] = False
            self._now(packet_id)
        return Arrival.NEW

    def _now(self, packet_id: int) -> None:
        if self._current is _NOTHING:
            self._current = {}
        self._current[packet_id] = None

    def arrive_many(self, packet_ids: Sequence[int]) -> bool:
        """Register QoS 1 messages at once if all are new and fit.

        False: nothing done, call `arrive` for each.
        """
        first = self._first
        before = len(first)
        if before + len(packet_ids) + len(self._current) > self.maximum:
            return False
        if self._second and not self._second.keys().isdisjoint(packet_ids):
            return False
        if not first.keys().isdisjoint(packet_ids):
            return False
        if first is _NOTHING:
            first = self._first = {}
        first.update(dict.fromkeys(packet_ids))
        if len(first) == before + len(packet_ids):
            return True
        for packet_id in packet_ids:  # an identifier occurs twice: undo
            first.pop(packet_id, None)
        return False

    def answer_many(self, packet_ids: Iterable[int]) -> None:
        """Record the PUBACKs of messages registered by `arrive_many`, or by `arrive` with QoS 1."""
        for packet_id in packet_ids:
            self._first.pop(packet_id, None)

    def owes(self, packet_id: int) -> bool:
        """Whether a message is unsettled: a sender may send PUBREL before it gets PUBREC."""
        return packet_id in self._first or packet_id in self._second

    def settle(self, packet_id: int) -> bool:
        """Record that a message is acknowledged, or about to be.

        False: it was settled or released meanwhile.
        """
        if packet_id in self._second:
            self._second[packet_id] = True
            return True
        if packet_id in self._first:
            del self._first[packet_id]
            return True
        return False

    def came_again(self, packet_id: int) -> bool:
        """Whether an unsettled message arrived on this connection."""
        return packet_id in self._current or packet_id in self._first

    def add_received(self, packet_ids: Iterable[int]) -> None:
        """Register QoS 2 messages that were handed on and stored before, as a stored session says."""
        self._second = {**self._second, **dict.fromkeys(packet_ids, True)}

    def _repeated(self, packet_id: int, qos: int) -> Arrival:
        if qos == 2 and packet_id in self._second:
            self._now(packet_id)
            return Arrival.AGAIN if self._second[packet_id] else Arrival.PENDING
        if qos == 1 and packet_id in self._first:
            return Arrival.PENDING
        raise ProtocolError(
            f"packet {packet_id} is in use with another QoS", where="PUBLISH packet identifier"
        )

    def answer(self, packet_id: int, *, reason: int = Reason.SUCCESS) -> Ack:
        """PUBACK or PUBREC of a message that `arrive` called NEW or AGAIN."""
        if packet_id in self._first:
            del self._first[packet_id]
            return Puback(packet_id, reason)
        assert packet_id in self._second, f"packet {packet_id} did not arrive"
        if reason >= Reason.UNSPECIFIED:
            del self._second[packet_id]
            self._current.pop(packet_id, None)
        else:
            self._second[packet_id] = True
        return Pubrec(packet_id, reason)

    def pubrel(self, packet_id: int) -> Pubcomp:
        """The sender releases a QoS 2 message; returns the PUBCOMP."""
        self._current.pop(packet_id, None)
        known = self._second.pop(packet_id, None)
        return Pubcomp(packet_id, Reason.SUCCESS if known is not None else Reason.PACKET_ID_NOT_FOUND)

    def resume(self) -> None:
        """Continue over a new connection: the peer sends QoS 1 messages without PUBACK again."""
        self._first.clear()
        self._current.clear()

    def received(self) -> list[int]:
        """Identifiers of QoS 2 messages handed on and not released, in order, for storage."""
        return list(self._second)

    def restore(self, received: Iterable[int]) -> None:
        """Restore what `received` returned before a restart.

        Those messages are stored, so they count as acknowledged.
        """
        assert not self._second, "restore into an empty one only"
        self._second = dict.fromkeys(received, True)


M = TypeVar("M")


class Unanswered(NamedTuple, Generic[M]):
    """A message without PUBACK or PUBREC."""

    packet_id: int
    qos: int
    message: M


class Outgoing(Generic[M]):
    """Messages we send to the peer; outlives connections."""

    __slots__ = ("_again", "_asleep", "_ids", "_released", "_second", "_unanswered", "window")

    def __init__(self, *, ids: PacketIds | None = None, window: int = MOST_PACKET_ID) -> None:
        self.window = window
        """Receive maximum of the peer, or less."""
        self._ids = PacketIds() if ids is None else ids
        self._unanswered: dict[int, M] = _NOTHING
        self._second: dict[int, None] = _NOTHING
        """Identifiers in `_unanswered` that are QoS 2."""
        self._released: dict[int, None] = _NOTHING
        self._again: deque[int] | None = None
        """Unanswered on an earlier connection and not yet sent on this one, in order."""
        self._asleep: dict[int, None] = _NOTHING
        """The identifiers of `_again` that are still unanswered."""

    # -- sending ---------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Messages that occupy a place in the window."""
        return len(self._unanswered) - len(self._asleep) + len(self._released)

    @property
    def room(self) -> int:
        """New messages that may be sent now; 0 until the old ones have been sent again."""
        if self._asleep:
            return 0
        # Held identifiers take no place in the window but are not free either.
        return max(
            0, min(self.window - len(self._unanswered) - len(self._released), MOST_PACKET_ID - len(self._ids))
        )

    @property
    def resending(self) -> bool:
        """Whether messages to send again are left that did not fit the window."""
        return bool(self._asleep)

    def send(self, message: M, *, qos: int) -> int:
        """Take a packet identifier for a message; there must be room."""
        unanswered = self._unanswered
        assert len(unanswered) + len(self._released) < self.window, "the window is full"
        assert not self._asleep, "older messages are to be sent again first"
        packet_id = self._ids.take()
        if unanswered is _NOTHING:
            unanswered = self._unanswered = {}
        unanswered[packet_id] = message
        if qos == 2:
            self._note_second(packet_id)
        return packet_id

    def _note_second(self, packet_id: int) -> None:
        if self._second is _NOTHING:
            self._second = {}
        self._second[packet_id] = None

    def _note_released(self, packet_id: int) -> None:
        if self._released is _NOTHING:
            self._released = {}
        self._released[packet_id] = None

    def send_as(self, packet_id: int, message: M, *, qos: int) -> None:
        """`send` under an identifier held before; there must be room."""
        assert packet_id not in self._unanswered, packet_id
        if self._unanswered is _NOTHING:
            self._unanswered = {}
        self._unanswered[packet_id] = message
        if qos == 2:
            self._note_second(packet_id)

    def send_many(self, message: M, count: int) -> list[int]:
        """`send` one QoS 1 message under `count` identifiers; there must be room."""
        assert count <= self.room, "the window is full"
        packet_ids = self._ids.take_many(count)
        if self._unanswered is _NOTHING:
            self._unanswered = {}
        self._unanswered.update(dict.fromkeys(packet_ids, message))
        return packet_ids

    # -- acknowledgements ------------------------------------------------------------------------------------

    def puback(self, packet_id: int) -> M | None:
        """A PUBACK arrived; returns the settled message. Unknown identifiers are ignored."""
        if packet_id in self._second or packet_id in self._released:
            raise ProtocolError(f"packet {packet_id} is QoS 2", where="PUBACK")
        message = self._unanswered.pop(packet_id, None)
        if message is not None:
            self._ids.free(packet_id)
            if self._asleep:
                self._asleep.pop(packet_id, None)
        return message

    def pubacks(self, packet_ids: Iterable[int]) -> list[M]:
        """`puback` for many; returns the settled messages."""
        if self._second or self._released or self._asleep:
            found = [self.puback(packet_id) for packet_id in packet_ids]
            return [message for message in found if message is not None]
        unanswered = self._unanswered
        known = [packet_id for packet_id in packet_ids if packet_id in unanswered]
        self._ids.free_many(known)
        return [unanswered.pop(packet_id) for packet_id in dict.fromkeys(known)]

    def pubrec(self, packet_id: int, reason: int = Reason.SUCCESS) -> tuple[Pubrel | None, M | None]:
        """A PUBREC arrived; returns the PUBREL, and the message if it is settled (always, if refused)."""
        if packet_id in self._second:
            message = self._unanswered.pop(packet_id)
            self._second.pop(packet_id, None)
            self._asleep.pop(packet_id, None)
            if reason >= Reason.UNSPECIFIED:
                self._ids.free(packet_id)
                return None, message
            self._note_released(packet_id)
            return Pubrel(packet_id), message
        if packet_id in self._unanswered:
            raise ProtocolError(f"packet {packet_id} is QoS 1", where="PUBREC")
        if reason >= Reason.UNSPECIFIED:
            self.pubcomp(packet_id)
            return None, None
        if packet_id in self._released:
            return Pubrel(packet_id), None
        return Pubrel(packet_id, Reason.PACKET_ID_NOT_FOUND), None

    def pubcomp(self, packet_id: int) -> bool:
        """A PUBCOMP arrived; returns whether its identifier was known."""
        if packet_id in self._unanswered:
            raise ProtocolError(f"packet {packet_id} was not released", where="PUBCOMP")
        if packet_id not in self._released:
            return False
        del self._released[packet_id]
        self._ids.free(packet_id)
        return True

    # -- a new connection ------------------------------------------------------------------------------------

    def resume(self, *, window: int) -> list[Pubrel]:
        """Continue over a new connection; returns the PUBRELs to send at once. Then call `again`."""
        self.window = window
        self._again = deque(self._unanswered) if self._unanswered else None
        self._asleep = dict.fromkeys(self._unanswered) if self._unanswered else _NOTHING
        return [Pubrel(packet_id) for packet_id in self._released]

    def again(self) -> list[Unanswered[M]]:
        """Messages to send again with DUP, as many as the window takes.

        Call after each acknowledgement too.
        """
        found: list[Unanswered[M]] = []
        while self._again and self.in_flight < self.window:
            packet_id = self._again.popleft()
            if packet_id in self._asleep:
                self._asleep.pop(packet_id, None)
                found.append(self._told(packet_id))
        return found

    # -- storage ---------------------------------------------------------------------------------------------

    def unanswered(self) -> list[Unanswered[M]]:
        """Messages without PUBACK or PUBREC, in order."""
        return [self._told(packet_id) for packet_id in self._unanswered]

    def released(self) -> list[int]:
        """Packet identifiers without PUBCOMP, in order."""
        return list(self._released)

    def restore(self, *, unanswered: Iterable[Unanswered[M]], released: Iterable[int]) -> None:
        """Restore what `unanswered` and `released` returned before a restart; call `resume` next."""
        assert not self._unanswered | self._released, "restore into an empty one only"
        for packet_id in released:
            self._ids.claim(packet_id)
            self._note_released(packet_id)
        self._unanswered = {}
        for each in unanswered:
            self._ids.claim(each.packet_id)
            self._unanswered[each.packet_id] = each.message
            if each.qos == 2:
                self._note_second(each.packet_id)

    def supersede(self, packet_id: int, *, released: bool) -> M | None:
        """Replace what `restore` put back for an identifier, because a newer record exists; returns the old
        message.

        The identifier is held from now on, and waits for a PUBCOMP if `released`.
        """
        self._ids.hold(packet_id)
        self._second.pop(packet_id, None)
        self._released.pop(packet_id, None)
        if released:
            self._note_released(packet_id)
        return self._unanswered.pop(packet_id, None)

    def _told(self, packet_id: int) -> Unanswered[M]:
        return Unanswered(packet_id, 2 if packet_id in self._second else 1, self._unanswered[packet_id])


class ExchangeStep(NamedTuple, Generic[M]):
    """Result of an acknowledgement."""

    reply: Ack | None
    settled: M | None
    """The message that is complete: the owner may forget it."""
    reason: int
    """Reason code of the peer."""


class Exchange(Generic[M]):
    """QoS 1 and 2 messages in flight in both directions."""

    __slots__ = ("ids", "incoming", "outgoing")

    def __init__(self, *, window: int = MOST_PACKET_ID, maximum: int = MOST_PACKET_ID) -> None:
        self.ids = PacketIds()
        """Shared with SUBSCRIBE and UNSUBSCRIBE at the end that sends them."""
        self.outgoing: Outgoing[M] = Outgoing(ids=self.ids, window=window)
        self.incoming = Incoming(maximum=maximum)

    def receive(self, ack: Ack) -> ExchangeStep[M]:
        """Handle an acknowledgement; afterwards check `outgoing.room` and `outgoing.again`."""
        reply: Ack | None = None
        settled: M | None = None
        match ack:
            case Puback():
                settled = self.outgoing.puback(ack.packet_id)
            case Pubrec():
                reply, settled = self.outgoing.pubrec(ack.packet_id, ack.reason)
            case Pubrel():
                reply = self.incoming.pubrel(ack.packet_id)
            case Pubcomp():
                self.outgoing.pubcomp(ack.packet_id)
        return ExchangeStep(reply, settled, ack.reason)

    def resume(self, *, window: int, maximum: int = MOST_PACKET_ID) -> list[Pubrel]:
        """Continue over a new connection; returns the PUBRELs to send first. Then call `outgoing.again`."""
        self.incoming.resume()
        self.incoming.maximum = maximum
        return self.outgoing.resume(window=window)
