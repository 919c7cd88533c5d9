"""How long the last messages took, from arrival to being handed to the transport."""

from __future__ import annotations

from collections import deque

from penstock import limits


class Latency:
    """The last samples; quantiles are worked out when somebody looks."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[int] | None = None

    def add(self, took_us: int) -> None:
        """A message was sent."""
        if self._samples is None:
            self._samples = deque(maxlen=limits.LATENCY_SAMPLES)
        self._samples.append(took_us)

    def quantiles(self) -> tuple[int, int]:
        """Median and 99th percentile of the last samples; 0 if there are none."""
        if not self._samples:
            return 0, 0
        ordered = sorted(self._samples)
        last = len(ordered) - 1
        return ordered[last // 2], ordered[last * 99 // 100]
