"""Cursors: the durable position of each session in each stream, one row of the state file for each pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from penstock.node.streams.log.tables import StateTable

if TYPE_CHECKING:
    from penstock.node.streams.log.state import StateFile

CURSORS: Final = "cursors"
"""Table of the state file: (client identifier, stream) → the cursor."""


class Flight(msgspec.Struct, array_like=True, gc=False):
    """A QoS 2 message that its client has not completed."""

    tick: int
    packet_id: int
    released: bool = False
    """The client has the message; its PUBCOMP is missing."""


class Cursor(msgspec.Struct, array_like=True):
    """The position of a session in a stream."""

    born_us: int
    """When the session began: tells it from an earlier session of the same client."""
    acked: int
    """The client has, or does not want, everything before this tick; negative: nothing has been sent yet."""
    starts: dict[str, int] = {}
    """The tick at which each subscription begins, by filter."""
    given: int = 0
    """Messages before this tick were sent; those neither in `flight` nor in `lesser` are acknowledged."""
    flight: list[Flight] = []
    """QoS 2 messages in flight, in the order of their ticks."""
    rewound: dict[str, int] = {}
    """Subscriptions that begin at an earlier tick as soon as nothing is in flight."""
    lesser: list[int] = []
    """Ticks before `given` of messages that were sent with QoS 1 and are not acknowledged."""


CursorTable: TypeAlias = StateTable[Cursor]


def open_cursors(state: StateFile) -> CursorTable:
    """The table of cursors in a state file; its keys are (client identifier, stream)."""
    return StateTable(state, CURSORS, Cursor, width=2)
