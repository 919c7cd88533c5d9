"""MQTT publishing into streams: diverts messages on their topics into the log, acts once they are durable.

`Intake` takes the place of all receivers of a stream's topics. It appends to the log of a stream hosted
here, and refuses messages for a stream that is published at another node.
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
from penstock.node.streams.log.records import event_from, record_of, stamped_event

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.node.broker.answers import PublishingLink, PublishingSession
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.message import Message
    from penstock.node.broker.runs import Run
    from penstock.node.streams.service import KnownStream, StreamService
    from penstock.node.streams.tree.hosted import HostedStream


class Intake:
    """Of one stream, in the place of all receivers of its topics."""

    def __init__(self, known: KnownStream, hosted: HostedStream | None, broker: Broker) -> None:
        self._known = known
        self._hosted = hosted
        self._broker = broker

    # -- nobody waits for an answer --------------------------------------------------------------------------

    def accept(self, event: Event) -> int:
        """A message of the node, or a will; the reason code for its publisher."""
        message: Message = event.carried
        try:
            self._stream().publish_many((encode_record(record_of(event)),), look=message.retain)
        except StreamError:
            return self._refused(1)
        return Reason.SUCCESS

    def publish_qos0(self, event: Event, connection: PublishingLink) -> None:
        """A message of QoS 0."""
        message: Message = event.carried
        body = encode_record(record_of(event))
        batch = OwedBatch(connection, 1, len(body))
        try:
            self._stream().publish_many((body,), released=batch.released, look=message.retain)
        except StreamError:
            self._refused(1)
        else:
            batch.begin()

    def run(self, run: Run, connection: PublishingLink) -> None:
        """Plain messages of QoS 0."""
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

    # -- somebody does ---------------------------------------------------------------------------------------

    def run_qos1(
        self, session: PublishingSession, connection: PublishingLink, data: bytes, *, now_us: Instant
    ) -> bool:
        """Plain messages of QoS 1; False, and nothing is done, if one must be looked at."""
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
        self, event: Event, session: PublishingSession, connection: PublishingLink, packet_id: int
    ) -> None:
        """A message of QoS 1 or 2 that has arrived; its answer follows."""
        message: Message = event.carried
        origin = session.origin if message.qos == 2 else ""
        number = packet_id if message.qos == 2 else 0
        body = encode_record(record_of(event, origin=origin, number=number))
        # A session must be on disk before a message that is known by it, a retained message, too.
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
                f"stream {known.name!r} is published at node {known.host!r}, and only there: connect to it"
            )
        return self._hosted

    def _refused(self, count: int) -> int:
        elsewhere = self._hosted is None
        self._broker.count_refused("stream hosted elsewhere" if elsewhere else "stream takes nothing", count)
        return Reason.IMPLEMENTATION_SPECIFIC if elsewhere else Reason.QUOTA_EXCEEDED


log = logging.getLogger(__name__)

RETAIN_AGAIN_TICKS: Final = 2 * TICKS_PER_S
"""The store is behind the log by milliseconds, unless the disk is full, and then nothing is acknowledged."""


class StreamPublishing:
    """One per node."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._broker = service.broker
        self._here: TopicTree[str, Intake] = TopicTree()
        self._elsewhere: TopicTree[str, Intake] = TopicTree()

    async def start(self) -> None:
        """Divert from now on, and know again what was being published when the node ended."""
        self._known_changed()
        self._service.on_known_changed.append(self._known_changed)
        router = self._broker.router
        router.sinks.append(self._sink)
        router.on_tapped.append(self._tapped)
        router.forget()
        self._tapped()
        self._recover()
        for hosted in self._service.hosted.values():
            await self._retain_again(hosted)

    # -- where messages go -----------------------------------------------------------------------------------

    def _sink(self, topic: str) -> Intake | None:
        found = self._here.match(topic) or self._elsewhere.match(topic)
        return found[0] if found else None

    def _known_changed(self) -> None:
        self._here, self._elsewhere = TopicTree(), TopicTree()
        for known in self._service.known.values():
            intake = Intake(known, self._service.hosted.get(known.name), self._broker)
            tree = self._here if known.hosted_here else self._elsewhere
            for filter_ in known.topics:
                tree.add(filter_, known.name, intake)
        self._broker.router.forget()

    # -- what is durable -------------------------------------------------------------------------------------

    def told(self, stream: str, tick: int, body: bytes) -> None:
        """A message that some look on at, or that is to be retained."""
        broker = self._broker
        event = self._event(tick, body)
        if event is None:
            return
        if event.carried.retain:
            broker.keep_retained(stamped_event(event, stream, tick))
        now_us = broker.clock()
        for tap in broker.router.taps(event.topic):
            tap.deliver(event, origin=None, now_us=now_us)

    def _event(self, tick: int, body: bytes) -> Event | None:
        try:
            event = event_from(decode_record(body), read=self._broker.properties)
            check_topic(event.topic, where="topic")
        except (StreamError, MqttError) as error:
            log.error("the message of tick %d cannot be read: %s", tick, error)  # noqa: TRY400
            return None
        return event

    def _tapped(self) -> None:
        """Somebody looks on, or does no more."""
        filters = [tap.filter for tap in self._broker.router.tapped]
        for hosted in self._service.hosted.values():
            hosted.watched = any(overlap(tap, topic) for tap in filters for topic in hosted.hosting.topics)

    # -- exactly once ----------------------------------------------------------------------------------------

    def release(self, session: SessionIdentity, packet_id: int) -> bool:
        """A client releases a QoS 2 message; False: no stream has it."""
        origin = session.origin
        found = [one for one in self._service.hosted.values() if one.marks.seen(origin, packet_id)]
        for hosted in found:
            hosted.marks.forget(origin, packet_id)
        return bool(found)

    def ended(self, session: SessionIdentity) -> None:
        """A session is gone, and what it has not released with it."""
        for hosted in self._service.hosted.values():
            hosted.marks.forget_all(session.origin)

    def _recover(self) -> None:
        sessions = {session.origin: session for session in self._broker.sessions}
        for hosted in self._service.hosted.values():
            for origin, numbers in hosted.marks.clients().items():
                session = sessions.get(origin)
                if session is None:
                    hosted.marks.forget_all(origin)
                else:
                    session.exchange.incoming.add_received(numbers)

    async def _retain_again(self, hosted: HostedStream) -> None:
        """What was to be retained when the node ended may be in the log and not in the store."""
        since = max(hosted.begin, hosted.marks.checkpoint_tick - RETAIN_AGAIN_TICKS)
        while found := await hosted.log.fetch(since, hosted.end, limits.STREAM_READ):
            for tick, body in found:
                event = self._event(tick, body)
                if event is not None and event.carried.retain:
                    before = self._broker.retained.get(event.topic, now_us=event.ts_us)
                    if before is None or before.ts_us <= event.ts_us:
                        self._broker.keep_retained(stamped_event(event, hosted.name, tick))
            since = found[-1][0] + 1
