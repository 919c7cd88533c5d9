"""The place of one session in one stream: its position, what is in flight, and where its subscriptions begin.

A place is *live* as long as the session gets every message when it arrives. Otherwise it is *behind*: it
keeps its position, and `reader` fetches what follows from a feed.

What survives a restart is the tick before which the client has everything. Messages from there on are sent
again, and the client recognises them by their ticks. QoS 2 messages need more than that, because they must
not be sent again as new ones: the cursor, one row of the state file for each session and stream, holds each
one in flight with its packet identifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from penstock.node.streams.log.state import StateTable

if TYPE_CHECKING:
    from penstock.node.broker.session import Session
    from penstock.node.streams.log.state import StateFile


CURSORS: Final = "cursors"
"""Table of the state file: (client identifier, stream) → the cursor."""


class Flight(msgspec.Struct, array_like=True, gc=False):
    """A QoS 2 message that its client has not completed."""

    tick: int
    packet_id: int
    released: bool = False
    """The client has the message; its PUBCOMP is missing."""


class Cursor(msgspec.Struct, array_like=True):
    """The position of a session in a stream."""

    born_us: int
    """When the session began: tells it from an earlier session of the same client."""
    acked: int
    """The client has, or does not want, everything before this tick; negative: nothing has been sent yet."""
    starts: dict[str, int] = {}
    """The tick at which each subscription begins, by filter."""
    given: int = 0
    """Messages before this tick were sent; those neither in `flight` nor in `lesser` are acknowledged."""
    flight: list[Flight] = []
    """QoS 2 messages in flight, in the order of their ticks."""
    rewound: dict[str, int] = {}
    """Subscriptions that begin at an earlier tick as soon as nothing is in flight."""
    lesser: list[int] = []
    """Ticks before `given` of messages that were sent with QoS 1 and are not acknowledged."""


CursorTable: TypeAlias = StateTable[Cursor]


def open_cursors(state: StateFile) -> CursorTable:
    """The table of cursors in a state file; its keys are (client identifier, stream)."""
    return StateTable(state, CURSORS, Cursor, width=2)


FIRST: Final = -1
"""Position in a stream of which nothing is known yet: the reader begins with the first message."""


class StreamPosition(Protocol):
    """The position of a stream, as the place of a reader uses it."""

    at: int
    """Messages before this tick were handed to all live readers; FIRST: not known yet."""

    @property
    def now(self) -> int:
        """The tick at which a subscription made now begins."""
        ...

    @property
    def begin(self) -> int:
        """The first tick that can be had, as far as this node knows; FIRST: not known."""
        ...


class SessionPlace:
    """The place of one session in one stream."""

    def __init__(self, session: Session, stream: StreamPosition) -> None:
        self._session = session
        self._stream = stream
        self.starts: dict[str, int] = {}
        """The tick at which each subscription begins, by filter."""
        self.rewound: dict[str, int] = {}
        """Subscriptions that begin at an earlier tick as soon as nothing is in flight."""
        self.live = False
        """Whether the session gets each message when it arrives."""
        self.saved = FIRST
        """The value of `acked` that is on disk."""
        self.lenient = False
        """Whether the start that was asked for may lie before the log: trimmed messages are then no loss."""
        self.behind_at = FIRST
        """The position while it is behind; while it is live: the tick at which it became live."""
        self.flight: dict[int, int] = {}
        """Packet identifiers of messages that the client has not acknowledged, by tick."""
        self.second: dict[int, Flight] = {}
        """QoS 2 messages that the client has not completed, by tick."""
        self.unsent: set[int] = set()
        """Ticks in `second` that were in flight before a restart and are still to be sent again."""
        self.given = 0
        """The tick behind the last QoS 2 message. Earlier messages were sent, perhaps before a restart."""
        self.lesser: set[int] = set()
        """Ticks of QoS 1 messages before `given` that are to be sent again after a restart."""

    # -- position --------------------------------------------------------------------------------------------

    @property
    def durable(self) -> bool:
        """Whether the place outlives the connection."""
        return self._session.expiry_s > 0

    @property
    def position(self) -> int:
        """Messages before this tick were sent, or are not for this session."""
        at = self._stream.at
        return at if self.live and at > self.behind_at else self.behind_at

    @property
    def acked(self) -> int:
        """The client has, or does not want, everything before this tick."""
        return min((self.position, *self.flight, *self.second))

    @property
    def needs(self) -> int:
        """The first tick that the stream must keep for this session, for a restart of the node, too."""
        acked = self.acked
        saved = self.saved if self.durable and self.saved != FIRST else acked
        return min((acked, saved, *self.rewound.values()))

    @property
    def idle(self) -> bool:
        """Whether the place can be dropped: no subscription is left and no QoS 2 message is in flight."""
        return not (self.starts or self.rewound or self.second)

    def is_live(self, tick: int) -> bool:
        """Whether the session gets the message of this tick on arrival, and has not got it from its feed."""
        return self.live and self.behind_at <= tick

    def fall_behind(self, position: int) -> None:
        """Stop being live; go on from a position."""
        self.live = False
        self.behind_at = position

    # -- the cursor on disk ----------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """Return the cursor: the part of a place that has to survive a restart."""
        lesser = self.flight.keys() - self.second.keys() if self.given else ()
        return Cursor(
            self._session.born_us,
            self.acked,
            dict(self.starts),
            self.given,
            [self.second[tick] for tick in sorted(self.second)],
            dict(self.rewound),
            sorted(self.lesser.union(tick for tick in lesser if tick < self.given)),
        )

    def restore(self, cursor: Cursor) -> list[Flight]:
        """Continue where a cursor was saved; returns the QoS 2 messages in flight."""
        self.starts = dict(cursor.starts)
        self.behind_at = self.saved = cursor.acked
        self.live = cursor.acked == FIRST
        self.given = cursor.given
        for flight in cursor.flight:
            self.second[flight.tick] = flight
            if not flight.released:
                self.unsent.add(flight.tick)
        self.rewound = dict(cursor.rewound)
        self.lesser = set(cursor.lesser)
        return cursor.flight

    def take_unsent(self, packet_id: int) -> int | None:
        """Take out the message that was to be sent again under this identifier; returns its tick."""
        for tick in self.unsent:
            if self.second[tick].packet_id == packet_id:
                self.unsent.discard(tick)
                return tick
        return None

    # -- subscriptions ---------------------------------------------------------------------------------------

    def begin(self, filter_: str, start: int | None) -> bool:
        """Begin a subscription at a tick; None: now, or where it is if it exists already.

        Returns whether the session has to go back for it: `rewind` does so once nothing is in flight.
        """
        now = self._stream.now
        if start is not None:
            start = max(start, self._stream.begin)
        if not self.starts and not self.rewound and not self.flight and self.behind_at == FIRST:
            self.lenient = start is not None
            self.behind_at = now if start is None else min(start, now) if now >= 0 else start
            self.saved = self.behind_at
            self.starts[filter_] = max(0, self.behind_at)
            self.live = self.behind_at == FIRST or self.behind_at >= self._stream.at >= 0
        elif start is not None and (start < max(self.position, self.given) or self.position == FIRST):
            self.rewound[filter_] = start
            self.starts.pop(filter_, None)
            self.lenient = True
            return True
        elif start is not None or not (filter_ in self.starts or filter_ in self.rewound):
            self.rewound.pop(filter_, None)
            self.starts[filter_] = max(0, now if start is None else min(start, now))
        return False

    def end(self, filter_: str) -> None:
        """End a subscription."""
        self.starts.pop(filter_, None)
        self.rewound.pop(filter_, None)

    def rewind(self) -> bool:
        """Go back for subscriptions that begin earlier; False if there are none or messages are in flight."""
        position = self.position
        if not self.rewound or self.flight or self.second or position == FIRST or position < self.given:
            return False
        self.fall_behind(min(position, *self.rewound.values()))
        # The other subscriptions have had the messages before the position.
        self.starts = {each: max(start, position) for each, start in self.starts.items()} | self.rewound
        self.given = min(self.given, self.behind_at)
        self.rewound = {}
        return True
