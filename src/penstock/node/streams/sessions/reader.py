"""One session's reader of one stream: its place in the stream, what is in flight, what is sent next.

A reader is *live* as long as every message that comes can be sent at once. Otherwise it is *behind*: it
keeps its position and nothing else, and asks a feed for what follows when there is room. When it has
reached what live readers were given, it is live again.

    live ──no room, connection gone──► behind ──position = what live readers were given──► live

What survives a restart is the tick before which the client has everything. Messages from there on are
sent again, and the client knows them by their ticks. Messages of QoS 2 are not sent again as new ones:
a message is sent when its packet identifier is on disk, released (PUBREL) when its arrival is on disk,
and the identifier is free when the disk has forgotten it. Messages that follow one that waits for the
disk wait behind it.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.node.broker.link import Sent
from penstock.node.broker.message import expired, frame_of
from penstock.node.streams.sessions.cursors import Cursor, Flight

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.mqtt.sessions.identifiers import AliasesOut
    from penstock.node.broker.link import Link
    from penstock.node.broker.session import Session
    from penstock.node.streams.sessions.feeds import Feed, FeedBatch, TickAndBody
    from penstock.node.streams.sessions.items import Choice, StreamItem
    from penstock.node.streams.sessions.stream_readers import StreamReaders

FIRST: Final = -1
"""The position of a reader of a stream that nothing is known of yet: it begins with the first message."""


class SessionPlace:
    """Of one session in one stream."""

    def __init__(self, session: Session, stream: StreamReaders) -> None:
        self.session = session
        self.stream = stream
        self.starts: dict[str, int] = {}
        """By filter: no earlier message is for this subscription."""
        self.rewound: dict[str, int] = {}
        """Subscriptions that begin at an earlier tick as soon as nothing is in flight."""
        self.live = False
        """Whether it gets each message as it comes."""
        self.saved = FIRST
        """What the disk says about `acked`."""
        self.lenient = False
        """It asked for more than there may be: that the log has let it go is no loss."""
        self._position = FIRST
        """If it is live: where it began to be."""
        self._flight: dict[int, int] = {}
        """Packet identifiers of what the client has not acknowledged, by tick."""
        self._second: dict[int, Flight] = {}
        """The QoS 2 messages of them, and those that it has not completed."""
        self._unsent: set[int] = set()
        """Of those, the ticks that were in flight before a restart and are still to be sent again."""
        self._given = 0
        """Behind the last QoS 2 message: what lies before was given out, if by a node that was killed."""
        self._lesser: set[int] = set()
        """QoS 1 messages before it that were in flight before a restart, and are still to be sent again."""

    # -- where it is -----------------------------------------------------------------------------------------

    @property
    def durable(self) -> bool:
        """Whether its place outlives the connection."""
        return self.session.expiry_s > 0

    @property
    def position(self) -> int:
        """Everything before this tick was sent, or is not for it."""
        return self.stream.at if self.live and self.stream.at > self._position else self._position

    @property
    def acked(self) -> int:
        """The client has, or does not want, everything before this tick."""
        return min((self.position, *self._flight, *self._second))

    @property
    def needs(self) -> int:
        """From this tick on the stream must be kept for it, whether the node goes on or starts again."""
        acked = self.acked
        saved = self.saved if self.durable and self.saved != FIRST else acked
        return min((acked, saved, *self.rewound.values()))

    @property
    def idle(self) -> bool:
        """Whether nobody needs it: no subscription is left and nothing is in flight."""
        return not (self.starts or self.rewound or self._second)

    def write_down(self) -> Cursor:
        """What is to survive a restart."""
        lesser = self._flight.keys() - self._second.keys() if self._given else ()
        return Cursor(
            self.session.born_us,
            self.acked,
            dict(self.starts),
            self._given,
            [self._second[tick] for tick in sorted(self._second)],
            dict(self.rewound),
            sorted(self._lesser.union(tick for tick in lesser if tick < self._given)),
        )

    def restore(self, cursor: Cursor) -> list[Flight]:
        """Go on where a row says; the QoS 2 messages in flight."""
        self.starts = dict(cursor.starts)
        self._position = self.saved = cursor.acked
        self.live = cursor.acked == FIRST
        self._given = cursor.given
        for flight in cursor.flight:
            self._second[flight.tick] = flight
            if not flight.released:
                self._unsent.add(flight.tick)
        self.rewound = dict(cursor.rewound)
        self._lesser = set(cursor.lesser)
        return cursor.flight

    def unsent(self, packet_id: int) -> int | None:
        """The message with this identifier, if it was to be sent again: it need not be any more."""
        for tick in self._unsent:
            if self._second[tick].packet_id == packet_id:
                self._unsent.discard(tick)
                return tick
        return None

    def is_live(self, tick: int) -> bool:
        """Whether it gets a message of this tick as it comes, not having got it from its feed."""
        return self.live and self._position <= tick

    # -- subscriptions ---------------------------------------------------------------------------------------

    def begin(self, filter_: str, start: int | None) -> None:
        """A subscription begins at a tick; None: now, or where it is if it is there already."""
        now = self.stream.now
        if start is not None:
            start = max(start, self.stream.begin)
        if not self.starts and not self.rewound and not self._flight and self._position == FIRST:
            self.lenient = start is not None
            self._position = now if start is None else min(start, now) if now >= 0 else start
            self.saved = self._position
            self.starts[filter_] = max(0, self._position)
            self.live = self._position == FIRST or self._position >= self.stream.at >= 0
        elif start is not None and (start < max(self.position, self._given) or self.position == FIRST):
            self.rewound[filter_] = start
            self.starts.pop(filter_, None)
            self.lenient = True
            self.try_rewind()
        elif start is not None or filter_ not in self.starts:
            self.rewound.pop(filter_, None)
            self.starts[filter_] = max(0, now if start is None else min(start, now))

    def end(self, filter_: str) -> None:
        """A subscription ends."""
        self.starts.pop(filter_, None)
        self.rewound.pop(filter_, None)

    def try_rewind(self) -> None:
        """Go back for subscriptions that want what lies before, once nothing is in flight."""
        if (
            not self.rewound
            or self._flight
            or self._second
            or self.position == FIRST
            or self.position < self._given
        ):
            return
        position = self.position
        self.fall_behind(min(position, *self.rewound.values()))
        # The others have had what lies before the position.
        self.starts = {each: max(start, position) for each, start in self.starts.items()} | self.rewound
        self._given = min(self._given, self._position)
        self.rewound = {}
        self.stream.forget()
        self.stream.save_now(self)

    def fall_behind(self, position: int) -> None:
        """Go on from a position, with what was missed."""
        self.live = False
        self._position = position


class _Outbox:
    """What waits for the disk, in order."""

    __slots__ = ("bytes", "frames", "link")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frames: list[bytes] = []
        self.bytes = 0


class SessionSender(SessionPlace):
    """To one session, of one stream."""

    def __init__(self, session: Session, stream: StreamReaders) -> None:
        super().__init__(session, stream)
        self._outboxes: deque[_Outbox] = deque()
        self._collecting: _Outbox | None = None
        """The one that QoS 2 messages of this turn of the loop go into."""
        self._unsafe = 0
        """How many the disk does not know of."""

    def write_down(self) -> Cursor:
        """What is to survive a restart; what is given out from now on needs another row."""
        self._collecting = None
        return super().write_down()

    def lost_link(self) -> None:
        """The connection is gone; what was sent is sent again over the next."""
        self._outboxes.clear()
        self._collecting = None

    @property
    def _room(self) -> bool:
        """Whether another message may be in flight."""
        return self.session.exchange.outgoing.room > 0 and len(self._flight) < limits.STREAM_FLIGHT

    @property
    def takes_more(self) -> bool:
        """Whether its client reads."""
        link = self.session.link
        return link is not None and not link.paused and self._room

    def _give(self, item: StreamItem, choice: Choice, now_us: Instant) -> bool:
        """Send a message; False if there is no room for it."""
        session, subscription = self.session, choice.subscription
        link = session.link
        assert link is not None
        qos = min(item.record.qos, choice.qos)
        outgoing = session.exchange.outgoing
        if outgoing.resending or (qos and not self._room):
            return False
        if self._outboxes and self._outboxes[-1].bytes > limits.STREAM_FETCH_BYTES:
            return False
        subscription.direct += 1
        if expired(item.event, now_us) or not session.delivery.fits(item.event, choice.ids, now_us):
            subscription.withheld += 1
            return True
        retain = item.record.retain and subscription.options.retain_as_published
        tick, packet_id = item.tick, 0
        if qos:
            sent = Sent(item.event, retain, choice.ids, 0, self, tick)
            packet_id = outgoing.send(sent, qos=qos)
            self._flight[tick] = packet_id
        safe = qos < 2 or not self.durable
        # Others may be sent before what waits for the disk: it says no alias that they would use.
        aliases = session.delivery.aliases if safe and not self._outboxes else None
        frame = self._frame(item, packet_id, qos, choice.ids, aliases, retain=retain, now_us=now_us)
        session.delivery.sent += 1
        link.sampled = subscription
        if not safe:
            self._second[tick] = Flight(tick, packet_id)
            self._given = max(self._given, tick + 1)
            self._write_when_safe(link, frame)
        else:
            self._write(link, frame)
        return True

    def _send_again(self, item: StreamItem, flight: Flight, choice: Choice | None, now_us: Instant) -> bool:
        """A QoS 2 message that was in flight before a restart."""
        session = self.session
        link = session.link
        assert link is not None
        if not self._room:
            return False
        ids = choice.ids if choice is not None else ()
        self._unsent.discard(item.tick)
        if not session.delivery.fits(item.event, ids, now_us):  # its client took larger ones before
            self.completed(item.tick, flight.packet_id)
            return True
        sent = Sent(item.event, False, ids, 0, self, item.tick)
        session.exchange.outgoing.send_as(flight.packet_id, sent, qos=2)
        self._flight[item.tick] = flight.packet_id
        session.delivery.sent += 1
        frame = frame_of(
            item.event,
            version=session.version,
            now_us=now_us,
            packet_id=flight.packet_id,
            qos=2,
            retain=False,
            dup=True,
            subscription_ids=ids,
            aliases=None if self._outboxes else session.delivery.aliases,
        )
        self._write(link, frame)
        return True

    def _frame(
        self,
        item: StreamItem,
        packet_id: int,
        qos: int,
        ids: tuple[int, ...],
        aliases: AliasesOut | None,
        *,
        retain: bool,
        now_us: Instant,
    ) -> bytes:
        session = self.session
        if item.shareable and not ids and aliases is None:
            head, tail = item.frame(version=session.version, qos=qos, retain=retain)
            return head + packet_id.to_bytes(2, "big") + tail if qos else head
        return frame_of(
            item.event,
            version=session.version,
            now_us=now_us,
            packet_id=packet_id,
            qos=qos,
            retain=retain,
            subscription_ids=ids,
            aliases=aliases,
        )

    def _write(self, link: Link, frame: bytes) -> None:
        """Send it, behind what waits for the disk."""
        if self._outboxes:
            self._outboxes[-1].frames.append(frame)
            self._outboxes[-1].bytes += len(frame)
        else:
            link.write(frame)

    def _write_when_safe(self, link: Link, frame: bytes) -> None:
        """Send when the disk knows what is in flight; what comes meanwhile stays behind it."""
        outbox = self._collecting
        if outbox is None:
            outbox = self._collecting = _Outbox(link)
            self._outboxes.append(outbox)
            self._unsafe += 1
            self.stream.save_now(self, partial(self._safe, outbox))
        outbox.frames.append(frame)
        outbox.bytes += len(frame)

    def _safe(self, outbox: _Outbox) -> None:
        self._unsafe -= 1
        if self._outboxes and self._outboxes[0] is outbox:  # else the connection it was for is gone
            self._outboxes.popleft()
            outbox.link.write(b"".join(outbox.frames))
        self.stream.go_on(self.session)

    @property
    def unsafe(self) -> bool:
        """Whether something is in flight that the disk does not know of."""
        return self._unsafe > 0

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledged(self, tick: int, packet_id: int) -> None:
        """See link.AckReceiver."""
        self._flight.pop(tick, None)
        if self._second.pop(tick, None) is not None:
            self._free_when_safe(packet_id)
        else:
            self.stream.save_soon(self)

    def received(self, tick: int, packet_id: int) -> bool:
        """See link.AckReceiver."""
        self._flight.pop(tick, None)
        flight = self._second.get(tick)
        if flight is None:  # the session ends with its connection
            return False
        flight.released = True
        self.stream.save_now(self, partial(self.stream.release, self.session, packet_id))
        return True

    def completed(self, tick: int, packet_id: int) -> None:
        """The client has answered the PUBREL."""
        if self._second.pop(tick, None) is not None:
            self._free_when_safe(packet_id)

    def _free_when_safe(self, packet_id: int) -> None:
        """The identifier is another's when the disk has forgotten that it was this message's."""
        ids = self.session.exchange.ids
        ids.hold(packet_id)
        self.stream.save_now(self, partial(ids.free, packet_id))


log = logging.getLogger(__name__)


class SessionReader(SessionSender):
    """One session and one stream."""

    def __init__(self, session: Session, stream: StreamReaders) -> None:
        super().__init__(session, stream)
        self.missed = 0
        """Spans that the log had let go."""
        self._helping: deque[TickAndBody] = deque()
        self._reached = FIRST
        """Where the messages of the helping end."""
        self._feed: Feed | None = None

    # -- a message comes -------------------------------------------------------------------------------------

    def offer(self, item: StreamItem, choice: Choice, *, now_us: Instant) -> None:
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

    def _take(self, found: FeedBatch) -> None:
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
