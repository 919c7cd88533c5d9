"""Acknowledgements of a client: settle messages in flight, and the journal's record of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.mqtt.packets.publish import Puback, Pubcomp, Pubrec, Pubrel

if TYPE_CHECKING:
    from penstock.mqtt.packets.publish import Ack
    from penstock.mqtt.sessions.session import Session
    from penstock.node.broker.extensions import SessionSource
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Sent


class Acknowledgements:
    """The part of a session that takes acknowledgements of its client."""

    __slots__ = ("_exchange", "_journal", "_releasing", "_rules", "_sources")

    def __init__(
        self, rules: Session[Sent], sources: list[SessionSource], *, journal: Journal | None
    ) -> None:
        """`sources` are those of the session: acknowledgements of their messages are theirs to note."""
        self._rules = rules
        self._exchange = rules.exchange
        self._sources = sources
        self._journal = journal
        self._releasing: dict[int, int] = {}
        """Places in the journal of QoS 2 messages the client has and did not complete."""

    def acknowledged(self, packet_id: int) -> None:
        """A PUBACK without a reason code, which nearly all are."""
        sent = self._exchange.outgoing.puback(packet_id)
        if sent is None:
            return
        if sent.reader is not None:
            sent.reader.acknowledged(sent.tick, packet_id)
        elif sent.place and self._journal is not None:
            self._journal.settled(sent.place)

    def acknowledged_many(self, packet_ids: list[int]) -> None:
        """Several PUBACKs without a reason code that came together."""
        for sent in self._exchange.outgoing.pubacks(packet_ids):
            if sent.reader is not None:
                sent.reader.acknowledged(sent.tick, 0)
            elif sent.place and self._journal is not None:
                self._journal.settled(sent.place)

    def receive(self, ack: Ack) -> Ack | None:
        """Any acknowledgement; the answer."""
        step = self._exchange.receive(ack)
        for source in self._sources:
            if source.settles(ack, step):
                return None if source.holds_pubrel(ack.packet_id) else step.reply
        if self._journal is not None:
            place = step.settled.place if step.settled is not None else 0
            self._write_down(self._journal, ack, place, step.reply)
        return step.reply

    def _write_down(self, journal: Journal, ack: Ack, place: int, reply: Ack | None) -> None:
        match ack:
            case Puback() if place:
                journal.settled(place)
            case Pubrec() if place and isinstance(reply, Pubrel):
                self._releasing[ack.packet_id] = place
                journal.released(place, ack.packet_id)
            case Pubrec() if place:
                journal.settled(place)
            case Pubcomp() | Pubrec():
                place = self._releasing.pop(ack.packet_id, 0)
                if place and not isinstance(reply, Pubrel):
                    journal.settled(place)
                elif place:
                    self._releasing[ack.packet_id] = place
            case Pubrel() if self._rules.expiry_s:
                journal.completed(self._rules.client_id, ack.packet_id)

    def restore_released(self, packet_id: int, place: int) -> None:
        """A QoS 2 message that was released before a restart."""
        self._releasing[packet_id] = place

    def supersede(self, packet_id: int, *, released: bool) -> None:
        """A message of a reliable stream has this identifier: what the journal says of it is older."""
        before = self._exchange.outgoing.supersede(packet_id, released=released)
        place = self._releasing.pop(packet_id, 0) if before is None else before.place
        if place and self._journal is not None:
            self._journal.settled(place)
