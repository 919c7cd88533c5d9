"""Subscriptions of MQTT sessions to streams, from the first SUBSCRIBE to the end of the session."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import StoreError, StreamError, printable
from penstock.mqtt.topics import overlap, shared_of
from penstock.node.streams.sessions.cursor_saver import CursorSaver
from penstock.node.streams.sessions.place import Cursor, open_cursors
from penstock.node.streams.sessions.reader import SessionReader
from penstock.node.streams.sessions.session_readers import SessionReaders
from penstock.node.streams.sessions.stream_readers import StreamReaders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.streams.log.state import Key
    from penstock.node.streams.status import ReaderFigures
    from penstock.node.streams.tree.directory import StreamContext

log = logging.getLogger(__name__)

EARLIEST: Final = "earliest"
"""The start of a subscription that wants everything that is in the log."""

POLL_S: Final = 0.1
"""How often sessions that catch up from another node continue: the end of a stream makes no event."""

TURN_US: Final = 10_000
"""How long sessions that catch up may keep the event loop from everything else."""

SAVE_POLLS: Final = 10
"""Places that have moved are written after so many polls."""


CARRIED: Final = "streams"
"""The name under which a session takes its places along to another node."""

MOVED_S: Final = 60.0
"""How long a stream is kept for a session that has gone to another node, which holds it by itself then."""


def start_from(text: str | None) -> int | None:
    """The tick at which a SUBSCRIBE asks to begin: `earliest` or a number; None: with the next message."""
    if text is None:
        return None
    if text == EARLIEST:
        return 0
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    raise StreamError(f"start is '{text}'; it must be '{EARLIEST}' or a tick, which is a whole number")


class StreamSubscriptions:
    """All sessions of a node that read streams."""

    def __init__(
        self, context: StreamContext, broker: Broker, *, show: Callable[[str, int, bytes], None]
    ) -> None:
        """`show` takes messages (stream, tick, body) of other nodes that are to be retained or have taps."""
        self._context = context
        self._directory = context.directory
        self._broker = broker
        self._show = show
        self._cursors = open_cursors(context.state)
        self._saver = CursorSaver(self._cursors, self._drop)
        self._loaded: dict[Key, Cursor] = {}
        """Cursors of streams that are not known yet, by client identifier and stream."""
        self._streams: dict[str, StreamReaders] = {}
        self._sessions: dict[str, SessionReaders] = {}
        """Sessions that read streams, by client identifier."""
        self._draining: dict[Session, None] = {}
        """Sessions that are drained in the next turns of the event loop, in order."""
        self._turning = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._polls = 0

    # -- start and end ---------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Restore the places of all sessions, in the running loop, before any client is acknowledged."""
        self._loop = loop or asyncio.get_running_loop()
        self._saver.start(self._loop)
        for key, cursor in self._cursors.load(skip=True).items():
            session = self._broker.sessions.get(key[0])
            if session is None or session.born_us != cursor.born_us:
                self._cursors.remove(key)
            else:
                self._loaded[key] = cursor
                for flight in cursor.flight:
                    session.acks.supersede(flight.packet_id, released=flight.released)
        self._directory.on_changed.append(self._directory_changed)
        self._directory_changed()
        self._poll()

    def close(self) -> None:
        """Write the places of all sessions to disk."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None
        for stream in self._streams.values():
            stream.close()
            for reader in stream.readers.values():
                self._saver.save_soon(reader)
        self._saver.close()

    def _directory_changed(self) -> None:
        """Streams have become known, to whose topics sessions may have subscribed already."""
        for known in list(self._directory.known.values()):
            stream = self._streams.get(known.name)
            if stream is None:
                stream = self._streams[known.name] = self._new_stream(known.name, known.topics)
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

    def _new_stream(self, name: str, topics: tuple[str, ...]) -> StreamReaders:
        return StreamReaders(
            name, topics, self._context, self._broker, saver=self._saver, sessions=self, show=self._show
        )

    def _begun(self, session: Session, stream: StreamReaders, filter_: str) -> bool:
        reader = stream.readers.get(session)
        return reader is not None and (filter_ in reader.place.starts or filter_ in reader.place.rewound)

    def _restore(self, session: Session, stream: StreamReaders, cursor: Cursor) -> None:
        for begun in (cursor.starts, cursor.rewound):
            for filter_ in [one for one in begun if one not in session.held]:
                del begun[filter_]
        reader = self._reader(session, stream)
        for flight in reader.place.restore(cursor):
            if flight.released:
                self._sessions[session.client_id].restore_released(
                    reader.sender, flight.tick, flight.packet_id
                )
        if reader.place.idle:  # its subscriptions ended, and that was not written to the cursor
            self._saver.save_now(reader)

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
        """The tick at which a subscription begins; StreamError if it is not possible."""
        if shared_of(filter_).group:
            stream = next((one for one in self._streams.values() if _overlaps(filter_, one)), None)
            if stream is not None:
                raise StreamError(
                    f"shared subscription '{filter_}' has topics of the reliable stream '{stream.name}', "
                    "whose messages cannot be shared out: subscribe without $share"
                )
        return start_from(start)

    def subscribed(self, subscription: Subscription, start: int | None = None) -> None:
        """A session has subscribed, or subscribed again."""
        session = self._broker.sessions.get(subscription.client_id)
        if session is None:
            return  # it is on its way from another node, and `came` follows
        for stream in self._streams.values():
            if _reads(subscription.filter, stream):
                self._begin(session, stream, subscription.filter, start)

    def _begin(self, session: Session, stream: StreamReaders, filter_: str, start: int | None) -> None:
        reader = self._reader(session, stream)
        reader.begin(filter_, start)
        stream.forget_topics()
        stream.hold_for(reader)
        self._saver.save_now(reader)

    def unsubscribed(self, client_id: str, filter_: str) -> None:
        """A session has unsubscribed."""
        for reader in self._readers(client_id):
            reader.place.end(filter_)
            reader.stream.forget_topics()
            self._saver.save_now(reader)

    def after_save(self, session: SessionIdentity, then: Callable[[], None]) -> Callable[[], None]:
        """A callback that calls `then` once it is called and the places of a session are on disk."""
        return self._saver.after_save(self._readers(session.client_id), then) if session.expiry_s else then

    def ended(self, client_id: str) -> None:
        """A session has ended: drop its places."""
        for key in [key for key in self._loaded if key[0] == client_id]:
            del self._loaded[key]
            self._cursors.remove(key)
        for reader in self._readers(client_id):
            self._drop(reader)
        source = self._sessions.pop(client_id, None)
        if source is not None:
            source.session.sources.remove(source)

    def _readers(self, client_id: str) -> list[SessionReader]:
        source = self._sessions.get(client_id)
        return [] if source is None else list(source.readers.values())

    def _drop(self, reader: SessionReader) -> None:
        """Drop a reader and its place: no subscription needs it."""
        if not reader.current:
            return
        session, stream = reader.session, self._streams[reader.stream.name]
        reader.close_feed()
        stream.missed += reader.missed
        del stream.readers[session]
        stream.forget_topics()
        del self._sessions[session.client_id].readers[stream.name]
        self._saver.forget(reader)
        self._cursors.remove((session.client_id, stream.name))
        if not stream.readers:
            stream.hold()

    # -- sessions that move ----------------------------------------------------------------------------------

    def carried(self, client_id: str) -> dict[str, bytes]:
        """The places of a session that goes to another node; the streams are kept for it a while longer."""
        found = {key[1]: cursor for key, cursor in self._loaded.items() if key[0] == client_id}
        for reader in self._readers(client_id):
            name, cursor = reader.stream.name, reader.cursor()
            found[name] = cursor
            if cursor.acked >= 0 and self._loop is not None:
                core, held = self._context.driver.core, f"moved {client_id}"
                core.hold(name, held, cursor.acked)
                self._loop.call_later(MOVED_S, core.hold, name, held, None)
        return {CARRIED: msgspec.msgpack.encode(found)} if found else {}

    def came(self, client_id: str, carried: Mapping[str, bytes]) -> None:
        """Continue a session of another node at its places, as far as this node has the streams."""
        session = self._broker.sessions.get(client_id)
        assert session is not None
        for name, cursor in _cursors(carried.get(CARRIED)).items():
            cursor.born_us = session.born_us
            for flight in cursor.flight:
                session.acks.supersede(flight.packet_id, released=flight.released)
            stream = self._streams.get(name)
            if stream is not None:
                self._restore(session, stream, cursor)
                reader = stream.readers[session]
                stream.forget_topics()
                stream.hold_for(reader)
                self._saver.save_now(reader)
            else:
                self._loaded[client_id, name] = cursor
                if session.expiry_s:
                    self._cursors.put((client_id, name), cursor)
                log.warning(
                    "%s reads stream %s, which this node does not know: it goes on when it does",
                    printable(client_id),
                    printable(name),
                )
        for stream in self._streams.values():
            for filter_ in session.held:
                if _reads(filter_, stream) and not self._begun(session, stream, filter_):
                    self._begin(session, stream, filter_, None)

    # -- sending ---------------------------------------------------------------------------------------------

    def release(self, session: Session, packet_id: int) -> None:
        """Send the PUBREL of a QoS 2 message, unless its session has ended."""
        source = self._sessions.get(session.client_id)
        if source is not None and source.session is session:  # else a later session of the same client
            source.release(packet_id)

    def drain_soon(self, session: Session) -> None:
        """Send to a session what it missed, as much as it takes, in the next turn of the event loop."""
        if self._loop is not None and session.link is not None:
            self._draining[session] = None
            if not self._turning:
                self._turning = True
                self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Drain sessions one after the other for a while, then give way to the rest of the event loop."""
        clock = self._broker.clock
        began_us = now_us = self._broker.now_us = clock()
        while self._draining and now_us - began_us < TURN_US:
            session = next(iter(self._draining))
            del self._draining[session]
            session.drain(now_us=now_us)
            now_us = clock()
        self._turning = bool(self._draining) and self._loop is not None
        if self._turning and self._loop is not None:
            self._loop.call_soon(self._turn)

    def _poll(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(POLL_S, self._poll)
        self._polls += 1
        if self._polls % SAVE_POLLS == 0:
            for stream in self._streams.values():
                for reader in stream.readers.values():
                    if reader.place.acked != reader.place.saved:
                        self._saver.save_soon(reader)
                stream.hold()
            self._saver.save()
        for stream in self._streams.values():
            stream.poll()

    def figures(self) -> dict[str, ReaderFigures]:
        """How many sessions read each stream, and how many of them are behind or away."""
        return {name: stream.figures() for name, stream in self._streams.items()}


def _cursors(data: bytes | None) -> dict[str, Cursor]:
    """Places that have come from another node; StoreError if they are damaged."""
    try:
        return {} if data is None else msgspec.msgpack.decode(data, type=dict[str, Cursor])
    except (msgspec.DecodeError, RecursionError) as error:
        raise StoreError(f"damaged places in streams: {error}", "another node") from None


def _overlaps(filter_: str, stream: StreamReaders) -> bool:
    return any(overlap(filter_, one) for one in stream.topics)


def _reads(filter_: str, stream: StreamReaders) -> bool:
    """Whether a subscription gets messages of a stream."""
    return not shared_of(filter_).group and _overlaps(filter_, stream)
