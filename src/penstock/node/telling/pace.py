"""How fast one subscriber may be told: a burst, then evenly (the generic cell rate algorithm)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits

if TYPE_CHECKING:
    from penstock.model.instant import Instant


class Pace:
    """For each subscriber, when the next message would be on time if all had come evenly."""

    def __init__(self, *, interval_us: int, burst: int) -> None:
        self._interval_us = interval_us
        self._spare_us = interval_us * (burst - 1)
        self._due_us: dict[str, Instant] = {}

    def wait_us(self, who: str, *, now_us: Instant) -> int:
        """How long to wait before the next message; 0: none."""
        due_us = self._due_us.get(who, now_us)
        wait_us = due_us - self._spare_us - now_us
        if wait_us > self._interval_us:  # the clock was set back: nobody waits longer than once
            self._due_us[who] = now_us + self._interval_us + self._spare_us
            return self._interval_us
        return max(0, wait_us)

    def spend(self, who: str, *, now_us: Instant) -> None:
        """A message goes out."""
        self._due_us[who] = max(self._due_us.get(who, now_us), now_us) + self._interval_us
        if len(self._due_us) > limits.TELL_PACES:
            self._due_us = {one: due_us for one, due_us in self._due_us.items() if due_us > now_us}
