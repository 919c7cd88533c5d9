"""A session's reader of a stream.

A reader is *live* as long as every message that comes can be sent at once. Else it is *behind*: it remembers
its position and nothing else, and asks a feed for what follows when there is room. Having reached what live
readers were told, it is live again.

    live ──no room, connection gone──► behind ──position = what was told──► live

What survives a restart is the tick before which the client has everything; from there messages are sent
again, and the client knows them by their ticks. QoS 2 messages are not: see `reading_sender`.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from penstock import limits
from penstock.node.streams.reading_place import FIRST
from penstock.node.streams.reading_sender import Sender

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.node.session import Session
    from penstock.node.streams.choosing import Choice
    from penstock.node.streams.feeds import Feed, Helping, Told
    from penstock.node.streams.reading_item import Item
    from penstock.node.streams.reading_stream import StreamReaders

log = logging.getLogger(__name__)


class Reader(Sender):
    """One session and one stream."""

    def __init__(self, session: Session, stream: StreamReaders) -> None:
        super().__init__(session, stream)
        self.missed = 0
        """Spans that the log had let go."""
        self._helping: deque[Told] = deque()
        self._reached = FIRST
        """Where the messages of the helping end."""
        self._feed: Feed | None = None

    # -- a message comes -------------------------------------------------------------------------------------

    def offer(self, item: Item, choice: Choice, *, now_us: Instant) -> None:
        """The next message for it; it is live."""
        link = self.session.link
        if link is None or link.paused or self.rewound or not self._give(item, choice, now_us):
            self.fall_behind(item.tick)

    def fall_behind(self, position: int) -> None:
        """Go on from a position by a feed."""
        super().fall_behind(position)
        self._helping.clear()
        self.close_feed()

    def lost_link(self) -> None:
        """The connection is gone; what was sent is sent again over the next."""
        if self.live and self.position != FIRST:
            self.fall_behind(self.position)
        self._helping.clear()
        self.close_feed()
        super().lost_link()

    def catch_up(self, *, now_us: Instant) -> bool:
        """Send what was missed; False if there was more than a turn of the loop should take."""
        link = self.session.link
        if link is None or self.live or self.stream.at < 0:
            return True
        for _ in range(limits.STREAM_READ):
            if link.paused:
                return True
            if not self._helping and not self._ask():
                return True
            if not self._helping:
                continue
            tick, body = self._helping[0]
            if not self._next(tick, body, now_us):
                return True
            self._helping.popleft()
            self._position = tick + 1 if self._helping else max(tick + 1, self._reached)
        return False

    def _ask(self) -> bool:
        """Get more from the feed; False if it is not there yet, or not needed any more."""
        self.try_rewind()
        at = self.stream.at
        if self.rewound and self._position >= min(at, self._given):
            return False  # until nothing is in flight
        if self._position >= at:
            self.live = True
            self.close_feed()
            return False
        if self._feed is None:
            self._feed = self.stream.open_feed(self)
            if self._feed is None:
                return False
        found = self._feed.take(self._position, at)
        if found is None:
            return False
        self._take(found)
        return True

    def _take(self, found: Helping) -> None:
        self._helping.extend(found.messages)
        lenient = self.lenient
        if found.messages:
            self.lenient = False
        self._reached = found.until
        if not found.messages:
            self._position = max(self._position, found.until)
        if found.missed is None:
            return
        since, until = found.missed
        for tick in [tick for tick in self._unsent if since <= tick < until]:
            self._unsent.discard(tick)
            self.session.exchange.ids.free(self._second.pop(tick).packet_id)
        if not lenient:
            self.misses(since, until)

    def misses(self, since: int, until: int) -> None:
        """The log has let go what its client should have got."""
        self.missed += 1
        log.error(
            "client '%s' misses ticks %d to %d of stream '%s': the log has let them go",
            self.session.client_id,
            since,
            until,
            self.stream.name,
        )

    def _next(self, tick: int, body: bytes, now_us: Instant) -> bool:
        """Send a message if it is for this session; False if there is no room."""
        item = self.stream.item(tick, body)
        if item is None:
            return True
        choice = self.stream.choice(self, item, now_us=now_us)
        again = self._second.get(tick)
        if again is not None:
            if tick not in self._unsent:
                return True
            return self._send_again(item, again, choice, now_us)
        if tick < self._given and tick not in self._lesser:
            return True  # it was given out before a restart, and is done with
        if choice is not None and not self._give(item, choice, now_us):
            return False
        self._lesser.discard(tick)
        return True

    @property
    def current(self) -> bool:
        """Whether its session reads the stream by it."""
        return self.stream.readers.get(self.session) is self

    # -- its feed --------------------------------------------------------------------------------------------

    def close_feed(self) -> None:
        """It needs no feed, or not now."""
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()
            self.stream.closed_feed(self)

    @property
    def fed(self) -> bool:
        """Whether it has a feed."""
        return self._feed is not None
