"""All readers of one stream at this node: one subend feeds all that are live, feeds serve those behind."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.errors import MqttError, StreamError
from penstock.mqtt.topics import check_topic
from penstock.node.streams.sessions.feeds import LogFeed, TreeFeed
from penstock.node.streams.sessions.items import StreamItem, choose, chosen, plain
from penstock.node.streams.sessions.place import FIRST
from penstock.node.streams.status import ReaderFigures

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.subend import Subend
    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.streams.sessions.cursor_saver import CursorSaver
    from penstock.node.streams.sessions.feeds import Feed
    from penstock.node.streams.sessions.items import Choice
    from penstock.node.streams.sessions.reader import SessionReader
    from penstock.node.streams.tree.directory import StreamContext

log = logging.getLogger(__name__)

MAIN: Final = "main"
"""The subend that feeds all sessions that keep up."""

SESSIONS: Final = "sessions"
"""The name under which a stream is held for sessions."""


class SessionDraining(Protocol):
    """The node's subscriptions, as the readers of a stream use them."""

    def drain_soon(self, session: Session) -> None:
        """Send to a session what it missed, in a later turn of the event loop."""
        ...

    def release(self, session: Session, packet_id: int) -> None:
        """Send the PUBREL of a QoS 2 message."""
        ...


class Interested:
    """The subscriptions of one session to one topic."""

    __slots__ = ("choice", "place", "reader", "subscriptions")

    def __init__(self, reader: SessionReader, subscriptions: list[Subscription]) -> None:
        self.reader = reader
        self.place = reader.place
        self.subscriptions = subscriptions
        self.choice = chosen(subscriptions) if plain(subscriptions) else None
        """How messages are sent, if the topic alone decides; None: each message has to be looked at."""


