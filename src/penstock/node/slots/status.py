"""Figures of all flows together; those of one flow are in `core.slots.flows`."""

from __future__ import annotations

import msgspec


class SlotsStatus(msgspec.Struct, frozen=True, gc=False):
    """Slots of one length."""

    slot_us: int
    window_us: int
    """The longest period that is served in them."""


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
    retried: int
    """Messages recognised as retries."""
    unlisted: int
    """Messages in slots of flows without an entry in the table."""
    fullest: float
    """Share taken of the fullest slot ahead, on the fullest link."""
    fullest_link: str
    """Client at the end of that link."""
    links: int
    """Links on which flows have places."""
    memory_bytes: int
    """Memory of all filters; it does not grow with the number of flows."""
    false_positive: float
    """Probability that the fullest filter finds a flow that it was not told of."""
    slots: list[SlotsStatus]
    """The lengths of slots, ascending."""
    forgotten: int
    turned_away: int
    """Flows that found the table full."""
    table_version: int = 0
    """Version of the control table in force; 0: none."""
    table_fault: str = ""
    """Why the newest version of the table is not in use."""
