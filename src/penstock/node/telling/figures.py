"""Telling in figures, for the node's status and its metrics."""

from __future__ import annotations

import msgspec


class TellingFigures(msgspec.Struct, frozen=True):
    """taken = told + digested + waiting + forgotten, always; the numbers are changes."""

    taken: int
    """Accepted for subscribers, those of an earlier run that still waited included."""
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
    failing: int
    """Subscribers that could not be reached at the last attempt."""
