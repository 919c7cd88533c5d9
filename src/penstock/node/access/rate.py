"""The rate limiter of a node: so much at once, then an even rate (generic cell rate algorithm).

A limit is kept as one moment: when all that was used so far would have been due, had it come evenly. What
comes earlier than that is ahead of its time, and so much as the burst allows may be. The algorithm is that of
ATM (ITU-T I.371) and equals a token bucket, with neither tokens nor a timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from penstock.model.instant import Instant


class RateLimit:
    """One limit. `interval_us` is the time of one unit at the even rate, `ahead_us` the size of a burst."""

    __slots__ = ("_ahead_us", "_due_us", "_interval_us")

    def __init__(self, *, interval_us: float, ahead_us: float) -> None:
        self._interval_us = interval_us
        self._ahead_us = ahead_us
        self._due_us: float = 0

    @classmethod
    def of(cls, per_s: float, *, ahead_s: float) -> RateLimit:
        """Make a limit of `per_s` units a second; the units of `ahead_s` may be used at once."""
        return cls(interval_us=SECOND_US / per_s, ahead_us=ahead_s * SECOND_US)

    def spend(self, amount: float, *, now_us: Instant) -> None:
        """Count units as used, whether or not they should have waited."""
        self._due_us = max(self._due_us, now_us) + amount * self._interval_us

    def wait_us(self, *, now_us: Instant) -> float:
        """Return how long to wait before the next unit; 0: not at all."""
        return max(0, self._due_us - self._ahead_us - now_us)

    def take(self, *, now_us: Instant) -> bool:
        """Use one unit now, unless it would have to wait; return whether it was used."""
        self.bound(now_us=now_us)
        if self.wait_us(now_us=now_us):
            return False
        self.spend(1, now_us=now_us)
        return True

    def bound(self, *, now_us: Instant) -> None:
        """Limit the wait to one unit, whatever was used and however the clock was set."""
        self._due_us = min(self._due_us, now_us + self._ahead_us + self._interval_us)


class ClientRates:
    """The rates of one client: a second's worth of messages and of bytes may come at once."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self, messages_per_s: float, bytes_per_s: float) -> None:
        self._messages = RateLimit.of(messages_per_s, ahead_s=1) if messages_per_s else None
        self._bytes = RateLimit.of(bytes_per_s, ahead_s=1) if bytes_per_s else None

    def spend(self, messages: int, size: int, *, now_us: Instant) -> None:
        """Count what the client has sent."""
        if self._messages is not None:
            self._messages.spend(messages, now_us=now_us)
        if self._bytes is not None:
            self._bytes.spend(size, now_us=now_us)

    def wait_s(self, *, now_us: Instant) -> float:
        """Return how long the client must not be read, so that it keeps to its rates."""
        limits_ = (self._messages, self._bytes)
        return max(limit.wait_us(now_us=now_us) for limit in limits_ if limit is not None) / SECOND_US


class RateLimits:
    """A limit for each key: `burst` units at once. Only the keys seen last are remembered."""

    __slots__ = ("_ahead_us", "_interval_us", "_keys", "_limits")

    def __init__(self, *, interval_us: float, burst: float, keys: int) -> None:
        self._interval_us = interval_us
        self._ahead_us = interval_us * (burst - 1)
        self._keys = keys
        self._limits: dict[str, RateLimit] = {}

    def wait_us(self, key: str, *, now_us: Instant) -> float:
        """Return how long a key has to wait before its next unit; 0: not at all."""
        limit = self._limits.get(key)
        if limit is None:
            return 0
        limit.bound(now_us=now_us)
        return limit.wait_us(now_us=now_us)

    def take(self, key: str, *, now_us: Instant) -> bool:
        """Use one unit of a key now, unless it would have to wait; return whether it was used."""
        if self.wait_us(key, now_us=now_us):
            return False
        self.spend(key, now_us=now_us)
        return True

    def spend(self, key: str, *, now_us: Instant) -> None:
        """Count one unit of a key as used."""
        limit = self._limits.pop(key, None) or RateLimit(
            interval_us=self._interval_us, ahead_us=self._ahead_us
        )
        limit.spend(1, now_us=now_us)
        limit.bound(now_us=now_us)
        self._limits[key] = limit  # behind all others: the first one was not seen for longest
        if len(self._limits) > self._keys:
            del self._limits[next(iter(self._limits))]
