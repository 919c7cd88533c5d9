"""Controllers of the publishing rate (PDCC, steady) and of the NACK window (SDCC), and their interfaces.

PDCC is the paper's control of the publishing rate (§3.1). Without an alert for t_nouca while throttled: r ←
max(r + r_min, r + f_incr·(r − r_decr)), equation 1. On an alert: r ← max(f_decr1·r, r_decr + f_decr2·(r −
r_decr)) if r has grown since, equation 2, else f_decr1·r, equation 3; r_decr is the rate after the last
decrease. Alerts are ignored until the system has seen the last decrease, and while things improve.

Steady is ours: publish as much as the slowest stream takes, with a short queue before it. The paper leaves
the rates in alerts unused (§7). Here streams answer every query with the tick they have reached and how far
behind they are. A pubend knows how many messages it published up to each tick, and so how many the slowest
stream took since the last answer. It publishes as many, a little more while that stream is less than TARGET
behind and a little less while it is more: the bottleneck never runs dry, and its queue stays short. If
streams that recover, and need more than the stream's rate, do not get it, the rate falls until they do.

SDCC is the paper's control of the NACK window (§3.2): r = nwnd / RTT, equation 9. When r has risen by α_NACK
since the last change, nwnd grows by size_NACK; when it has fallen by β_NACK, nwnd shrinks by as much; at most
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
    """Sets the publishing rate of a pubend."""

    @property
    def rate(self) -> float:
        """Messages per second that may be acknowledged; infinity: unlimited."""
        ...

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """A query is sent; `published` messages since the start lie before its `position`."""
        ...

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """An alert arrived."""
        ...


class NackControl(Protocol):
    """Sets the NACK window of a recovering stream."""

    @property
    def window(self) -> int:
        """Window in ticks, from the doubt horizon on."""
        ...

    def begin(self) -> None:
        """A recovery begins."""
        ...

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """A NACK was answered completely after this round trip."""
        ...


class Unlimited:
    """No control: everything is acknowledged at once."""

    rate = NO_RATE

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Ignored."""

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """Ignored."""


class WholeWindow:
    """No control: the NACK window is always the receive window."""

    def __init__(self, window: int) -> None:
        self.window = window

    def begin(self) -> None:
        """Ignored."""

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """Ignored."""


class Pdcc:
    """The paper's control of a pubend's rate."""

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
        """r of the paper."""
        return self._rate

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Measure the published rate; increase r if no alert came."""
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
        """Decrease r, unless it is too early to tell or things improve."""
        self._alerted_us = now_us
        previous, self._previous = self._previous, alert
        if self._first_number is None or alert.number < self._first_number:
            return
        if previous is not None and _better(alert, previous):
            return
        rate = self._rate
        if not self._binds:  # first lower the limit to the published rate, else alerts have no effect
            rate = min(rate, max(self._measured, self._options.rate_step))
        lower = self._options.decrease * rate
        if rate > self._decreased_to:
            last = self._decreased_to
            lower = max(lower, last + self._options.decrease_to_last * (rate - last))
        self._rate = self._decreased_to = max(lower, self._options.rate_step)
        self._first_number = None


def _better(alert: Alert, previous: Alert) -> bool:
    """Whether both rates rose since the previous alert; an unknown rate counts as not worse."""
    pairs = ((alert.keeping, previous.keeping), (alert.recovering, previous.recovering))
    told = [(new, old) for new, old in pairs if isfinite(new)]
    return all(new > old for new, old in told if isfinite(old)) and any(isfinite(old) for _, old in told)


TARGET_S: Final = 0.5
"""Lag aimed at for the slowest stream: a queue that survives a second without an answer."""

QUEUE_S: Final = 0.1
"""Lag from which on a stream counts as queued: what it takes is what the bottleneck carries."""

GAIN: Final = 0.2
"""Gain per second: a queue that is a second too long is reduced in five seconds."""

GROWTH: Final = 0.05
"""Added to the growth with each consecutive answer without a queue, up to GROWTH_MOST."""

GROWTH_MOST: Final = 0.3

HISTORY: Final = 256
"""Queries remembered: a stream that is four minutes behind recovers, and is not measured in messages."""


class Steady:
    """Our control of a pubend's rate: follows the slowest stream."""

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
        """Rate that may be published."""
        return self._rate

    def asked(self, number: int, *, position: int, published: int, throttled: bool, now_us: int) -> None:
        """Remember how many messages were published up to this tick."""
        del now_us
        self._throttled = throttled
        self._queries.append((number, position, published))

    def alerted(self, alert: Alert, *, now_us: int) -> None:
        """Adjust the rate to the lag of the slowest stream."""
        if isfinite(alert.recovering) and alert.recovering < 1 + self._options.recovering_gain:
            self._give_way()
        elif isfinite(alert.keeping):
            self._follow(alert, now_us=now_us)

    def _give_way(self) -> None:
        """A recovering stream is too slow: leave it a tenth more of the link, with each such alert."""
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
            # A fall by a third or more is a new bottleneck, not noise.
            fresh = per_s < 0.7 * self._capacity
            self._capacity = per_s if fresh else 0.5 * (self._capacity + per_s)
        elif not self._throttled or not isfinite(self._capacity):
            return  # publishers send less than the limit: nothing to adjust
        else:
            self._free += 1
            self._capacity *= 1 + min(GROWTH_MOST, GROWTH * self._free)
        correction = max(-0.5, GAIN * (TARGET_S - behind_s))
        self._capacity = max(self._capacity, self._options.rate_step)
        self._rate = self._capacity * (1 + correction)

    def _taken_at(self, alert: Alert) -> float | None:
        """Messages up to the tick the slowest stream has reached, interpolated between two queries."""
        # By tick, not by query number: a folded alert may hold the answer to an earlier query.
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
    """The paper's control of a NACK window."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._window_us = options.nack_window_us
        self._reference = 0.0
        self._changed_us: int | None = None

    @property
    def window(self) -> int:
        """nwnd of the paper."""
        return ticks_in(self._window_us)

    def begin(self) -> None:
        """Start small: nothing is known about this recovery."""
        self._window_us = self._options.nack_window_us
        self._reference = 0.0
        self._changed_us = None

    def answered(self, rtt_us: int, *, now_us: int) -> None:
        """Update the recovery rate from a round trip."""
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
