"""Knowledge of a stream at a node: each tick is final, data, silence or unknown.

Stored as runs instead of ticks: everything before `final` is final; known ticks are runs; those with data are
listed with their messages, the rest is silence. An idle hour costs as much as an idle millisecond. Knowledge
only grows (unknown, then silence or data, then final); contradictions that arrive later are counted and
ignored.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import Enum
from typing import TYPE_CHECKING

from penstock.core.streams.ticks import Span, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator


class TickState(Enum):
    """The four states of a tick."""

    DATA = "D"
    SILENCE = "S"
    FINAL = "F"
    UNKNOWN = "Q"


class Knowledge:
    """Knowledge of one stream from `start` on; earlier ticks are final."""

    __slots__ = ("_bytes", "_data", "_final", "_known", "_ticks", "conflicts")

    def __init__(self, start: int = 0) -> None:
        self._final = start
        self._known = Spans()
        self._ticks: list[int] = []
        self._data: dict[int, bytes] = {}
        self._bytes = 0
        self.conflicts = 0
        """Data received where silence is known, or another message for a tick that has one."""

    @property
    def final(self) -> int:
        """All ticks before this one are final."""
        return self._final

    @property
    def horizon(self) -> int:
        """The doubt horizon: the first unknown tick."""
        return self._known.run_end(self._final)

    @property
    def top(self) -> int:
        """Tick behind the last known one."""
        return self._known.end or self._final

    @property
    def messages(self) -> int:
        """Number of messages held."""
        return len(self._ticks)

    @property
    def size(self) -> int:
        """Bytes of the messages held."""
        return self._bytes

    @property
    def runs_held(self) -> int:
        """Number of runs of known ticks."""
        return len(self._known)

    def state(self, tick: int) -> TickState:
        """State of one tick."""
        if tick < self._final:
            return TickState.FINAL
        if tick in self._data:
            return TickState.DATA
        return TickState.SILENCE if tick in self._known else TickState.UNKNOWN

    def learn_silence(self, since: int, until: int) -> None:
        """Record silence in a span; known data stays data."""
        self._known.add(max(since, self._final), until)

    def learn_data(self, tick: int, body: bytes) -> bool:
        """Record a message; False if nothing new was learned."""
        if tick < self._final:
            return False
        if tick in self._known:
            self.conflicts += self._data.get(tick) != body
            return False
        self._known.add(tick, tick + 1)
        if self._ticks and tick < self._ticks[-1]:
            insort(self._ticks, tick)
        else:
            self._ticks.append(tick)
        self._data[tick] = body
        self._bytes += len(body)
        return True

    def finalise(self, until: int) -> None:
        """Make everything before a tick final: messages are dropped, unknown ticks become final too."""
        if until <= self._final:
            return
        gone = bisect_left(self._ticks, until)
        for tick in self._ticks[:gone]:
            self._bytes -= len(self._data.pop(tick))
        del self._ticks[:gone]
        self._known.remove(self._final, until)
        self._final = until

    def unknown(self, since: int, until: int) -> list[Span]:
        """Unknown parts of a span."""
        return self._known.gaps(max(since, self._final), until)

    def known(self, since: int, until: int) -> list[Span]:
        """Parts of a span that are data or silence."""
        return self._known.within(max(since, self._final), until)

    def data(self, since: int, until: int) -> list[tuple[int, bytes]]:
        """Messages of a span, in order."""
        first = bisect_left(self._ticks, since)
        behind = bisect_left(self._ticks, until)
        return [(tick, self._data[tick]) for tick in self._ticks[first:behind]]

    def oldest(self, keep_bytes: int) -> int:
        """Tick up to which messages must be dropped so that at most `keep_bytes` remain."""
        excess = self._bytes - keep_bytes
        for tick in self._ticks:
            if excess <= 0:
                return tick
            excess -= len(self._data[tick])
        return self.top if excess > 0 or self._ticks else self._final

    def runs(self, since: int, until: int) -> Iterator[tuple[int, int, TickState]]:
        """A span as runs of one state, in order; each message is a run of its own."""
        at = since
        if at < self._final:
            yield at, min(until, self._final), TickState.FINAL
            at = min(until, self._final)
        for start, end in self._known.within(at, until):
            if start > at:
                yield at, start, TickState.UNKNOWN
            yield from self._known_runs(start, end)
            at = end
        if at < until:
            yield at, until, TickState.UNKNOWN

    def _known_runs(self, since: int, until: int) -> Iterator[tuple[int, int, TickState]]:
        at = since
        for tick, _ in self.data(since, until):
            if tick > at:
                yield at, tick, TickState.SILENCE
            yield tick, tick + 1, TickState.DATA
            at = tick + 1
        if at < until:
            yield at, until, TickState.SILENCE
