"""PDCC, the paper's control of the rate of publishing (§3.1): slow, hybrid increase; decrease on alerts.

No alert for t_nouca and throttled: r ← max(r + r_min, r + f_incr·(r − r_decr)), equation 1. On an alert: r ←
max(f_decr1·r, r_decr + f_decr2·(r − r_decr)) if r has grown since, equation 2, else f_decr1·r, equation 3;
r_decr is the rate after the last decrease. Alerts are passed over while the system has not seen the last
decrease, and while things get better.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from penstock.core.streams.messages import NO_RATE

if TYPE_CHECKING:
    from penstock.core.streams.messages import Alert
    from penstock.core.streams.options import StreamOptions


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
