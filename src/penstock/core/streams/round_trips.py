"""NACKs on their way: what has been asked for, when, and when to ask again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.streams.spans import Span, Spans

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_RETRY_US: Final = 30_000_000
"""Longest pause before a NACK is repeated: a path that comes back is used within half a minute."""


@dataclass(slots=True)
class _Asked:
    since: int
    until: int
    at_us: int
    tries: int


class RoundTrips:
    """NACKs in the order of their ticks; one is answered once the doubt horizon has passed it."""

    def __init__(self, retry_us: int, *, adaptive: bool) -> None:
        self._retry_us = retry_us
        self._adaptive = adaptive
        self._asked: list[_Asked] = []
        self._covered = Spans()
        self.smoothed_us: float | None = None
        """Round trip of NACKs that needed one try."""

    def __len__(self) -> int:
        return len(self._asked)

    def unasked(self, gaps: list[Span]) -> list[Span]:
        """The parts of these gaps that are not on their way."""
        return [part for since, until in gaps for part in self._covered.gaps(since, until)]

    def ask(self, span: Span, *, now_us: int) -> None:
        """A NACK for this span goes out."""
        self._asked.append(_Asked(*span, now_us, 1))
        self._covered.add(*span)

    def forget(self) -> None:
        """Nothing is on its way: the answers will not be heard."""
        self._asked.clear()
        self._covered.clear()

    def passed(self, horizon: int, *, now_us: int) -> list[int]:
        """The horizon has moved: round trips of the NACKs that are answered now, by those of one try."""
        if not self._asked or all(asked.until > horizon for asked in self._asked):
            return []
        done = [asked for asked in self._asked if asked.until <= horizon]
        self._asked = [asked for asked in self._asked if asked.until > horizon]
        self._covered.remove(0, horizon)
        # A repeated one may be answered by either try: it tells nothing (Karn's rule).
        found = [now_us - asked.at_us for asked in done if asked.tries == 1]
        for rtt_us in found:
            before = self.smoothed_us
            self.smoothed_us = rtt_us if before is None else before + 0.125 * (rtt_us - before)
        return found

    def overdue(self, unknown: Callable[[int, int], list[Span]], *, now_us: int) -> list[Span]:
        """The gaps of NACKs that have waited too long; they count as asked now."""
        found: list[Span] = []
        for asked in self._asked:
            if now_us >= asked.at_us + self._wait_us(asked):
                asked.at_us = now_us
                asked.tries += 1
                found += unknown(asked.since, asked.until)
        return found

    def due_us(self) -> int | None:
        """When the next NACK is overdue."""
        if not self._asked:
            return None
        return min(asked.at_us + self._wait_us(asked) for asked in self._asked)

    def _wait_us(self, asked: _Asked) -> int:
        if not self._adaptive:
            return self._retry_us
        least_us = max(self._retry_us, int(4 * (self.smoothed_us or 0)))
        return min(least_us << min(asked.tries - 1, 5), MOST_RETRY_US)
