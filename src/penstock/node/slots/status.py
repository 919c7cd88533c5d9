"""What can be known about flows: frozen snapshots for the API, the dashboard and metrics."""

from __future__ import annotations

import msgspec


class FlowRow(msgspec.Struct, frozen=True, gc=False):
    """A flow in one line."""

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
    """How far from its expected time a message is still on time."""
    arrivals: int
    on_time: int
    late: int
    missed: int
    excess: int
    """Messages beyond its rate."""
    on_time_rate: float
    """Of its last messages while it was served."""
    since_us: int
    """When its state began."""
    last_us: int
    """When its last message came."""
    reason: str
    """Why it is not served."""


class FlowsStatus(msgspec.Struct, frozen=True, gc=False):
    """All flows of a node in figures."""

    known: int
    served: int
    silent: int
    refused: dict[str, int]
    """Flows not admitted or served no more, by reason; each time counts."""
    alarms: int
    """Flows that fell silent so far."""
    reserved: int
    """Messages that came in their slots."""
    best_effort: int
    late: int
    fullest: float
    """Share taken of the fullest slot ahead."""
    forgotten: int
    turned_away: int
    """Flows that found the table full."""
    table_version: int = 0
    """Of the control table in force; 0: none."""
    table_fault: str = ""
    """Why the newest version of it is not in force."""
