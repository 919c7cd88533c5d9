"""How fast a doubt horizon moves, in tick-seconds per second, smoothed (§3.1, equations 5 and 11)."""

from __future__ import annotations

from penstock.core.streams.tick import TICKS_PER_S


class HorizonMeter:
    """Read once for each query; starts at the rate of a stream that keeps up."""

    __slots__ = ("_at_us", "_horizon", "_smoothing", "rate")

    def __init__(self, smoothing: float) -> None:
        self._smoothing = smoothing
        self._at_us: int | None = None
        self._horizon = 0
        self.rate = 1.0

    def read(self, horizon: int, *, at_end: bool, now_us: int) -> float:
        """The smoothed rate up to now; a stream that is at its end keeps up, however slow that is."""
        if self._at_us is not None and now_us > self._at_us:
            newest = (horizon - self._horizon) / TICKS_PER_S * 1_000_000 / (now_us - self._at_us)
            if at_end:  # the pubend's clock may stand still: after it was set back, or after a restart
                newest = max(newest, 1.0)
            self.rate += self._smoothing * (newest - self.rate)
        self._at_us = now_us
        self._horizon = horizon
        return self.rate