class StreamReaders:
    """The readers of one stream."""

    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        context: StreamContext,
        broker: Broker,
        *,
        saver: CursorSaver,
        sessions: SessionDraining,
        show: Callable[[str, int, bytes], None],
    ) -> None:
        """`show` takes messages (stream, tick, body) of other nodes that are to be retained or have taps."""
        self.name = name
        self.topics = topics
        self.missed = 0
        """Spans missed by sessions that have ended."""
        self._broker = broker
        self._router = broker.router
        self._saver = saver
        self._sessions = sessions
        self._show = show
        self._driver = context.driver
        self._clock = context.clock
        self._hosted = context.directory.hosted.get(name)
        self.readers: dict[Session, SessionReader] = {}
        self._topics: dict[str, dict[SessionReader, Interested]] = {}
        """The readers that want a topic, found out as topics occur; valid for `_version` of the router."""
        self._version = -1
        self._held: int | None = None
        """The first tick that the stream keeps for sessions."""
        self._feeding: dict[SessionReader, None] = {}
        """Readers that catch up from another node."""
        start = None if self._hosted is None else self._hosted.end
        self.at = FIRST if start is None else start
        """Messages before this tick were handed to all live readers; FIRST: not known yet."""
        self._main: Subend | None = None
        """Delivers the messages of a stream hosted elsewhere; a stream hosted here comes from its log."""
        if self._hosted is None:
            self._main = self._driver.core.subscribe(name, MAIN, start=start)
            self._driver.delivered[name, MAIN] = self._delivered
            self._driver.missed[name, MAIN] = self._missed
        else:
            self._hosted.on_messages.append(self._committed)
            self._hosted.on_ready.append(self._ready)

    # -- messages arrive -------------------------------------------------------------------------------------

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
        if self._hosted is None and (item.record.retain or self._router.tapped):
            # A stream hosted here shows its messages at the commit.
            self._show(self.name, tick, body)
        if not self.readers:
            return
        now_us = self._broker.now_us
        for each in self._interested(item.record.topic).values():
            if each.place.is_live(tick):
                choice = each.choice
                if choice is None:
                    choice = choose(each.subscriptions, item, each.place.starts, now_us=now_us)
                if choice is not None:
                    each.reader.offer(item, choice, now_us=now_us)

    def _missed(self, since: int, until: int) -> None:
        """Messages were trimmed from the log of another node before they arrived here."""
        for reader in self.readers.values():
            if reader.place.live:
                reader.lose(since, until)

    def item(self, tick: int, body: bytes) -> StreamItem | None:
        """Decode a message; None if it cannot be decoded, which is logged."""
        try:
            found = StreamItem(self.name, tick, body, read=self._broker.properties)
            if found.record.topic not in self._topics:
                check_topic(found.record.topic, where="topic")
        except (StreamError, MqttError) as error:
            log.error("stream '%s', tick %d: %s; the message is skipped", self.name, tick, error)  # noqa: TRY400
            return None
        return found

    def choice(self, reader: SessionReader, item: StreamItem, *, now_us: Instant) -> Choice | None:
        """How a message is sent to the session of a reader; None if no subscription wants it."""
        found = self._interested(item.record.topic).get(reader)
        return None if found is None else choose(found.subscriptions, item, found.place.starts, now_us=now_us)

    def _interested(self, topic: str) -> dict[SessionReader, Interested]:
        router = self._router
        if self._version != router.version or len(self._topics) >= limits.ROUTES:
            self._topics.clear()
            self._version = router.version
        found = self._topics.get(topic)
        if found is None:
            by_reader: dict[SessionReader, list[Subscription]] = {}
            for each in router.subscriptions(topic):
                reader = self.readers.get(each.session)
                if reader is not None and each.subscription.filter in reader.place.starts:
                    by_reader.setdefault(reader, []).append(each.subscription)
            found = {reader: Interested(reader, each) for reader, each in by_reader.items()}
            self._topics[topic] = found
        return found

    def forget_topics(self) -> None:
        """Find out anew which readers want which topics: subscriptions have changed."""
        self._topics.clear()

    @property
    def now(self) -> int:
        """The tick at which a subscription made now begins; FIRST: with the first message that arrives."""
        if self.at < 0 and not self._driver.busy and self._main is not None and self._main.horizon:
            self.at = self._main.horizon
        self.at = max(self.at, self.begin)  # trimming goes on while no message arrives
        return self.at

    @property
    def begin(self) -> int:
        """The first tick that can be had, as far as this node knows; FIRST: not known."""
        return FIRST if self._hosted is None else self._hosted.begin

    # -- feeds -----------------------------------------------------------------------------------------------

    def open_feed(self, reader: SessionReader) -> Feed | None:
        """A feed for a reader that is behind; None if too many are open, and it has to wait for its turn."""
        if self._hosted is not None:
            return LogFeed(self._hosted)
        if len(self._feeding) >= limits.STREAM_FEEDS:
            return None
        self._feeding[reader] = None
        return TreeFeed(self._driver, self.name, reader.session.client_id, clock=self._clock)

    def closed_feed(self, reader: SessionReader) -> None:
        """Note that a reader has closed its feed."""
        self._feeding.pop(reader, None)

    def poll(self) -> None:
        """Have readers that are behind continue; called regularly, as nothing else may wake them."""
        if self.now < 0:
            return
        for reader in self.readers.values():
            if not reader.place.live:
                if reader.sender.takes_more:
                    self.drain_soon(reader.session)
                elif len(self._feeding) >= limits.STREAM_FEEDS:
                    reader.close_feed()  # its client does not read, so another reader may have the feed

    def _ready(self) -> None:
        """The log has read what a feed asked for."""
        for reader in list(self.readers.values()):
            if reader.fed:
                self.drain_soon(reader.session)

    def drain_soon(self, session: Session) -> None:
        """Continue to send to a session in a later turn of the event loop."""
        self._sessions.drain_soon(session)

    # -- places ----------------------------------------------------------------------------------------------

    def serves(self, reader: SessionReader) -> bool:
        """Whether the session still reads the stream with this reader."""
        return self.readers.get(reader.session) is reader

    def hold(self) -> None:
        """Keep the stream from the first tick that a session needs, and no more."""
        if self._main is not None:
            self._main.acknowledge(self._main.horizon)
        needed = [needs for reader in self.readers.values() if (needs := reader.place.needs) >= 0]
        self._held = min(needed, default=None)
        self._driver.core.hold(self.name, SESSIONS, self._held)

    def hold_for(self, reader: SessionReader) -> None:
        """Keep the stream for one more reader."""
        needs = reader.place.needs
        if needs >= 0 and (self._held is None or needs < self._held):
            self._held = needs
            self._driver.core.hold(self.name, SESSIONS, needs)

    def save_soon(self, reader: SessionReader) -> None:
        """Write the place of a reader to disk within about a second."""
        if self.serves(reader):
            self._saver.save_soon(reader)

    def save_now(self, reader: SessionReader, safe: Callable[[], None] | None = None) -> None:
        """Write the place of a reader to disk in this turn of the event loop, then call `safe`."""
        self._saver.save_now(reader if self.serves(reader) else None, safe)

    def release(self, session: Session, packet_id: int) -> None:
        """Send the PUBREL of a QoS 2 message."""
        self._sessions.release(session, packet_id)

    def figures(self) -> ReaderFigures:
        """How many readers are live, behind and away."""
        live = sum(reader.place.live and reader.session.attached for reader in self.readers.values())
        away = sum(not reader.session.attached for reader in self.readers.values())
        return ReaderFigures(
            live=live,
            catching_up=len(self.readers) - live - away,
            away=away,
            missed=self.missed + sum(reader.missed for reader in self.readers.values()),
        )

    def close(self) -> None:
        """Close all feeds."""
        for reader in self.readers.values():
            reader.close_feed()
