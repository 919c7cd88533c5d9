"""Between the node's clients and its streams: which topics are diverted, and what is done once durable."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams.record import decode
from penstock.core.streams.tick import TICKS_PER_S
from penstock.errors import MqttError, StreamError
from penstock.mqtt.overlap import overlap
from penstock.mqtt.topics import check_topic
from penstock.mqtt.tree import TopicTree
from penstock.node.streams.carried import event_from, stamped_event
from penstock.node.streams.intake import Intake

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.node.routes import Fan
    from penstock.node.session import Session
    from penstock.node.streams.hosted import Hosted
    from penstock.node.streams.service import StreamService

log = logging.getLogger(__name__)

RETAIN_AGAIN_TICKS: Final = 2 * TICKS_PER_S
"""The store is behind the log by milliseconds, unless the disk is full, and then nothing is acknowledged."""


class Publishing:
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
        router.divert = self._divert
        router.on_tapped = self._tapped
        router.forget()
        self._tapped()
        self._recover()
        for hosted in self._service.hosted.values():
            await self._retain_again(hosted)

    # -- where messages go -----------------------------------------------------------------------------------

    def _divert(self, topic: str) -> Fan | None:
        found = self._here.match(topic) or self._elsewhere.match(topic)
        return found[0].fan if found else None

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
            event = event_from(decode(body), read=self._broker.properties)
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

    def release(self, session: Session, packet_id: int) -> bool:
        """A client releases a QoS 2 message; False: no stream has it."""
        origin = session.origin
        found = [one for one in self._service.hosted.values() if one.marks.seen(origin, packet_id)]
        for hosted in found:
            hosted.marks.forget(origin, packet_id)
        return bool(found)

    def ended(self, session: Session) -> None:
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

    async def _retain_again(self, hosted: Hosted) -> None:
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
