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
"""Numbers in the names of subends: no two have the same name, so that none gets messages of another."""


class FeedBatch(NamedTuple):
    """All messages from the tick that was asked for up to `until`."""

    messages: list[TickAndBody]
    until: int
    missed: Span | None = None
    """The part of the span that is no longer in the log; None if all of it is there."""


class Feed(Protocol):
    """Gives messages of a stream in order."""

    def take(self, since: int, until: int) -> FeedBatch | None:
        """The next messages of a span; None if they are not at hand yet, and the reader has to ask again."""
        ...

    def close(self) -> None:
        """Let go of what the feed uses; it is not asked again."""
        ...


class LogFeed:
    """Reads the log of a stream hosted here. The log calls `on_ready` when it has what was not at hand."""

    def __init__(self, hosted: HostedStream) -> None:
        self._hosted = hosted
        self._asked: Span | None = None

    def take(self, since: int, until: int) -> FeedBatch | None:
        """The next messages of a span; None if the log has to read them first."""
        begin = self._hosted.begin
        if since < begin:
            self._asked = None
            return FeedBatch([], begin, missed=(since, begin))
        # A span that was not at hand has to be asked for unchanged: the log knows it by both ends.
        if self._asked is None or self._asked[0] != since:
            self._asked = (since, until)
        _, until = self._asked
        found = self._hosted.read(since, until, limits.STREAM_READ)
        if found is None:
            return None
        self._asked = None
        return FeedBatch(found, found[-1][0] + 1 if cut_short(found, limits.STREAM_READ) else until)

    def close(self) -> None:
        """Nothing to close: the log belongs to the stream."""


class TreeFeed:
    """Fetches from another node, by a subend of its own that pauses while its messages are not taken."""

    def __init__(self, driver: CoreDriver, stream: str, name: str, *, clock: Callable[[], int]) -> None:
        self._driver = driver
        self._stream = stream
        self._name = f"{name}/{next(_numbers)}"
        self._clock = clock
        self._subend: Subend | None = None
        self._held: deque[TickAndBody] = deque()
        self._bytes = 0
        self._missed: Span | None = None
        self._paused = False

    def take(self, since: int, until: int) -> FeedBatch | None:
        """The messages that have arrived, if any; asks for those up to `until`."""
        subend = self._subend
        if subend is None:
            self._open(since, until)
            return None
        missed, self._missed = self._missed, None
        found = list(self._held)
        self._held.clear()
        self._bytes = 0
        # While the driver hands out events, the subend may be ahead of what was delivered to this feed.
        horizon = 0 if self._driver.busy else subend.horizon
        reached = max(found[-1][0] + 1 if found else since, horizon)
        subend.acknowledge(reached)  # the place of the session is held separately
        if self._paused or reached < until:
            self._paused = False
            subend.resume(until, now_us=self._clock())
            self._driver.changed(self._stream)
        if not found and reached <= since and missed is None:
            return None
        return FeedBatch([one for one in found if one[0] >= since], max(since, reached), missed)

    def close(self) -> None:
        """Remove the subend."""
        if self._subend is not None:
            self._subend = None
            self._driver.delivered.pop((self._stream, self._name), None)
            self._driver.missed.pop((self._stream, self._name), None)
            self._driver.core.unsubscribe(self._stream, self._name)

    def _open(self, since: int, until: int) -> None:
        driver, key = self._driver, (self._stream, self._name)
        self._subend = driver.core.subscribe(*key, start=since, alerts=False)
        driver.delivered[key] = self._delivered
        driver.missed[key] = self._lost
        self._subend.resume(until, now_us=self._clock())
        driver.changed(self._stream)

    def _delivered(self, tick: int, body: bytes) -> None:
        self._held.append((tick, body))
        self._bytes += len(body)
        if not self._paused and (
            len(self._held) >= limits.STREAM_READ or self._bytes >= limits.STREAM_FETCH_BYTES
        ):
            self._paused = True
            assert self._subend is not None
            self._subend.pause()

    def _lost(self, since: int, until: int) -> None:
        self._missed = (since if self._missed is None else self._missed[0], until)
