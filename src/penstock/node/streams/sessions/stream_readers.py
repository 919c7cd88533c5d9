"""All readers of one stream at this node: one subend feeds all that are live, feeds serve those behind."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import MqttError, StreamError
from penstock.mqtt.topics import check_topic
from penstock.node.streams.sessions.feeds import LogFeed, TreeFeed
from penstock.node.streams.sessions.items import StreamItem, choose, chosen, plain
from penstock.node.streams.sessions.reader import FIRST
from penstock.node.streams.status import ReaderFigures

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.subend import Subend
    from penstock.model.instant import Instant
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.streams.sessions.feeds import Feed
    from penstock.node.streams.sessions.items import Choice
    from penstock.node.streams.sessions.reader import SessionPlace, SessionReader
    from penstock.node.streams.sessions.subscriptions import StreamSubscriptions

log = logging.getLogger(__name__)

MAIN: Final = "main"
"""The end that feeds all sessions that keep up."""

SESSIONS: Final = "sessions"
"""Under this name the stream is kept for them."""


class Interested:
    """A session's subscriptions to one topic."""

    __slots__ = ("choice", "reader", "subscriptions")

    def __init__(self, reader: SessionReader, subscriptions: list[Subscription]) -> None:
        self.reader = reader
        self.subscriptions = subscriptions
        self.choice = chosen(subscriptions) if plain(subscriptions) else None
        """If the topic alone decides."""


