"""Messages sent with QoS 1 and 2 until they are acknowledged: the window, and what is sent again on resume.

A message is *unanswered* until PUBACK or PUBREC; a QoS 2 message is then *released* (PUBREL sent) until
PUBCOMP. Both take a place in the window (section 4.9). After a new connection PUBRELs are sent again first,
being older, then unanswered messages in their order with DUP, as many at a time as the window has places.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from penstock.errors import ProtocolError
from penstock.mqtt.acks import Pubrel
from penstock.mqtt.packet_ids import MOST, PacketIds
from penstock.mqtt.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

M = TypeVar("M")


class Unanswered(NamedTuple, Generic[M]):
    """A message on its way."""

    packet_id: int
    qos: int
    message: M


class Outgoing(Generic[M]):
    """One direction of a session; lives longer than a connection."""

    __slots__ = ("_again", "_asleep", "_ids", "_released", "_second", "_unanswered", "window")

    def __init__(self, *, ids: PacketIds | None = None, window: int = MOST) -> None:
        self.window = window
        """The peer's receive maximum, or less."""
        self._ids = PacketIds() if ids is None else ids
        self._unanswered: dict[int, M] = {}
        self._second: set[int] = set()
        """Which of them are QoS 2."""
        self._released: dict[int, None] = {}
        self._again: deque[int] = deque()
        """Unanswered on an earlier connection, not sent on this one yet."""
        self._asleep: set[int] = set()
        """The same, without those answered meanwhile."""

    # -- sending ---------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Messages that take a place in the window."""
        return len(self._unanswered) - len(self._asleep) + len(self._released)

    @property
    def room(self) -> int:
        """How many new messages may be sent now; none before the old ones are sent again."""
        if self._asleep:
            return 0
        # Identifiers may be held that take no place in the window.
        return max(0, min(self.window - len(self._unanswered) - len(self._released), MOST - len(self._ids)))

    @property
    def resending(self) -> bool:
        """Whether there is more to send again than the window took."""
        return bool(self._asleep)

    def send(self, message: M, *, qos: int) -> int:
        """Give a message its packet identifier; there must be room."""
        unanswered = self._unanswered
        assert len(unanswered) + len(self._released) < self.window, "the window is full"
        assert not self._asleep, "older messages are to be sent again first"
        packet_id = self._ids.take()
        unanswered[packet_id] = message
        if qos == 2:
            self._second.add(packet_id)
        return packet_id

    def send_as(self, packet_id: int, message: M, *, qos: int) -> None:
        """`send` under an identifier that is held for it; there must be room."""
        assert packet_id not in self._unanswered, packet_id
        self._unanswered[packet_id] = message
        if qos == 2:
            self._second.add(packet_id)

    def send_many(self, message: M, count: int) -> list[int]:
        """`send` with QoS 1 for so many messages that are kept as one and the same; there must be room."""
        assert count <= self.room, "the window is full"
        packet_ids = self._ids.take_many(count)
        self._unanswered.update(dict.fromkeys(packet_ids, message))
        return packet_ids

    # -- acknowledgements ------------------------------------------------------------------------------------

    def puback(self, packet_id: int) -> M | None:
        """A QoS 1 message is done; the message. An identifier that is not known is none of our business."""
        if packet_id in self._second or packet_id in self._released:
            raise ProtocolError(f"packet {packet_id} is QoS 2", where="PUBACK")
        message = self._unanswered.pop(packet_id, None)
        if message is not None:
            self._ids.free(packet_id)
            if self._asleep:
                self._asleep.discard(packet_id)
        return message

    def pubacks(self, packet_ids: Iterable[int]) -> list[M]:
        """`puback` for many; the messages."""
        if self._second or self._released or self._asleep:
            found = [self.puback(packet_id) for packet_id in packet_ids]
            return [message for message in found if message is not None]
        unanswered = self._unanswered
        known = [packet_id for packet_id in packet_ids if packet_id in unanswered]
        self._ids.free_many(known)
        return [unanswered.pop(packet_id) for packet_id in dict.fromkeys(known)]

    def pubrec(self, packet_id: int, reason: int = Reason.SUCCESS) -> tuple[Pubrel | None, M | None]:
        """A QoS 2 message has arrived, or is refused; the answer, and the message if it is settled now."""
        if packet_id in self._second:
            message = self._unanswered.pop(packet_id)
            self._second.discard(packet_id)
            self._asleep.discard(packet_id)
            if reason >= Reason.UNSPECIFIED:
                self._ids.free(packet_id)
                return None, message
            self._released[packet_id] = None
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
        """A QoS 2 message is done; whether it was known."""
        if packet_id in self._unanswered:
            raise ProtocolError(f"packet {packet_id} was not released", where="PUBCOMP")
        if packet_id not in self._released:
            return False
        del self._released[packet_id]
        self._ids.free(packet_id)
        return True

    # -- a new connection ------------------------------------------------------------------------------------

    def resume(self, *, window: int) -> list[Pubrel]:
        """The session goes on over a new connection; the PUBRELs to send at once. Then call `again`."""
        self.window = window
        self._again = deque(self._unanswered)
        self._asleep = set(self._unanswered)
        return [Pubrel(packet_id) for packet_id in self._released]

    def again(self) -> list[Unanswered[M]]:
        """Messages to send again with DUP, as many as fit; call it after each acknowledgement, too."""
        found: list[Unanswered[M]] = []
        while self._again and self.in_flight < self.window:
            packet_id = self._again.popleft()
            if packet_id in self._asleep:
                self._asleep.discard(packet_id)
                found.append(self._told(packet_id))
        return found

    # -- keeping it ------------------------------------------------------------------------------------------

    def unanswered(self) -> list[Unanswered[M]]:
        """Messages neither acknowledged nor released, in order."""
        return [self._told(packet_id) for packet_id in self._unanswered]

    def released(self) -> list[int]:
        """Packet identifiers that wait for their PUBCOMP, in order."""
        return list(self._released)

    def restore(self, *, unanswered: Iterable[Unanswered[M]], released: Iterable[int]) -> None:
        """Put back what `unanswered` and `released` gave before a restart; then comes `resume`."""
        assert not self._unanswered | self._released, "only into an empty one"
        for packet_id in released:
            self._ids.claim(packet_id)
            self._released[packet_id] = None
        for each in unanswered:
            self._ids.claim(each.packet_id)
            self._unanswered[each.packet_id] = each.message
            if each.qos == 2:
                self._second.add(each.packet_id)

    def supersede(self, packet_id: int, *, released: bool) -> M | None:
        """Another record of this identifier is newer than what `restore` put back; what that was.

        It is held from now on, and waits for its PUBCOMP if it is released.
        """
        self._ids.hold(packet_id)
        self._second.discard(packet_id)
        self._released.pop(packet_id, None)
        if released:
            self._released[packet_id] = None
        return self._unanswered.pop(packet_id, None)

    def _told(self, packet_id: int) -> Unanswered[M]:
        return Unanswered(packet_id, 2 if packet_id in self._second else 1, self._unanswered[packet_id])
