"""Snapshots of flows for the API, in a file without numpy: a node without flows does not load it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatistics:
    """Figures of a flow at one moment."""

    client_id: str
    topic: str
    state: str
    """learning, served, refused or silent."""
    told: str
    """Source of its period: client, table or detected; empty if unknown."""
    pattern: str
    """constant, retries, or empty if none is known."""
    period_us: int
    """Period of the flow; for retries, the pause before the first one."""
    jitter_us: int
    """Standard deviation of arrivals around the expected times."""
    tolerance_us: int
    """How much earlier or later than expected a packet is still on time."""
    arrivals: int
    on_time: int
    """Packets in their slots while served."""
    late: int
    """Packets outside their slots while served."""
    missed: int
    """Expected packets that did not come while served."""
    excess: int
    """Packets beyond its rate."""
    retried: int
    """Packets recognised as retries."""
    links: int
    """Links of receivers on which it has places."""
    links_refused: int
    """Links of receivers that have no place for it: it is best effort there."""
    on_time_rate: float
    """Share of its last packets that were on time while served."""
    since_us: int
    """When its state began."""
    last_us: int
    reason: str
    """Why it is not served."""
