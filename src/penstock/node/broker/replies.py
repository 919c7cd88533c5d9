"""When a client's PUBLISH of QoS 1 or 2 is acknowledged: once it is on disk, and at the nodes that want it.

Answers go out in the order in which messages came (`answers.py`). The connection may be gone when an answer
may be sent: then the session notes that the message was taken, and the next connection answers it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.errors import MqttError
from penstock.mqtt.codes import V5, Kind, Reason
from penstock.mqtt.packets.publish import ack_frame
from penstock.node.broker.answers import DeferredAcks, in_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.mqtt.packets.properties import Properties
    from penstock.node.broker.extensions import Peer
    from penstock.node.broker.host import ClientLink
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.session import Session


class Replies:
    """Acknowledges what the client of one connection publishes."""

    __slots__ = ("_again", "_connection", "_delivery", "_held", "_incoming", "_journal", "_mqtt", "_session")

    def __init__(self, session: Session, connection: ClientLink, *, journal: Journal | None) -> None:
        self._session = session
        self._connection = connection
        self._delivery = session.delivery
        self._incoming = session.exchange.incoming
        self._journal = journal
        self._mqtt = session.version
        self._held = 0
        """Answers that wait for the disk."""
        self._again: set[int] | None = None
        """Packet identifiers of repeated messages whose answers are among them; None: there was none yet."""

    def choked(self) -> bool:
        """Whether the disk is so far behind that messages of QoS 1 and 2 are refused."""
        return self._journal is not None and self._journal.choked

    def check_disk(self, packet_id: int, *, stored_elsewhere: bool) -> None:
        """MqttError, which ends the connection, for a new message that cannot be answered.

        MQTT 3.1.1 has no refusal: what the disk cannot take is not answered, and comes again later. More
        answers than messages may be under way are owed only to a client that does not wait for them.
        """
        incoming = self._incoming
        if self._held >= incoming.maximum:
            incoming.answer(packet_id, reason=Reason.RECEIVE_MAXIMUM_EXCEEDED)
            raise MqttError(
                f"{self._held} answers wait for the disk; receive maximum is {incoming.maximum}",
                where="PUBLISH",
                reason=Reason.RECEIVE_MAXIMUM_EXCEEDED,
            )
        if self._mqtt != V5 and not stored_elsewhere and self.choked():
            incoming.answer(packet_id, reason=Reason.QUOTA_EXCEEDED)
            raise MqttError("too much waits for the disk", where="PUBLISH", reason=Reason.QUOTA_EXCEEDED)

    def when_safe(self, packet_id: int, qos: int, reason: int, said: Properties | None = None) -> None:
        """Acknowledge a message; if it must survive a restart, not before it does.

        `said`: properties of the answer, for clients that speak MQTT 5.
        """
        if qos == 2 and reason == Reason.NO_MATCHING_SUBSCRIBERS:
            reason = Reason.SUCCESS  # a hint that few expect in the middle of a handshake
        journal = self._journal
        if journal is not None:
            if qos == 2 and self._session.expiry_s and reason < Reason.UNSPECIFIED:
                journal.received(self._session.client_id, packet_id)
            if journal.hold(
                partial(self._answer_held, packet_id, qos, reason, said), behind=bool(self._held)
            ):
                self._held += 1
                return
        self._answer_in_turn(packet_id, qos, reason, said)

    def when_handed(self, packet_ids: Sequence[int], qos: int, size: int, peers: tuple[Peer, ...]) -> None:
        """Acknowledge messages when every other node that wants them has them, and the disk if it must."""
        session, journal = self._session, self._journal
        answer = DeferredAcks(session, self._connection, packet_ids, qos=qos, size=size, journal=journal)
        answer.begin()
        missing = len(peers)

        def handed() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                if journal is not None and qos == 2 and session.expiry_s:
                    for packet_id in packet_ids:
                        journal.received(session.client_id, packet_id)
                answer.released(len(packet_ids))

        for peer in peers:
            peer.when_handed(handed)

    def again(self, packet_id: int, qos: int) -> None:
        """Acknowledge a message that came before; it may still be on its way to the disk."""
        journal = self._journal
        if journal is None or not journal.behind:
            self._answer_in_turn(packet_id, qos, Reason.SUCCESS, None)
            return
        again = self._again
        if again is None:
            again = self._again = set()
        if packet_id not in again:  # one answer will do, however often it comes meanwhile
            again.add(packet_id)
            self._held += 1
            journal.hold(partial(self._answer_again, packet_id, qos), behind=True)

    def _answer_again(self, packet_id: int, qos: int) -> None:
        if self._again is not None:
            self._again.discard(packet_id)
        self._answer_held(packet_id, qos, Reason.SUCCESS, None)

    def _answer_held(self, packet_id: int, qos: int, reason: int, said: Properties | None) -> None:
        """Acknowledge a message that is on disk."""
        self._held -= 1
        self._answer_in_turn(packet_id, qos, reason, said)

    def _answer_in_turn(self, packet_id: int, qos: int, reason: int, said: Properties | None) -> None:
        """Answer a message, after earlier ones whose answers wait for reliable streams."""
        if self._delivery.link is self._connection:
            in_turn(self._session, partial(self._answer_late, packet_id, qos, reason, said))
        else:
            self._answer_late(packet_id, qos, reason, said)

    def _answer_late(self, packet_id: int, qos: int, reason: int, said: Properties | None) -> None:
        """The connection may be gone, or another carries the session, and the client may not have waited."""
        incoming = self._incoming
        if not incoming.owes(packet_id):
            return
        if self._delivery.link is self._connection:
            self._answer(packet_id, qos, reason, said)
        elif qos == 2:
            again = incoming.came_again(packet_id)
            ack = incoming.answer(packet_id, reason=reason)
            if again and self._delivery.link is not None:
                self._delivery.link.send(ack)

    def _answer(self, packet_id: int, qos: int, reason: int, said: Properties | None) -> None:
        ack = self._incoming.answer(packet_id, reason=reason)
        if self._mqtt == V5 and (reason or said is not None):
            self._connection.send(ack if said is None else replace(ack, properties=said))
        else:
            self._connection.output.write(ack_frame(Kind.PUBACK if qos == 1 else Kind.PUBREC, packet_id))