class StreamReaders:
    """One stream."""

    def __init__(self, reading: StreamSubscriptions, name: str, topics: tuple[str, ...]) -> None:
        self.name = name
        self.topics = topics
        self.missed = 0
        """Spans that sessions which are gone found missing."""
        self._reading = reading
        service = self._service = reading.service
        self._hub = service.hub
        self._hosted = service.hosted.get(name)
        self.readers: dict[Session, SessionReader] = {}
        self._topics: dict[str, dict[SessionReader, Interested]] = {}
        """Who is interested in a topic, as far as that was found out since the version below."""
        self._version = -1
        self._held: int | None = None
        """From which tick on the stream is kept for sessions."""
        self._feeding: dict[SessionReader, None] = {}
        """Those that catch up from another node."""
        start = None if self._hosted is None else self._hosted.end
        self.at = FIRST if start is None else start
        """What lies before was handed to all who are live; FIRST: not known yet."""
        self._main: Subend | None = None
        """Where it is hosted, its log gives everything in order."""
        if self._hosted is None:
            self._main = self._hub.core.subscribe(name, MAIN, start=start)
            self._hub.delivered[name, MAIN] = self._delivered
            self._hub.missed[name, MAIN] = self._gone
        else:
            self._hosted.on_messages.append(self._committed)
            self._hosted.on_ready.append(self._ready)

    # -- messages come ---------------------------------------------------------------------------------------

    def _committed(self, messages: list[tuple[int, bytes]]) -> None:
        if self.readers:
            for tick, body in messages:
                self._delivered(tick, body)
        self.at = messages[-1][0] + 1

    def _delivered(self, tick: int, body: bytes) -> None:
        self.at = tick + 1
        item = self.item(tick, body)
        if item is None:
            return
        if self._hosted is None and (item.record.retain or self._reading.router.tapped):
            # Where it is hosted, this is done at the commit.
            self._service.publishing.told(self.name, tick, body)
        if not self.readers:
            return
        now_us = self._reading.now_us()
        for each in self._interested(item.record.topic).values():
            reader = each.reader
            if reader.is_live(tick):
                choice = each.choice
                if choice is None:
                    choice = choose(each.subscriptions, item, reader.starts, now_us=now_us)
                if choice is not None:
                    reader.offer(item, choice, now_us=now_us)

    def _gone(self, since: int, until: int) -> None:
        """The log has let messages go before they came here."""
        for reader in self.readers.values():
            if reader.live:
                reader.misses(since, until)

    def item(self, tick: int, body: bytes) -> StreamItem | None:
        """A message; None, and it is told, if it is none."""
        try:
            found = StreamItem(self.name, tick, body, read=self._reading.properties)
            if found.record.topic not in self._topics:
                check_topic(found.record.topic, where="topic")
        except (StreamError, MqttError) as error:
            log.error("stream '%s', tick %d: %s; it is passed over", self.name, tick, error)  # noqa: TRY400
            return None
        return found

    def choice(self, reader: SessionReader, item: StreamItem, *, now_us: Instant) -> Choice | None:
        """The copy of an earlier message for one session."""
        found = self._interested(item.record.topic).get(reader)
        return None if found is None else choose(found.subscriptions, item, reader.starts, now_us=now_us)

    def _interested(self, topic: str) -> dict[SessionReader, Interested]:
        router = self._reading.router
        if self._version != router.version or len(self._topics) >= limits.ROUTES:
            self._topics.clear()
            self._version = router.version
        found = self._topics.get(topic)
        if found is None:
            by_reader: dict[SessionReader, list[Subscription]] = {}
            for each in router.subscriptions(topic):
                reader = self.readers.get(each.session)
                if reader is not None and each.subscription.filter in reader.starts:
                    by_reader.setdefault(reader, []).append(each.subscription)
            found = {reader: Interested(reader, each) for reader, each in by_reader.items()}
            self._topics[topic] = found
        return found

    def forget(self) -> None:
        """Who is interested in what has changed."""
        self._topics.clear()

    @property
    def now(self) -> int:
        """Where a subscription made now begins; FIRST: with the first message that comes."""
        if self.at < 0 and not self._hub.busy and self._main is not None and self._main.horizon:
            self.at = self._main.horizon
        self.at = max(self.at, self.begin)  # where there was silence
        return self.at

    @property
    def begin(self) -> int:
        """Before this tick there is nothing to be had, as far as that is known here."""
        return FIRST if self._hosted is None else self._hosted.begin

    # -- feeds -----------------------------------------------------------------------------------------------

    def open_feed(self, reader: SessionReader) -> Feed | None:
        """For a session that is behind; None: its turn comes later."""
        if self._hosted is not None:
            return LogFeed(self._hosted)
        if len(self._feeding) >= limits.STREAM_FEEDS:
            return None
        self._feeding[reader] = None
        return TreeFeed(self._hub, self.name, reader.session.client_id, clock=self._reading.clock)

    def closed_feed(self, reader: SessionReader) -> None:
        """It has caught up, or gives way."""
        self._feeding.pop(reader, None)

    def look(self) -> None:
        """Every now and then: have sessions that are behind go on, which nothing else may bring about."""
        if self.now < 0:
            return
        for reader in self.readers.values():
            if not reader.live:
                if reader.takes_more:
                    self.go_on(reader.session)
                elif len(self._feeding) >= limits.STREAM_FEEDS:
                    reader.close_feed()  # its client does not read: another may

    def _ready(self) -> None:
        """The log has what somebody asked for."""
        for reader in list(self.readers.values()):
            if reader.fed:
                self.go_on(reader.session)

    def go_on(self, session: Session) -> None:
        """There may be something to send."""
        self._reading.drain_soon(session)

    # -- places ----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Have the stream kept from the first tick that a session needs, and not longer."""
        if self._main is not None:
            self._main.acknowledge(self._main.horizon)
        needed = [needs for reader in self.readers.values() if (needs := reader.needs) >= 0]
        self._held = min(needed, default=None)
        self._hub.core.hold(self.name, SESSIONS, self._held)

    def hold_for(self, reader: SessionReader) -> None:
        """Have it kept for one more."""
        if reader.needs >= 0 and (self._held is None or reader.needs < self._held):
            self._held = reader.needs
            self._hub.core.hold(self.name, SESSIONS, self._held)

    def save_soon(self, place: SessionPlace) -> None:
        """It has moved: write it down with the next ones."""
        reader = self._reader(place)
        if reader is not None:
            self._reading.places.save_soon(reader)

    def save_now(self, place: SessionPlace, safe: Callable[[], None] | None = None) -> None:
        """Write it down in this turn of the loop, and call back when that is on disk."""
        self._reading.places.save_now(self._reader(place), safe)

    def _reader(self, place: SessionPlace) -> SessionReader | None:
        """Whose place it is; None: nobody's any more."""
        reader = self.readers.get(place.session)
        return reader if reader is place else None

    def release(self, session: Session, packet_id: int) -> None:
        """The disk knows that the client has a QoS 2 message."""
        self._reading.release(session.client_id, packet_id)

    def figures(self) -> ReaderFigures:
        """A snapshot."""
        live = sum(reader.live and reader.session.attached for reader in self.readers.values())
        away = sum(not reader.session.attached for reader in self.readers.values())
        return ReaderFigures(
            live=live,
            catching_up=len(self.readers) - live - away,
            away=away,
            missed=self.missed + sum(reader.missed for reader in self.readers.values()),
        )

    def close(self) -> None:
        """The node ends."""
        for reader in self.readers.values():
            reader.close_feed()
