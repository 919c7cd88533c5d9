"""Acknowledgements of a client: settle messages in flight, and the journal's record of them.

When a kept session has a QoS 2 message (PUBREC), that is on disk before PUBREL leaves. Else a node that is
killed and started again would send the PUBLISH once more, though the client has forgotten its identifier.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.mqtt.codes import Kind
from penstock.mqtt.packets.publish import Puback, Pubcomp, Pubrec, Pubrel, ack_frame

if TYPE_CHECKING:
    from penstock.mqtt.packets.publish import Ack
    from penstock.mqtt.sessions.session import Session
    from penstock.node.broker.delivery import Delivery
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Sent


class Acknowledgements:
    """The part of a session that takes acknowledgements of its client."""

    __slots__ = ("_delivery", "_exchange", "_journal", "_releasing", "_rules", "_unsafe")

    def __init__(self, rules: Session[Sent], delivery: Delivery, *, journal: Journal | None) -> None:
        """`delivery` knows the connection, and the sources, which note acknowledgements of their messages."""
        self._rules = rules
        self._exchange = rules.exchange
        self._delivery = delivery
        self._journal = journal
        self._releasing: dict[int, int] = {}
        """Places in the journal of QoS 2 messages the client has and did not complete."""
        self._unsafe: dict[int, int] | None = None
        """Packet identifiers whose PUBREL waits for the disk, with the number of its transaction."""

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
        """Any acknowledgement; the answer, unless it has to wait for the disk."""
        step = self._exchange.receive(ack)
        for source in self._delivery.sources:
            if source.settles(ack, step):
                return None if source.holds_pubrel(ack.packet_id) else step.reply
        if self._journal is not None:
            place = step.settled.place if step.settled is not None else 0
            self._write_down(self._journal, ack, place, step.reply)
            if self._unsafe and isinstance(step.reply, Pubrel) and ack.packet_id in self._unsafe:
                return None
        return step.reply

    def _write_down(self, journal: Journal, ack: Ack, place: int, reply: Ack | None) -> None:
        match ack:
            case Puback() if place:
                journal.settled(place)
            case Pubrec() if place and isinstance(reply, Pubrel):
                self._releasing[ack.packet_id] = place
                journal.released(place, ack.packet_id)
                self._release_when_safe(journal, ack.packet_id)
            case Pubrec() if place:
                journal.settled(place)
            case Pubcomp() | Pubrec():
                place = self._releasing.pop(ack.packet_id, 0)
                if place and not isinstance(reply, Pubrel):
                    if self._unsafe is not None:  # a client that did not wait for the PUBREL
                        self._unsafe.pop(ack.packet_id, None)
                    journal.settled(place)
                elif place:
                    self._releasing[ack.packet_id] = place
            case Pubrel() if self._rules.expiry_s:
                journal.completed(self._rules.client_id, ack.packet_id)

    def _release_when_safe(self, journal: Journal, packet_id: int) -> None:
        """Send the PUBREL when the disk has that the client has the message."""
        unsafe = self._unsafe
        if unsafe is None:
            unsafe = self._unsafe = {}
        transaction = journal.transaction
        # Identifiers are added in the order of transactions: the last one tells whether one is on its way.
        if not unsafe or next(reversed(unsafe.values())) != transaction:
            journal.send_when_safe(partial(self._release, transaction))
        unsafe[packet_id] = transaction

    def _release(self, transaction: int) -> None:
        unsafe = self._unsafe or {}
        safe = [packet_id for packet_id, number in unsafe.items() if number <= transaction]
        for packet_id in safe:
            del unsafe[packet_id]
        if not unsafe:
            self._unsafe = None
        link = self._delivery.link
        if link is not None and safe:
            link.output.write(b"".join(ack_frame(Kind.PUBREL, packet_id) for packet_id in safe))

    def safe(self, pubrels: list[Pubrel]) -> list[Pubrel]:
        """The PUBRELs that a new connection may begin with; the others follow when the disk has them."""
        unsafe = self._unsafe
        return [each for each in pubrels if each.packet_id not in unsafe] if unsafe else pubrels

    def restore_released(self, packet_id: int, place: int) -> None:
        """A QoS 2 message that was released before a restart."""
        self._releasing[packet_id] = place

    def supersede(self, packet_id: int, *, released: bool) -> None:
        """A message of a reliable stream has this identifier: what the journal says of it is older."""
        before = self._exchange.outgoing.supersede(packet_id, released=released)
        place = self._releasing.pop(packet_id, 0) if before is None else before.place
        if place and self._journal is not None:
            self._journal.settled(place)
