"""A session's place in a stream: where it is, what is in flight, what of that survives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.node.streams.cursors import Cursor, Flight

if TYPE_CHECKING:
    from penstock.node.session import Session
    from penstock.node.streams.reading_stream import StreamReaders

FIRST: Final = -1
"""The position of a reader of a stream that nothing is known of yet: it begins with the first message."""


class Place:
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
