"""MQTT publishing into streams: diverts messages on their topics into the log, acts once they are durable.

`Intake` replaces all receivers of the topics of a stream. It appends to the log of a stream hosted here, and
refuses messages for a stream that is published at another node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.ticks import TICKS_PER_S
from penstock.core.streams.wire import Record, decode_record, encode_record
from penstock.errors import MqttError, StreamError
from penstock.mqtt.codes import Reason
from penstock.mqtt.topics import check_topic, overlap
from penstock.mqtt.trees import TopicTree
from penstock.node.broker.answers import DeferredAcks, OwedBatch, refuse
from penstock.node.broker.runs import parts_qos1
from penstock.node.streams.log.records import message_from, record_of, stamped_message

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.node.broker.answers import PublishingLink, PublishingSession
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.message import Message
    from penstock.node.broker.runs import Run
    from penstock.node.streams.tree.directory import KnownStream, StreamDirectory
    from penstock.node.streams.tree.hosted import HostedStream

log = logging.getLogger(__name__)

RETAIN_AGAIN_TICKS: Final = 2 * TICKS_PER_S
"""How far before the checkpoint of marks a restart looks for messages to retain.

The store of retained messages is behind the log by milliseconds. It is further behind only while its disk is
full, and then nothing is acknowledged.
"""


class Intake:
    """Takes the messages published on the topics of one stream, in place of all receivers."""

    def __init__(self, known: KnownStream, hosted: HostedStream | None, broker: Broker) -> None:
        self._known = known
        self._hosted = hosted
        self._broker = broker

    # -- messages without acknowledgement --------------------------------------------------------------------

    def accept(self, message: Message) -> int:
        """Take a message of the node, or a will; returns the reason code for its publisher."""
        try:
            self._stream().publish_many((encode_record(record_of(message)),), look=message.retain)
        except StreamError:
            return self._refused(1)
        return Reason.SUCCESS

    def publish_qos0(self, message: Message, connection: PublishingLink) -> None:
        """Take a message of QoS 0."""
        body = encode_record(record_of(message))
        batch = OwedBatch(connection, 1, len(body))
        try:
            self._stream().publish_many((body,), released=batch.released, look=message.retain)
        except StreamError:
            self._refused(1)
        else:
            batch.begin()

    def run(self, run: Run, connection: PublishingLink) -> None:
        """Take a run of plain messages of QoS 0."""
        now_us, sender = run.now_us, run.sender
        bodies = [
            encode_record(Record(topic.decode(), payload, now_us, sender, seq, 0))
            for seq, (topic, payload) in enumerate(run.parts(), start=run.seq)
        ]
        batch = OwedBatch(connection, run.count, sum(map(len, bodies)))
        try:
            self._stream().publish_many(bodies, released=batch.released)
        except StreamError:
            self._refused(run.count)
        else:
            batch.begin()

    # -- messages that are acknowledged once they are durable ------------------------------------------------

    def run_qos1(
        self, session: PublishingSession, connection: PublishingLink, data: bytes, *, now_us: Instant
    ) -> bool:
        """Take a run of plain messages of QoS 1; False, and none is taken, if one has to be read alone."""
        parts = parts_qos1(data, session.version)
        packet_ids = [packet_id for _, packet_id, _ in parts]
        if not session.exchange.incoming.arrive_many(packet_ids):
            return False
        sender = session.client_id
        bodies = [
            encode_record(Record(topic.decode(), payload, now_us, sender, seq))
            for seq, (topic, _, payload) in enumerate(parts, start=session.published + 1)
        ]
        session.published += len(parts)
        answering = DeferredAcks(session, connection, packet_ids, qos=1, size=len(data), journal=None)
        try:
            self._stream().publish_many(bodies, released=answering.released)
        except StreamError as error:
            reason = self._refused(len(parts))
            for packet_id in packet_ids:
                refuse(connection, session, packet_id, reason=reason, why=str(error))
        else:
            answering.begin()
        return True

    def publish(
        self, message: Message, session: PublishingSession, connection: PublishingLink, packet_id: int
    ) -> None:
        """Take a message of QoS 1 or 2; it is acknowledged later."""
        origin = session.origin if message.qos == 2 else ""
        number = packet_id if message.qos == 2 else 0
        body = encode_record(record_of(message, origin=origin, number=number))
        # The acknowledgement also waits for the journal: for the session, by which a QoS 2 message is
        # recognised when it is sent again, and for a retained message.
        journal = self._broker.journal if message.qos == 2 or message.retain else None
        answering = DeferredAcks(
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

    def _stream(self) -> HostedStream:
        if self._hosted is None:
            known = self._known
            raise StreamError(
                f"stream {known.name!r} is published only at node {known.host!r}: connect there"
            )
        return self._hosted

    def _refused(self, count: int) -> int:
        elsewhere = self._hosted is None
        self._broker.count_refused("stream hosted elsewhere" if elsewhere else "stream stopped", count)
        return Reason.IMPLEMENTATION_SPECIFIC if elsewhere else Reason.QUOTA_EXCEEDED


class StreamPublishing:
    """Publishing into all streams that a node knows."""

    def __init__(self, directory: StreamDirectory, broker: Broker) -> None:
        self._directory = directory
        self._broker = broker
        self._here: TopicTree[str, Intake] = TopicTree()
        self._elsewhere: TopicTree[str, Intake] = TopicTree()

    async def start(self) -> None:
        """Divert from now on, and restore what was being published when the node ended."""
        self._directory_changed()
        self._directory.on_changed.append(self._directory_changed)
        router = self._broker.router
        router.sinks.append(self._sink)
        router.on_tapped.append(self._tapped)
        router.forget()
        self._tapped()
        self._recover()
        for hosted in self._directory.hosted.values():
            await self._retain_again(hosted)

    # -- where messages go -----------------------------------------------------------------------------------

    def _sink(self, topic: str) -> Intake | None:
        found = self._here.match(topic) or self._elsewhere.match(topic)
        return found[0] if found else None

    def _directory_changed(self) -> None:
        self._here, self._elsewhere = TopicTree(), TopicTree()
        for known in self._directory.known.values():
            intake = Intake(known, self._directory.hosted.get(known.name), self._broker)
            tree = self._here if known.hosted_here else self._elsewhere
            for filter_ in known.topics:
                tree.add(filter_, known.name, intake)
        self._broker.router.forget()

    # -- durable messages ------------------------------------------------------------------------------------

    def show(self, stream: str, tick: int, body: bytes) -> None:
        """Retain a durable message if it asks for that, and pass it to the taps of its topic."""
        broker = self._broker
        event = self._event(tick, body)
        if event is None:
            return
        if event.retain:
            broker.keep_retained(stamped_message(event, stream, tick))
        now_us = broker.clock()
        for tap in broker.router.taps(event.topic):
            tap.deliver(event, origin=None, now_us=now_us)

    def _event(self, tick: int, body: bytes) -> Message | None:
        try:
            event = message_from(decode_record(body), read=self._broker.properties)
            check_topic(event.topic, where="topic")
        except (StreamError, MqttError) as error:
            log.error("the message of tick %d cannot be decoded: %s", tick, error)  # noqa: TRY400
            return None
        return event

    def _tapped(self) -> None:
        """Taps were added or removed: note which streams have some."""
        filters = [tap.filter for tap in self._broker.router.tapped]
        for hosted in self._directory.hosted.values():
            hosted.watched = any(overlap(tap, topic) for tap in filters for topic in hosted.hosting.topics)

    # -- exactly once ----------------------------------------------------------------------------------------

    def release(self, session: SessionIdentity, packet_id: int) -> bool:
        """Forget a QoS 2 message that its client has released; False if no stream has it."""
        origin = session.origin
        found = [one for one in self._directory.hosted.values() if one.marks.seen(origin, packet_id)]
        for hosted in found:
            hosted.marks.forget(origin, packet_id)
        return bool(found)

    def ended(self, session: SessionIdentity) -> None:
        """Forget all unreleased QoS 2 messages of a session that has ended."""
        for hosted in self._directory.hosted.values():
            hosted.marks.forget_all(session.origin)

    def _recover(self) -> None:
        sessions = {session.origin: session for session in self._broker.sessions}
        for hosted in self._directory.hosted.values():
            for origin, numbers in hosted.marks.clients().items():
                session = sessions.get(origin)
                if session is None:
                    hosted.marks.forget_all(origin)
                else:
                    session.exchange.incoming.add_received(numbers)

    async def _retain_again(self, hosted: HostedStream) -> None:
        """Retain messages again that are in the log, but perhaps not in the store of retained messages."""
        since = max(hosted.begin, hosted.marks.checkpoint_tick - RETAIN_AGAIN_TICKS)
        while found := await hosted.log.fetch(since, hosted.end, limits.STREAM_READ):
            for tick, body in found:
                event = self._event(tick, body)
                if event is not None and event.retain:
                    before = self._broker.retained.get(event.topic, now_us=event.ts_us)
                    if before is None or before.ts_us <= event.ts_us:
                        self._broker.keep_retained(stamped_message(event, hosted.name, tick))
            since = found[-1][0] + 1
