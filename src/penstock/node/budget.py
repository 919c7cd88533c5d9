"""How much a client may publish: what it sends beyond its rates is read later."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.instant import Instant


class Budget:
    """A client's rates, and what it has used of them."""

    __slots__ = ("_bytes", "_bytes_per_s", "_last_us", "_messages", "_messages_per_s")

    def __init__(self, messages_per_s: float, bytes_per_s: float, *, now_us: Instant) -> None:
        self._messages_per_s = messages_per_s
        self._bytes_per_s = bytes_per_s
        self._messages = 0.0
        self._bytes = 0.0
        self._last_us = now_us

    def spend(self, messages: int, size: int) -> None:
        """So much was sent."""
        self._messages += messages
        self._bytes += size

    def owed_s(self, now_us: Instant) -> float:
        """Seconds until the rates are met again, a second's worth being free."""
        passed_s = (now_us - self._last_us) / 1_000_000
        self._last_us = now_us
        owed_s = 0.0
        if self._messages_per_s:
            self._messages = max(0.0, self._messages - passed_s * self._messages_per_s)
            owed_s = self._messages / self._messages_per_s - 1
        if self._bytes_per_s:
            self._bytes = max(0.0, self._bytes - passed_s * self._bytes_per_s)
            owed_s = max(owed_s, self._bytes / self._bytes_per_s - 1)
        return max(0.0, owed_s)
