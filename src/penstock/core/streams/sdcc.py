"""SDCC, the paper's control of the NACK window (§3.2): additive increase and decrease by the recovery rate.

r = nwnd / RTT, equation 9. Once r has risen by α_NACK since the last change, nwnd grows by size_NACK; once it
has fallen by β_NACK, nwnd shrinks by as much; at most once in a round trip, equation 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.streams.tick import ticks_in

if TYPE_CHECKING:
    from penstock.core.streams.options import StreamOptions


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
