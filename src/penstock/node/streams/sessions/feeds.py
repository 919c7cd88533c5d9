"""Feeds: where a session that is behind reads what it missed, from the log here or from another node.

A reader asks its feed for the next messages when it has room, and a feed holds at most one batch.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from penstock import limits
from penstock.core.streams.log import cut_short

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.subend import Subend
    from penstock.core.streams.ticks import Span
    from penstock.node.streams.tree.driver import CoreDriver
    from penstock.node.streams.tree.hosted import HostedStream

TickAndBody: TypeAlias = tuple[int, bytes]
"""A message: its tick and its body."""

_numbers = count(1)
"""No two ends have the same name, so that none gets what another was told."""


class FeedBatch(NamedTuple):
    """The messages from where it was asked for up to `until`."""

    messages: list[TickAndBody]
    until: int
    missed: Span | None = None
    """The log has let go this part of it."""


class Feed(Protocol):
    """Messages in order from a place on."""

    def take(self, since: int, until: int) -> FeedBatch | None:
        """The next messages of a span; None: not at hand, and its owner is told when it is worth asking."""
        ...

    def close(self) -> None:
        """Nothing more is needed."""
        ...


class LogFeed:
    """Reads the log of a stream that is hosted here."""

    def __init__(self, hosted: HostedStream) -> None:
        self._hosted = hosted
        self._asked: Span | None = None

    def take(self, since: int, until: int) -> FeedBatch | None:
        """See Feed."""
        begin = self._hosted.begin
        if since < begin:
            self._asked = None
            return FeedBatch([], begin, missed=(since, begin))
        # What was not at hand is asked for in the same words, or it would never be.
        if self._asked is None or self._asked[0] != since:
            self._asked = (since, until)
        _, until = self._asked
        found = self._hosted.read(since, until, limits.STREAM_READ)
        if found is None:
            return None
        self._asked = None
        return FeedBatch(found, found[-1][0] + 1 if cut_short(found, limits.STREAM_READ) else until)

    def close(self) -> None:
        """See Feed."""


class TreeFeed:
    """A subscriber-hosting end of its own, which stops while its messages are not taken."""

    def __init__(self, hub: CoreDriver, stream: str, name: str, *, clock: Callable[[], int]) -> None:
        self._hub = hub
        self._stream = stream
        self._name = f"{name}/{next(_numbers)}"
        self._clock = clock
        self._subend: Subend | None = None
        self._held: deque[TickAndBody] = deque()
        self._bytes = 0
        self._missed: Span | None = None
        self._paused = False

    def take(self, since: int, until: int) -> FeedBatch | None:
        """See Feed."""
        subend = self._subend
        if subend is None:
            self._open(since, until)
            return None
        missed, self._missed = self._missed, None
        found = list(self._held)
        self._held.clear()
        self._bytes = 0
        # While the hub hands out events, the end may be ahead of what came here.
        horizon = 0 if self._hub.busy else subend.horizon
        reached = max(found[-1][0] + 1 if found else since, horizon)
        subend.acknowledge(reached)  # the session's place is held apart from this
        if self._paused or reached < until:
            self._paused = False
            subend.resume(until, now_us=self._clock())
            self._hub.changed(self._stream)
        if not found and reached <= since and missed is None:
            return None
        return FeedBatch([one for one in found if one[0] >= since], max(since, reached), missed)

    def close(self) -> None:
        """See Feed."""
        if self._subend is not None:
            self._subend = None
            self._hub.delivered.pop((self._stream, self._name), None)
            self._hub.missed.pop((self._stream, self._name), None)
            self._hub.core.unsubscribe(self._stream, self._name)

    def _open(self, since: int, until: int) -> None:
        hub, key = self._hub, (self._stream, self._name)
        self._subend = hub.core.subscribe(*key, start=since, alerts=False)
        hub.delivered[key] = self._delivered
        hub.missed[key] = self._gone
        self._subend.resume(until, now_us=self._clock())
        hub.changed(self._stream)

    def _delivered(self, tick: int, body: bytes) -> None:
        self._held.append((tick, body))
        self._bytes += len(body)
        if not self._paused and (
            len(self._held) >= limits.STREAM_READ or self._bytes >= limits.STREAM_FETCH_BYTES
        ):
            self._paused = True
            assert self._subend is not None
            self._subend.pause()

    def _gone(self, since: int, until: int) -> None:
        self._missed = (since if self._missed is None else self._missed[0], until)
