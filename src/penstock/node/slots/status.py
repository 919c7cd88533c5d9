"""Figures of all flows together; those of one flow are in `core.slots.flows`."""

from __future__ import annotations

import msgspec


class FlowsStatus(msgspec.Struct, frozen=True, gc=False):
    """All flows of a node in figures."""

    known: int
    served: int
    silent: int
    refused: dict[str, int]
    """Flows not admitted or no longer served, by reason; each occurrence counts."""
    alarms: int
    """Flows that fell silent so far."""
    reserved: int
    """Messages that came in their slots."""
    best_effort: int
    late: int
    requests: dict[str, int]
    """Messages that take a place or are refused, by the answer: accepted, again, rejected."""
    fullest: float
    """Share taken of the fullest slot ahead."""
    forgotten: int
    turned_away: int
    """Flows that found the table full."""
    table_version: int = 0
    """Version of the control table in force; 0: none."""
    table_fault: str = ""
    """Why the newest version of the table is not in use."""
