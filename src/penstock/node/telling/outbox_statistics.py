"""The account of what subscribers are told."""

from __future__ import annotations

from typing import NamedTuple


class OutboxStatistics(NamedTuple):
    """All queues together; the numbers are changes."""

    taken: int
    """Accepted, those of an earlier run that still waited included."""
    told: int
    """Sent one by one."""
    digested: int
    """Counted in digests that were sent."""
    waiting: int
    """Not sent yet, one by one or in digests."""
    forgotten: int
    """Their subscription ended first."""
    subscribers: int
    """For whom something waits."""

    @property
    def conserved(self) -> bool:
        """Whether every change is accounted for."""
        return self.taken == self.told + self.digested + self.waiting + self.forgotten
