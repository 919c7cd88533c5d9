"""Subscriptions of MQTT sessions to streams, from the first SUBSCRIBE to the end of the session.

`CursorSaver` writes the positions of sessions to disk. That a client has a message of QoS 1 is written
about every second; after a crash the message is sent again with the same tick. What must be on disk
before a packet goes out (QoS 2, a new subscription) is written in the same turn of the event loop, for
all sessions together.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.errors import StreamError
from penstock.mqtt.topics import overlap, shared_of
from penstock.node.streams.sessions.cursors import Cursors
from penstock.node.streams.sessions.reader import SessionReader
from penstock.node.streams.sessions.session_readers import SessionReaders
from penstock.node.streams.sessions.stream_readers import StreamReaders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.model.instant import Instant
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.streams.service import StreamService
    from penstock.node.streams.sessions.cursors import Cursor
    from penstock.node.streams.status import ReaderFigures


class CursorSaver:
    """Of all sessions and streams."""

    def __init__(self, cursors: Cursors, drop: Callable[[SessionReader], None]) -> None:
        self._cursors = cursors
        self._drop = drop
        """What becomes of readers that nobody needs."""
        self._moved: dict[SessionReader, None] = {}
        """Whose place on disk is behind."""
        self._urgent: dict[SessionReader, None] = {}
        self._safe: list[Callable[[], None]] = []
        """To be called when the rows of these are on disk."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write from now on."""
        self._loop = loop

    def close(self) -> None:
        """Write what is left."""
        self._loop = None
        self._flush()
        self.save()

    def save_soon(self, reader: SessionReader) -> None:
        """A place has moved."""
        if reader.durable:
            self._moved[reader] = None

    def save_now(self, reader: SessionReader | None, safe: Callable[[], None] | None = None) -> None:
        """Write a place down, with all that wait, in this turn of the loop; then call back."""
        if reader is not None:
            self._urgent[reader] = None
        if safe is not None:
            self._safe.append(safe)
        if not self._flushing and self._loop is not None:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def behind(self, readers: Iterable[SessionReader], then: Callable[[], None]) -> Callable[[], None]:
        """What does something when it was called and the places of readers, as they are now, are on disk."""
        if not any(reader in self._urgent for reader in readers):
            return then
        both = _Both(then)
        self._safe.append(both)
        return both

    def forget(self, reader: SessionReader) -> None:
        """Nobody needs its place any more."""
        self._moved.pop(reader, None)
        self._urgent.pop(reader, None)

    def save(self) -> None:
        """Write places that have moved."""
        moved, self._moved = self._moved, {}
        self._write(moved, [])

    def _flush(self) -> None:
        self._flushing = False
        urgent, self._urgent = self._urgent, {}
        callbacks, self._safe = self._safe, []
        self._write(urgent, callbacks)

    def _write(self, readers: dict[SessionReader, None], callbacks: list[Callable[[], None]]) -> None:
        written: list[tuple[SessionReader, int]] = []
        for reader in readers:
            if reader.idle:
                self._drop(reader)
                continue
            cursor = reader.write_down()
            if reader.durable and reader.current:
                self._moved.pop(reader, None)
                written.append((reader, cursor.acked))
                self._cursors.put(reader.session.client_id, reader.stream.name, cursor)
        if written or callbacks:
            self._cursors.when_durable(lambda: _durable(written, callbacks))


class _Both:
    """Does something when it was called twice."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._calls = 0

    def __call__(self) -> None:
        self._calls += 1
        if self._calls == 2:
            self._then()


def _durable(written: list[tuple[SessionReader, int]], callbacks: list[Callable[[], None]]) -> None:
    for reader, acked in written:
        reader.saved = acked
    for callback in callbacks:
        callback()


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


class StreamSubscriptions:
    """All sessions of a node that read streams."""

    def __init__(self, service: StreamService, broker: Broker) -> None:
        self.service = service
        self._broker = broker
        self.router = broker.router
        self.clock = broker.clock
        self.properties = broker.properties
        self._cursors = Cursors(service.state)
        self.places = CursorSaver(self._cursors, self._drop)
        self._loaded: dict[tuple[str, str], Cursor] = {}
        """Rows of streams that are not known yet."""
        self._streams: dict[str, StreamReaders] = {}
        self._sessions: dict[str, SessionReaders] = {}
        """Those that read streams, by client identifier."""
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
                    session.acks.supersede(flight.packet_id, released=flight.released)
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
        for flight in reader.restore(cursor):
            if flight.released:
                self._sessions[session.client_id].restore_released(reader, flight.tick, flight.packet_id)
        if reader.idle:  # its subscriptions ended, and only that was on disk
            self.places.save_now(reader)

    def _reader(self, session: Session, stream: StreamReaders) -> SessionReader:
        reader = stream.readers.get(session)
        if reader is None:
            source = self._sessions.get(session.client_id)
            if source is None:
                source = SessionReaders(session, partial(self.drain_soon, session))
                self._sessions[session.client_id] = source
                session.sources.append(source)
            reader = stream.readers[session] = SessionReader(session, stream)
            source.readers[stream.name] = reader
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

    def subscribed(self, subscription: Subscription, start: int | None = None) -> None:
        """A session's subscription begins, or is made once more."""
        session = self._broker.sessions.get(subscription.client_id)
        assert session is not None
        for stream in self._streams.values():
            if _reads(subscription.filter, stream):
                self._begin(session, stream, subscription.filter, start)

    def _begin(self, session: Session, stream: StreamReaders, filter_: str, start: int | None) -> None:
        reader = self._reader(session, stream)
        reader.begin(filter_, start)
        stream.forget()
        stream.hold_for(reader)
        self.places.save_now(reader)

    def unsubscribed(self, client_id: str, filter_: str) -> None:
        """A session's subscription has ended."""
        for reader in self._readers(client_id):
            reader.end(filter_)
            reader.stream.forget()
            self.places.save_now(reader)

    def ended(self, client_id: str) -> None:
        """A session has departed."""
        for key in [key for key in self._loaded if key[0] == client_id]:
            del self._loaded[key]
            self._cursors.remove(*key)
        for reader in self._readers(client_id):
            self._drop(reader)
        self._sessions.pop(client_id, None)

    def held_back(self, session: SessionIdentity, answer: Callable[[], None]) -> Callable[[], None]:
        """Have an answer to a session that is kept wait until its new places are on disk."""
        return self.places.behind(self._readers(session.client_id), answer) if session.expiry_s else answer

    def release(self, client_id: str, packet_id: int) -> None:
        """The disk knows that a client has a QoS 2 message."""
        source = self._sessions.get(client_id)
        if source is not None:
            source.release(packet_id)

    def _readers(self, client_id: str) -> list[SessionReader]:
        source = self._sessions.get(client_id)
        return [] if source is None else list(source.readers.values())

    def _drop(self, reader: SessionReader) -> None:
        """Nobody needs its place any more."""
        session, stream = reader.session, reader.stream
        if not reader.current:
            return
        reader.close_feed()
        stream.missed += reader.missed
        stream.readers.pop(session, None)
        stream.forget()
        source = self._sessions.get(session.client_id)
        if source is not None:
            source.readers.pop(stream.name, None)
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
