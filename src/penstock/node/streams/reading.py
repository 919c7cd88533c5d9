"""Gives streams to MQTT sessions: who reads what, from their first subscription to the session's end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.errors import StreamError
from penstock.mqtt.overlap import overlap
from penstock.mqtt.topics import shared_of
from penstock.node.streams.cursors import Cursors
from penstock.node.streams.reader import Reader
from penstock.node.streams.reading_saving import Saving
from penstock.node.streams.reading_session import SessionReading
from penstock.node.streams.reading_stream import StreamReaders

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.node.broker import Broker
    from penstock.node.session import Session
    from penstock.node.streams.cursors import Cursor
    from penstock.node.streams.service import StreamService
    from penstock.node.streams.status import ReaderFigures
    from penstock.node.subscription import Subscription

EARLIEST: Final = "earliest"

LOOK_S: Final = 0.1
"""How often sessions that catch up from another node are looked at: the end of a stream makes no event."""

TURN_US: Final = 10_000
"""How long sessions that catch up may keep everything else waiting."""

SAVE_LOOKS: Final = 10
"""Places that have moved are written every so many looks."""


def start_from(text: str | None) -> int | None:
    """What a SUBSCRIBE says about where to begin: `earliest` or a tick; None: with what comes from now on."""
    if text is None:
        return None
    if text == EARLIEST:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    raise StreamError(f"start is '{text}'; it is '{EARLIEST}' or a tick, which is a whole number")


class Reading:
    """All sessions of a node that read streams."""

    def __init__(self, service: StreamService, broker: Broker) -> None:
        self.service = service
        self._broker = broker
        self.router = broker.router
        self.clock = broker.clock
        self.properties = broker.properties
        self._cursors = Cursors(service.state)
        self.places = Saving(self._cursors, self._drop)
        self._loaded: dict[tuple[str, str], Cursor] = {}
        """Rows of streams that are not known yet."""
        self._streams: dict[str, StreamReaders] = {}
        self._draining: dict[Session, None] = {}
        self._turning = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looks = 0

    # -- living ----------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Go on where sessions were, in the running loop; before anything is acknowledged to anybody."""
        self._loop = loop or asyncio.get_running_loop()
        self.places.start(self._loop)
        for key, cursor in self._cursors.load().items():
            session = self._broker.sessions.get(key[0])
            if session is None or session.born_us != cursor.born_us:
                self._cursors.remove(*key)
            else:
                self._loaded[key] = cursor
                for flight in cursor.flight:
                    session.supersede(flight.packet_id, released=flight.released)
        self.service.on_known_changed.append(self._known_changed)
        self._known_changed()
        self._look()

    def close(self) -> None:
        """Write down where sessions are."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None
        for stream in self._streams.values():
            stream.close()
            for reader in stream.readers.values():
                self.places.save_soon(reader)
        self.places.close()

    def _known_changed(self) -> None:
        """Streams have come to be known: sessions may have subscribed to their topics already."""
        for known in list(self.service.known.values()):
            stream = self._streams.get(known.name)
            if stream is None:
                stream = self._streams[known.name] = StreamReaders(self, known.name, known.topics)
            elif stream.topics == known.topics:
                continue
            stream.topics = known.topics
            for session in self._broker.sessions:
                cursor = self._loaded.pop((session.client_id, known.name), None)
                if cursor is not None:
                    self._restore(session, stream, cursor)
                for filter_ in session.held:
                    if _reads(filter_, stream) and not self._begun(session, stream, filter_):
                        self._begin(session, stream, filter_, None)
            stream.hold()

    def _begun(self, session: Session, stream: StreamReaders, filter_: str) -> bool:
        reader = stream.readers.get(session)
        return reader is not None and (filter_ in reader.starts or filter_ in reader.rewound)

    def _restore(self, session: Session, stream: StreamReaders, cursor: Cursor) -> None:
        for begun in (cursor.starts, cursor.rewound):
            for filter_ in [one for one in begun if one not in session.held]:
                del begun[filter_]
        reader = self._reader(session, stream)
        assert session.streams is not None
        for flight in reader.restore(cursor):
            if flight.released:
                session.streams.restore_released(reader, flight.tick, flight.packet_id)
        if reader.idle:  # its subscriptions ended, and only that was on disk
            self.places.save_now(reader)

    def _reader(self, session: Session, stream: StreamReaders) -> Reader:
        reader = stream.readers.get(session)
        if reader is None:
            if session.streams is None:
                session.streams = SessionReading(session, partial(self.drain_soon, session))
            reader = stream.readers[session] = Reader(session, stream)
            session.streams.readers[stream.name] = reader
        return reader

    # -- subscriptions ---------------------------------------------------------------------------------------

    def check(self, filter_: str, start: str | None) -> int | None:
        """Where a subscription is to begin; StreamError if it cannot be had."""
        if shared_of(filter_).group:
            stream = next((one for one in self._streams.values() if _overlaps(filter_, one)), None)
            if stream is not None:
                raise StreamError(
                    f"topics of '{filter_}' are those of the reliable stream '{stream.name}', "
                    "whose messages cannot be shared out: subscribe without $share"
                )
        return start_from(start)

    def subscribed(self, session: Session, subscription: Subscription, start: int | None = None) -> None:
        """A session's subscription begins, or is made once more."""
        for stream in self._streams.values():
            if _reads(subscription.filter, stream):
                self._begin(session, stream, subscription.filter, start)

    def _begin(self, session: Session, stream: StreamReaders, filter_: str, start: int | None) -> None:
        reader = self._reader(session, stream)
        reader.begin(filter_, start)
        stream.forget()
        stream.hold_for(reader)
        self.places.save_now(reader)

    def unsubscribed(self, session: Session, filter_: str) -> None:
        """A session's subscription has ended."""
        if session.streams is None:
            return
        for reader in list(session.streams.readers.values()):
            reader.end(filter_)
            reader.stream.forget()
            self.places.save_now(reader)

    def ended(self, session: Session) -> None:
        """A session has departed."""
        for key in [key for key in self._loaded if key[0] == session.client_id]:
            del self._loaded[key]
            self._cursors.remove(*key)
        if session.streams is None:
            return
        for reader in list(session.streams.readers.values()):
            self._drop(reader)
        session.streams = None

    def _drop(self, reader: Reader) -> None:
        """Nobody needs its place any more."""
        session, stream = reader.session, reader.stream
        if not reader.current:
            return
        reader.close_feed()
        stream.missed += reader.missed
        stream.readers.pop(session, None)
        stream.forget()
        if session.streams is not None:
            session.streams.readers.pop(stream.name, None)
        self.places.forget(reader)
        self._cursors.remove(session.client_id, stream.name)
        if not stream.readers:
            stream.hold()

    # -- sending ---------------------------------------------------------------------------------------------

    def drain_soon(self, session: Session) -> None:
        """Send what a session missed, as much as it takes, in the next turn of the loop."""
        if self._loop is not None and session.link is not None:
            self._draining[session] = None
            if not self._turning:
                self._turning = True
                self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Sessions that are behind take turns, and the loop has some, too."""
        began_us = now_us = self._broker.now_us = self.clock()
        while self._draining and now_us - began_us < TURN_US:
            session = next(iter(self._draining))
            del self._draining[session]
            session.drain(now_us=now_us)
            now_us = self.clock()
        self._turning = bool(self._draining) and self._loop is not None
        if self._turning and self._loop is not None:
            self._loop.call_soon(self._turn)

    def now_us(self) -> Instant:
        """When the present turn of the loop began, about."""
        return self._broker.now_us

    def _look(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(LOOK_S, self._look)
        self._looks += 1
        if self._looks % SAVE_LOOKS == 0:
            for stream in self._streams.values():
                for reader in stream.readers.values():
                    if reader.acked != reader.saved:
                        self.places.save_soon(reader)
                stream.hold()
            self.places.save()
        for stream in self._streams.values():
            stream.look()

    # -- what can be known -----------------------------------------------------------------------------------

    def figures(self) -> dict[str, ReaderFigures]:
        """How many sessions read each stream, and how they fare."""
        return {name: stream.figures() for name, stream in self._streams.items()}


def _overlaps(filter_: str, stream: StreamReaders) -> bool:
    return any(overlap(filter_, one) for one in stream.topics)


def _reads(filter_: str, stream: StreamReaders) -> bool:
    """Whether a subscription gets messages of a stream."""
    return not shared_of(filter_).group and _overlaps(filter_, stream)
