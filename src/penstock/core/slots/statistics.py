"""Snapshots of flows for the API, in a file without numpy: a node without flows does not load it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatistics:
    """A flow at a moment."""

    client_id: str
    topic: str
    state: str
    """learning, served, refused or silent."""
    told: str
    """Where its period is known from: client, table or detected; empty if it is not known."""
    period_us: int
    jitter_us: int
    """Standard deviation around the expected times."""
    tolerance_us: int
    """How much earlier or later than expected a packet is still on time."""
    arrivals: int
    on_time: int
    """While it was served."""
    late: int
    """While it was served: outside its slots."""
    missed: int
    """While it was served: did not come."""
    excess: int
    """Beyond its rate."""
    on_time_rate: float
    """Of its last packets while it was served."""
    since_us: int
    """When its state began."""
    last_us: int
    reason: str
    """Why it is not served."""
