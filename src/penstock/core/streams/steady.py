"""Our control of the rate of publishing: as much as the slowest stream takes, and a short queue before it.

The paper leaves the rates in alerts unused (§7). Here streams answer every query with the tick they have
reached and how far behind they are, so a pubend, which knows what it published up to each tick, knows how
many messages the slowest one took since the last answer. It publishes as many, a little more while that one
is less than TARGET behind and a little less while it is more: the bottleneck never runs dry, and its queue
stays short. For those that recover, and need more than the stream, the rate falls as long as they do not get
it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING, Final

from penstock.core.streams.messages import NO_RATE
from penstock.core.streams.tick import TICKS_PER_S

if TYPE_CHECKING:
    from penstock.core.streams.messages import Alert
    from penstock.core.streams.options import StreamOptions

TARGET_S: Final = 0.5
"""How far behind the slowest stream should be: the queue that rides out a second without an answer."""

QUEUE_S: Final = 0.1
"""Who is farther behind than this stands behind a queue: what it takes is what the bottleneck carries."""

GAIN: Final = 0.2
"""Per second: a queue that is a second too long is worked off in five seconds."""

GROWTH: Final = 0.05
"""Each answer in a row that tells of no queue adds so much to the growth, up to GROWTH_MOST."""

GROWTH_MOST: Final = 0.3

HISTORY: Final = 256
"""Queries remembered: who is four minutes behind recovers, and is not counted by messages."""


class Steady:
    """The rate of one pubend."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._rate = NO_RATE
        self._queries: deque[tuple[int, int, int]] = deque(maxlen=HISTORY)
        self._last: tuple[int, float] | None = None
        self._capacity = NO_RATE
        self._free = 0
        self._throttled = False

    @property
    def rate(self) -> float:
        """What may be published."""
        return self._rate

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Remember what was published up to which tick."""
        del now_us
        self._throttled = throttled
        self._queries.append((number, position, published))

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """An answer: how far behind is the slowest?"""
        if isfinite(alert.recovering) and alert.recovering < 1 + self._options.recovering_gain:
            self._give_way()
        elif isfinite(alert.keeping):
            self._follow(alert, now_us=now_us)

    def _give_way(self) -> None:
        """Somebody recovers too slowly: leave them a tenth more of the way, each time they say so."""
        published = self._published_per_query()
        if published is not None:
            rate = min(self._rate, max(published, self._options.rate_step))
            self._rate = self._capacity = max(0.9 * rate, self._options.rate_step)
        self._last = None

    def _follow(self, alert: Alert, *, now_us: int) -> None:
        taken = self._taken_at(alert)
        if taken is None:
            return
        last, self._last = self._last, (now_us, taken)
        if last is None or now_us <= last[0]:
            return
        per_s = max(0.0, taken - last[1]) * 1_000_000 / (now_us - last[0])
        behind_s = alert.behind / TICKS_PER_S
        if behind_s > QUEUE_S:
            self._free = 0
            # A fall by a third or more is a new bottleneck and no noise.
            fresh = per_s < 0.7 * self._capacity
            self._capacity = per_s if fresh else 0.5 * (self._capacity + per_s)
        elif not self._throttled or not isfinite(self._capacity):
            return  # publishers want no more than this: there is nothing to limit
        else:
            self._free += 1
            self._capacity *= 1 + min(GROWTH_MOST, GROWTH * self._free)
        correction = max(-0.5, GAIN * (TARGET_S - behind_s))
        self._capacity = max(self._capacity, self._options.rate_step)
        self._rate = self._capacity * (1 + correction)

    def _taken_at(self, alert: Alert) -> float | None:
        """Messages up to the tick that the slowest one has reached; evenly spread between two queries."""
        # Absolute, since a folded alert may tell the answer to an earlier query than its number says.
        reached = alert.reached
        before = bisect_right([position for _, position, _ in self._queries], reached) - 1
        if before < 0 or not reached:
            return None
        _, position, published = self._queries[before]
        if before + 1 == len(self._queries):
            return float(published)
        _, next_position, next_published = self._queries[before + 1]
        share = (reached - position) / max(1, next_position - position)
        return published + share * (next_published - published)

    def _published_per_query(self) -> float | None:
        if len(self._queries) < 2:
            return None
        return (self._queries[-1][2] - self._queries[-2][2]) * 1_000_000 / self._options.query_us
