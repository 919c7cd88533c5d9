"""Where messages on the topics of a stream go: into its log here, or nowhere if it is published elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.streams.record import Record, encode
from penstock.errors import StreamError
from penstock.mqtt.reasons import Reason
from penstock.node.routes import Fan
from penstock.node.runs import parts_qos1
from penstock.node.streams.answering import Answering, refuse
from penstock.node.streams.carried import record_of
from penstock.node.streams.owed import Batch

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker import Broker
    from penstock.node.connection import Connection
    from penstock.node.message import Message
    from penstock.node.runs import Run
    from penstock.node.session import Session
    from penstock.node.streams.hosted import Hosted
    from penstock.node.streams.service import Known


class Intake:
    """Of one stream, in the place of all receivers of its topics."""

    def __init__(self, known: Known, hosted: Hosted | None, broker: Broker) -> None:
        self._known = known
        self._hosted = hosted
        self._broker = broker
        self.fan = Fan([], into=self)

    # -- nobody waits for an answer --------------------------------------------------------------------------

    def accept(self, event: Event) -> int:
        """A message of the node, or a will; the reason code for its publisher."""
        message: Message = event.carried
        try:
            self._stream().publish_many((encode(record_of(event)),), look=message.retain)
        except StreamError:
            return self._refused(1)
        return Reason.SUCCESS

    def publish_qos0(self, event: Event, connection: Connection) -> None:
        """A message of QoS 0."""
        message: Message = event.carried
        body = encode(record_of(event))
        batch = Batch(connection, 1, len(body))
        try:
            self._stream().publish_many((body,), released=batch.released, look=message.retain)
        except StreamError:
            self._refused(1)
        else:
            batch.begin()

    def run(self, run: Run, connection: Connection) -> None:
        """Plain messages of QoS 0."""
        now_us, sender = run.now_us, run.sender
        bodies = [
            encode(Record(topic.decode(), payload, now_us, sender, seq, 0))
            for seq, (topic, payload) in enumerate(run.parts(), start=run.seq)
        ]
        batch = Batch(connection, run.count, sum(map(len, bodies)))
        try:
            self._stream().publish_many(bodies, released=batch.released)
        except StreamError:
            self._refused(run.count)
        else:
            batch.begin()

    # -- somebody does ---------------------------------------------------------------------------------------

    def run_qos1(self, session: Session, connection: Connection, data: bytes, *, now_us: Instant) -> bool:
        """Plain messages of QoS 1; False, and nothing is done, if one must be looked at."""
        parts = parts_qos1(data, session.version)
        packet_ids = [packet_id for _, packet_id, _ in parts]
        if not session.exchange.incoming.arrive_many(packet_ids):
            return False
        sender = session.client_id
        bodies = [
            encode(Record(topic.decode(), payload, now_us, sender, seq))
            for seq, (topic, _, payload) in enumerate(parts, start=session.published + 1)
        ]
        session.published += len(parts)
        answering = Answering(session, connection, packet_ids, qos=1, size=len(data), journal=None)
        try:
            self._stream().publish_many(bodies, released=answering.released)
        except StreamError as error:
            reason = self._refused(len(parts))
            for packet_id in packet_ids:
                refuse(connection, session, packet_id, reason=reason, why=str(error))
        else:
            answering.begin()
        return True

    def publish(self, event: Event, session: Session, connection: Connection, packet_id: int) -> None:
        """A message of QoS 1 or 2 that has arrived; its answer follows."""
        message: Message = event.carried
        origin = session.origin if message.qos == 2 else ""
        number = packet_id if message.qos == 2 else 0
        body = encode(record_of(event, origin=origin, number=number))
        # A session must be on disk before a message that is known by it, a retained message, too.
        journal = self._broker.journal if message.qos == 2 or message.retain else None
        answering = Answering(
            session, connection, (packet_id,), qos=message.qos, size=len(body), journal=journal
        )
        try:
            hosted = self._stream()
            tick = hosted.publish_many((body,), released=answering.released, look=message.retain).start
        except StreamError as error:
            refuse(connection, session, packet_id, reason=self._refused(1), why=str(error))
        else:
            answering.begin()
            if origin:
                hosted.marks.note(origin, number, tick)

    def _stream(self) -> Hosted:
        if self._hosted is None:
            known = self._known
            raise StreamError(
                f"stream {known.name!r} is published at node {known.host!r}, and only there: connect to it"
            )
        return self._hosted

    def _refused(self, count: int) -> int:
        elsewhere = self._hosted is None
        self._broker.count_refused("stream hosted elsewhere" if elsewhere else "stream takes nothing", count)
        return Reason.IMPLEMENTATION_SPECIFIC if elsewhere else Reason.QUOTA_EXCEEDED
