"""Controllers of the publishing rate (PDCC, steady) and of the NACK window (SDCC), and their interfaces.

PDCC is the paper's control of the rate of publishing (§3.1). No alert for t_nouca and throttled: r ← max(r
+ r_min, r + f_incr·(r − r_decr)), equation 1. On an alert: r ← max(f_decr1·r, r_decr + f_decr2·(r −
r_decr)) if r has grown since, equation 2, else f_decr1·r, equation 3; r_decr is the rate after the last
decrease. Alerts are passed over while the system has not seen the last decrease, and while things get
better.

Steady is ours: as much as the slowest stream takes, and a short queue before it. The paper leaves the rates
in alerts unused (§7). Here streams answer every query with the tick they have reached and how far behind
they are, so a pubend, which knows what it published up to each tick, knows how many messages the slowest
one took since the last answer. It publishes as many, a little more while that one is less than TARGET
behind and a little less while it is more: the bottleneck never runs dry, and its queue stays short. For
those that recover, and need more than the stream, the rate falls as long as they do not get it.

SDCC is the paper's control of the NACK window (§3.2): r = nwnd / RTT, equation 9. Once r has risen by α_NACK
since the last change, nwnd grows by size_NACK; once it has fallen by β_NACK, nwnd shrinks by as much; at most
once in a round trip, equation 10.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.streams.messages import NO_RATE
from penstock.core.streams.ticks import TICKS_PER_S, ticks_in

if TYPE_CHECKING:
    from penstock.core.streams.messages import Alert
    from penstock.core.streams.options import StreamOptions


class RateControl(Protocol):
    """Sets the rate of publishing at a pubend."""

    @property
    def rate(self) -> float:
        """Messages a second that may be acknowledged; infinite: not limited."""
        ...

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """A query goes out; so many messages were published up to its position since the start."""
        ...

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """An alert has come."""
        ...


class NackControl(Protocol):
    """Sets the NACK window of a stream that recovers."""

    @property
    def window(self) -> int:
        """In ticks, from the doubt horizon on."""
        ...

    def begin(self) -> None:
        """A recovery begins."""
        ...

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """A NACK has been answered in full after so long."""
        ...


class Unlimited:
    """The controller that does not control: everything is acknowledged at once."""

    rate = NO_RATE

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Nothing follows from it."""

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """Nothing follows from it."""


class WholeWindow:
    """The NACK window is the receive window, whatever happens."""

    def __init__(self, window: int) -> None:
        self.window = window

    def begin(self) -> None:
        """Nothing changes."""

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """Nothing changes."""


class Pdcc:
    """The rate of one pubend."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._rate = NO_RATE
        self._decreased_to = NO_RATE
        self._measured = 0.0
        self._binds = False
        self._at: tuple[int, int] | None = None
        self._alerted_us: int | None = None
        self._previous: Alert | None = None
        self._first_number: int | None = 0

    @property
    def rate(self) -> float:
        """r."""
        return self._rate

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Measure what is published; grow if nobody complains."""
        del position
        if self._first_number is None:
            self._first_number = number
        if self._at is not None and now_us > self._at[0]:
            self._measured = (published - self._at[1]) * 1_000_000 / (now_us - self._at[0])
        self._at = (now_us, published)
        self._binds = throttled and isfinite(self._rate)
        quiet = self._alerted_us is None or now_us - self._alerted_us >= self._options.no_alert_us
        if quiet and throttled and isfinite(self._rate):
            step, share = self._options.rate_step, self._options.increase
            self._rate = max(self._rate + step, self._rate + share * (self._rate - self._decreased_to))

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """Decrease, unless it is too early to tell or things get better."""
        self._alerted_us = now_us
        previous, self._previous = self._previous, alert
        if self._first_number is None or alert.number < self._first_number:
            return
        if previous is not None and _better(alert, previous):
            return
        rate = self._rate
        if not self._binds:  # bring the limit down to what is published first: else alerts had no effect
            rate = min(rate, max(self._measured, self._options.rate_step))
        lower = self._options.decrease * rate
        if rate > self._decreased_to:
            last = self._decreased_to
            lower = max(lower, last + self._options.decrease_to_last * (rate - last))
        self._rate = self._decreased_to = max(lower, self._options.rate_step)
        self._first_number = None


def _better(alert: Alert, previous: Alert) -> bool:
    """Above the previous one's rates; a rate that nobody told has not become worse."""
    pairs = ((alert.keeping, previous.keeping), (alert.recovering, previous.recovering))
    told = [(new, old) for new, old in pairs if isfinite(new)]
    return all(new > old for new, old in told if isfinite(old)) and any(isfinite(old) for _, old in told)


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


class Sdcc:
    """The NACK window of one stream."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._window_us = options.nack_window_us
        self._reference = 0.0
        self._changed_us: int | None = None

    @property
    def window(self) -> int:
        """nwnd."""
        return ticks_in(self._window_us)

    def begin(self) -> None:
        """Small again: nothing is known of this recovery."""
        self._window_us = self._options.nack_window_us
        self._reference = 0.0
        self._changed_us = None

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """A round trip tells the rate."""
        if self._changed_us is not None and now_us - self._changed_us < rtt_us:
            return
        rate = self._window_us / max(1, rtt_us)
        step = self._options.nack_us
        if rate >= self._reference * (1 + self._options.nack_rise):
            self._window_us = min(self._window_us + step, self._options.receive_window_us)
        elif rate <= self._reference * (1 - self._options.nack_fall):
            self._window_us = max(self._window_us - step, step)
        else:
            return
        self._reference = rate
        self._changed_us = now_us
