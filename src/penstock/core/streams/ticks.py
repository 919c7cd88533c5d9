"""Ticks (positions in a stream: a millisecond and a counter in one integer) and sets of them as runs.

The runs of a set are sorted and disjoint, each from its first tick to the one behind its last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TICKS_PER_MS: Final = 1_024
"""Ticks in a millisecond: enough for a million messages a second; a larger burst borrows from the next
millisecond.
"""

TICKS_PER_S: Final = 1_000 * TICKS_PER_MS


def tick_at(now_us: int) -> int:
    """First tick of the millisecond of an instant."""
    return max(0, now_us) // 1_000 * TICKS_PER_MS


def ticks_in(duration_us: int) -> int:
    """Number of ticks in a duration."""
    return duration_us * TICKS_PER_MS // 1_000


def duration_us(ticks: int) -> int:
    """Duration of a number of ticks."""
    return ticks * 1_000 // TICKS_PER_MS


Span: TypeAlias = tuple[int, int]
"""From a tick up to, not including, another."""


class Spans:
    """A set of ticks as runs: costs depend on runs, not ticks; adding at the end is the fast case."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for since, until in spans:
            self.add(since, until)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Span]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    def __contains__(self, tick: int) -> bool:
        place = bisect_right(self._starts, tick) - 1
        return place >= 0 and tick < self._ends[place]

    @property
    def end(self) -> int | None:
        """Tick behind the last one; None if empty."""
        return self._ends[-1] if self._ends else None

    def add(self, since: int, until: int) -> None:
        """Add a span; adjacent runs become one."""
        if since >= until:
            return
        starts, ends = self._starts, self._ends
        if ends and starts[-1] <= since <= ends[-1]:
            ends[-1] = max(ends[-1], until)
            return
        first = bisect_left(ends, since)
        behind = bisect_right(starts, until)
        if first < behind:
            since = min(since, starts[first])
            until = max(until, ends[behind - 1])
        starts[first:behind] = [since]
        ends[first:behind] = [until]

    def remove(self, since: int, until: int) -> None:
        """Remove a span."""
        if since >= until:
            return
        starts, ends = self._starts, self._ends
        first = bisect_right(ends, since)
        behind = bisect_left(starts, until)
        if first >= behind:
            return
        kept = []
        if starts[first] < since:
            kept.append((starts[first], since))
        if ends[behind - 1] > until:
            kept.append((until, ends[behind - 1]))
        starts[first:behind] = [start for start, _ in kept]
        ends[first:behind] = [end for _, end in kept]

    def within(self, since: int, until: int) -> list[Span]:
        """Parts of a span that are in the set."""
        first = bisect_right(self._ends, since)
        behind = bisect_left(self._starts, until)
        return [
            (max(since, self._starts[place]), min(until, self._ends[place])) for place in range(first, behind)
        ]

    def gaps(self, since: int, until: int) -> list[Span]:
        """Parts of a span that are not in the set."""
        found = []
        at = since
        for start, end in self.within(since, until):
            if start > at:
                found.append((at, start))
            at = end
        if at < until:
            found.append((at, until))
        return found

    def run_end(self, tick: int) -> int:
        """First tick from this one on that is not in the set."""
        place = bisect_right(self._starts, tick) - 1
        return max(tick, self._ends[place]) if place >= 0 else tick

    def clear(self) -> None:
        """Remove everything."""
        self._starts.clear()
        self._ends.clear()
