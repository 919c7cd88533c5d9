"""One session's reader of one stream: takes messages as they arrive, or from a feed while it is behind.

A reader is *live* as long as every message can be sent when it arrives. Otherwise it is *behind*: it keeps
its position and nothing else, and asks a feed for what follows when there is room. When it has reached what
live readers were given, it is live again.

    live ──no room, connection gone──► behind ──position = what live readers were given──► live

`place` holds the position and what is in flight; `sender` sends the messages.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock import limits
from penstock.node.streams.sessions.place import FIRST, SessionPlace, StreamPosition
from penstock.node.streams.sessions.sender import SessionSender

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.instant import Instant
    from penstock.node.broker.session import Session
    from penstock.node.streams.sessions.feeds import Feed, FeedBatch, TickAndBody
    from penstock.node.streams.sessions.items import Choice, StreamItem
    from penstock.node.streams.sessions.place import Cursor

log = logging.getLogger(__name__)


class ReaderOwner(StreamPosition, Protocol):
    """All readers of a stream together, as one of them uses them."""

    name: str
    """The name of the stream."""

    def serves(self, reader: SessionReader) -> bool:
        """Whether the session still reads the stream with this reader."""
        ...

    def item(self, tick: int, body: bytes) -> StreamItem | None:
        """Decode a message; None if it cannot be decoded, which is logged."""
        ...

    def choice(self, reader: SessionReader, item: StreamItem, *, now_us: Instant) -> Choice | None:
        """How a message is sent to the session of a reader; None if no subscription wants it."""
        ...

    def open_feed(self, reader: SessionReader) -> Feed | None:
        """A feed for a reader that is behind; None if too many are open."""
        ...

    def closed_feed(self, reader: SessionReader) -> None:
        """Note that a reader has closed its feed."""
        ...

    def forget_topics(self) -> None:
        """Find out anew which readers want which topics: subscriptions have changed."""
        ...

    def save_now(self, reader: SessionReader, safe: Callable[[], None] | None = None) -> None:
        """Write the place of a reader to disk in this turn of the event loop, then call `safe`."""
        ...

    def save_soon(self, reader: SessionReader) -> None:
        """Write the place of a reader to disk within about a second."""
        ...

    def release(self, session: Session, packet_id: int) -> None:
        """Send the PUBREL of a QoS 2 message."""
        ...

    def drain_soon(self, session: Session) -> None:
        """Continue to send to a session in a later turn of the event loop."""
        ...


class SessionReader:
    """The reader of one session for one stream."""

    def __init__(self, session: Session, stream: ReaderOwner) -> None:
        self.session = session
        self.stream = stream
        self.place = SessionPlace(session, stream)
        self.sender = SessionSender(session, self.place, self)
        self.missed = 0
        """Spans that were trimmed from the log before this reader got them."""
        self._batch: deque[TickAndBody] = deque()
        """Messages that the feed has given and that are not sent yet."""
        self._batch_until = FIRST
        """The tick behind the span that the batch covers."""
        self._feed: Feed | None = None

    @property
    def current(self) -> bool:
        """Whether the session still reads the stream with this reader."""
        return self.stream.serves(self)

    @property
    def fed(self) -> bool:
        """Whether the reader has a feed."""
        return self._feed is not None

    # -- subscriptions and the cursor ------------------------------------------------------------------------

    def begin(self, filter_: str, start: int | None) -> None:
        """Begin a subscription at a tick; None: now, or where it is if it exists already."""
        if self.place.begin(filter_, start):
            self.try_rewind()

    def try_rewind(self) -> None:
        """Go back for subscriptions that begin earlier, if nothing is in flight."""
        if self.place.rewind():
            self._drop_batch()
            self.stream.forget_topics()
            self.stream.save_now(self)

    def cursor(self) -> Cursor:
        """The cursor to write to disk; messages sent from now on need another write."""
        self.sender.close_outbox()
        return self.place.cursor()

    # -- what the sender asks for ----------------------------------------------------------------------------

    def save_now(self, safe: Callable[[], None]) -> None:
        """Write the place to disk in this turn of the event loop; call `safe` when it is there."""
        self.stream.save_now(self, safe)

    def save_soon(self) -> None:
        """Write the place to disk within about a second."""
        self.stream.save_soon(self)

    def release(self, packet_id: int) -> None:
        """Send the PUBREL of a QoS 2 message."""
        self.stream.release(self.session, packet_id)

    def resume(self) -> None:
        """Continue to send in a later turn of the event loop."""
        self.stream.drain_soon(self.session)

    # -- messages --------------------------------------------------------------------------------------------

    def offer(self, item: StreamItem, choice: Choice, *, now_us: Instant) -> None:
        """Send a message that has just arrived, or fall behind; called only while the reader is live."""
        blocked = self.session.delivery.blocked
        if blocked or self.place.rewound or not self.sender.send(item, choice, now_us):
            self._fall_behind(item.tick)

    def lost_link(self) -> None:
        """The connection is gone: what was sent is sent again over the next one."""
        if self.place.live and self.place.position != FIRST:
            self._fall_behind(self.place.position)
        else:
            self._drop_batch()
        self.sender.lost_link()

    def _fall_behind(self, position: int) -> None:
        self.place.fall_behind(position)
        self._drop_batch()

    def catch_up(self, *, now_us: Instant) -> bool:
        """Send what was missed; False if more is left than one turn of the event loop should send."""
        delivery, place = self.session.delivery, self.place
        if delivery.link is None or place.live or self.stream.at < 0:
            return True
        for _ in range(limits.STREAM_READ):
            if delivery.blocked:
                return True
            if not self._batch and not self._fetch():
                return True
            if not self._batch:
                continue
            tick, body = self._batch[0]
            if not self._send_next(tick, body, now_us):
                return True
            self._batch.popleft()
            place.behind_at = tick + 1 if self._batch else max(tick + 1, self._batch_until)
        return False

    def _send_next(self, tick: int, body: bytes, now_us: Instant) -> bool:
        """Send a message of the feed if it is for this session; False if there is no room."""
        item = self.stream.item(tick, body)
        if item is None:
            return True
        place = self.place
        choice = self.stream.choice(self, item, now_us=now_us)
        again = place.second.get(tick)
        if again is not None:
            if tick not in place.unsent:
                return True
            return self.sender.send_again(item, again, choice, now_us)
        if tick < place.given and tick not in place.lesser:
            return True  # it was sent and acknowledged before a restart
        if choice is not None and not self.sender.send(item, choice, now_us):
            return False
        place.lesser.discard(tick)
        return True

    # -- the feed --------------------------------------------------------------------------------------------

    def _fetch(self) -> bool:
        """Get more messages from the feed; False if there are none yet, or no more are needed."""
        self.try_rewind()
        place, at = self.place, self.stream.at
        if place.rewound and place.behind_at >= min(at, place.given):
            return False  # wait until nothing is in flight
        if place.behind_at >= at:
            place.live = True
            self.close_feed()
            return False
        if self._feed is None:
            self._feed = self.stream.open_feed(self)
            if self._feed is None:
                return False
        found = self._feed.take(place.behind_at, at)
        if found is None:
            return False
        self._take(found)
        return True

    def _take(self, found: FeedBatch) -> None:
        place = self.place
        lenient = place.lenient
        self._batch.extend(found.messages)
        self._batch_until = found.until
        if found.messages:
            place.lenient = False
        else:
            place.behind_at = max(place.behind_at, found.until)
        if found.missed is None:
            return
        since, until = found.missed
        for tick in [tick for tick in place.unsent if since <= tick < until]:
            place.unsent.discard(tick)
            self.session.exchange.ids.free(place.second.pop(tick).packet_id)
        if not lenient:
            self.lose(since, until)

    def lose(self, since: int, until: int) -> None:
        """Count and log messages that the client should have got and that are no longer in the log."""
        self.missed += 1
        log.error(
            "client '%s' misses ticks %d to %d of stream '%s', which are no longer in the log",
            self.session.client_id,
            since,
            until,
            self.stream.name,
        )

    def _drop_batch(self) -> None:
        self._batch.clear()
        self.close_feed()

    def close_feed(self) -> None:
        """Close the feed, if there is one."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()
            self.stream.closed_feed(self)
