"""Acknowledgements held back so that publishers keep to a rate: one every 1/r seconds, a few at once."""

from __future__ import annotations

from collections import deque
from math import isfinite
from typing import Final

BURST_US: Final = 50_000
"""Acknowledgements that were due within this time may go together: publishers are not metronomes."""


class AckShaper:
    """A queue of ticks whose acknowledgement waits."""

    __slots__ = ("_due_us", "_held", "_was_held")

    def __init__(self) -> None:
        self._held: deque[int] = deque()
        self._due_us = 0.0
        self._was_held = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, tick: int) -> None:
        """One more is durable."""
        self._held.append(tick)

    def release(self, rate: float, *, now_us: int) -> list[int]:
        """Those that may be acknowledged now."""
        released = []
        if not isfinite(rate):
            released = list(self._held)
            self._held.clear()
            self._due_us = now_us
            return released
        self._due_us = max(self._due_us, now_us - BURST_US)
        while self._held and self._due_us <= now_us:
            released.append(self._held.popleft())
            self._due_us += 1_000_000 / rate
        self._was_held |= bool(self._held)
        return released

    def due_us(self) -> int | None:
        """When the next may go; None if none waits."""
        return int(self._due_us) + 1 if self._held else None

    def throttled(self) -> bool:
        """Whether one had to wait since this was asked last."""
        found, self._was_held = self._was_held or bool(self._held), False
        return found
